import type { Claims } from "./claims.js";
import { InvalidToken } from "./errors.js";
import { keyId, publicKeys, verified } from "./jwt.js";
import { decoded, errorOf, unexpected } from "./reading.js";
import type { Requests } from "./retries.js";

const FRESH_SECONDS = 900; // How long the issuer allows its keys to be cached.
const STALE_SECONDS = 3600;
const PAUSE_SECONDS = 10;

/** The signing keys of one issuer, fetched when they are needed and cached.
 *
 * Keys are fetched again once they are 15 minutes old, so that a withdrawn key becomes invalid, and when a token names an
 * unknown key, which may be new. They are not fetched within ten seconds of the last time, since anybody can name keys that do
 * not exist. While the issuer does not respond, known keys stay valid for an hour; then it is asked without retries, and other
 * callers do not wait. If the time of the last fetch lies in the future, the clock was ahead and the age of the keys is
 * unknown, so they are fetched immediately.
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

  /** The claims of a token for this audience, of this `typ` if one is given.
   *
   * Throws `InvalidToken` if it must not be trusted, `ConnectionFailed` or `APIError` if the keys cannot be fetched.
   */
  async verify(token: string, audience: string, kind?: string): Promise<Claims> {
    const key = await this.#key(await keyId(token, kind));
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
