import type { Claims } from "./claims.js";
import { InvalidToken } from "./errors.js";
import { keyId, publicKeys, verified } from "./jwt.js";
import { decoded, errorOf, unexpected } from "./reading.js";
import type { Requests } from "./retries.js";

const FRESH_SECONDS = 900; // As long as the issuer says that its keys may be kept.
const STALE_SECONDS = 3600;
const PAUSE_SECONDS = 10;

/** The keys with which one issuer signs, fetched when they are needed and kept for a while.
 *
 * Keys are fetched again once they are a quarter of an hour old, so that a withdrawn one ends, and where a token names one that
 * is not known: a new one. Never within ten seconds of the last time, though, as anybody can name keys that do not exist. While
 * the issuer does not answer, known keys hold for an hour: it is asked without repetitions then, and nobody else waits for that.
 * A time that is still to come was noted while the clock was ahead: nobody can tell how long ago that is, so the keys are
 * fetched at once.
 */
export class Keys {
  readonly #issuer: string;
  readonly #requests: Requests;
  #keys = new Map<string, CryptoKey>();
  #fetchedAt = -Infinity;
  #triedAt = -Infinity;
  #fetching = false;
  #last: Promise<void> | undefined;

  /** `issuer` is the authorization server's address. */
  constructor(issuer: string, requests: Requests) {
    this.#issuer = issuer;
    this.#requests = requests;
  }

  /** What a token for this audience says.
   *
   * Throws `InvalidToken` for one that must not be believed, `ConnectionFailed` and `APIError` where the keys cannot be had.
   */
  async verify(token: string, audience: string): Promise<Claims> {
    const key = await this.#key(await keyId(token));
    return verified(token, key, { issuer: this.#issuer, audience, now: this.#requests.clock() });
  }

  async #key(kid: string): Promise<CryptoKey> {
    const holds = this.#knows(kid, STALE_SECONDS);
    const paused = this.#requests.clock() - this.#triedAt;
    const due = !this.#fetching && !(0 <= paused && paused < PAUSE_SECONDS);
    if (!this.#knows(kid, FRESH_SECONDS) && (due || !holds)) {
      if (due) this.#last = this.#fetch(holds ? 0 : undefined);
      try {
        await this.#last;
      } catch (error) {
        if (!this.#knows(kid, STALE_SECONDS)) throw error;
      }
    }
    const key = this.#keys.get(kid);
    if (!key) throw new InvalidToken("it is signed with a key that the issuer does not have");
    return key;
  }

  #knows(kid: string, seconds: number): boolean {
    const age = this.#requests.clock() - this.#fetchedAt;
    return this.#keys.has(kid) && 0 <= age && age <= seconds;
  }

  async #fetch(times: number | undefined): Promise<void> {
    this.#fetching = true;
    try {
      const answer = await this.#requests.send({ method: "GET", url: `${this.#issuer}/.well-known/jwks.json` }, times);
      if (answer.status !== 200) throw errorOf(answer);
      const { keys } = decoded<{ keys?: unknown } | null>(answer) ?? {};
      if (!Array.isArray(keys)) throw unexpected(answer);
      this.#keys = await publicKeys(keys);
      this.#fetchedAt = this.#requests.clock();
    } finally {
      this.#triedAt = this.#requests.clock();
      this.#fetching = false;
    }
  }
}
