import { alone } from "./alone.js";
import type { Claims } from "./claims.js";
import { APIError, ConnectionFailed, InvalidToken, PorticoError } from "./errors.js";
import { keyId, publicKeys, verified } from "./jwt.js";
import { decoded, errorOf, unexpected } from "./reading.js";
import type { Requests } from "./retries.js";

const FRESH_SECONDS = 900; // As long as the issuer says that its keys may be kept.
const STALE_SECONDS = 3600;
const PAUSE_SECONDS = 10;

/** The keys with which one issuer signs, fetched when they are needed and kept for a while.
 *
 * Keys are fetched again once they are a quarter of an hour old, so that a withdrawn one ends, and where a token names one that
 * is not known: a new one. Never twice within ten seconds, though, as anybody can name keys that do not exist. While the issuer
 * does not answer, known keys hold for an hour.
 */
export class Keys {
  readonly #issuer: string;
  readonly #requests: Requests;
  readonly #alone = alone();
  #keys = new Map<string, CryptoKey>();
  #fetchedAt = -Infinity;
  #triedAt = -Infinity;
  #failure: PorticoError | undefined;

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
    if (!this.#knows(kid, FRESH_SECONDS)) {
      try {
        await this.#alone(() => this.#fetched(kid));
      } catch (error) {
        const away = error instanceof APIError || error instanceof ConnectionFailed;
        if (!away || !this.#knows(kid, STALE_SECONDS)) throw error;
      }
    }
    const key = this.#keys.get(kid);
    if (!key) throw new InvalidToken("it is signed with a key that the issuer does not have");
    return key;
  }

  #knows(kid: string, seconds: number): boolean {
    return this.#keys.has(kid) && this.#requests.clock() - this.#fetchedAt <= seconds;
  }

  /** Fetches the keys, unless somebody just did. */
  async #fetched(kid: string): Promise<void> {
    if (this.#knows(kid, FRESH_SECONDS)) return;
    if (this.#requests.clock() - this.#triedAt < PAUSE_SECONDS) {
      if (this.#failure) throw this.#failure;
      return;
    }
    this.#triedAt = this.#requests.clock();
    try {
      this.#keys = await this.#fetch();
    } catch (failure) {
      if (failure instanceof PorticoError) this.#failure = failure;
      throw failure;
    }
    this.#failure = undefined;
    this.#fetchedAt = this.#requests.clock();
  }

  async #fetch(): Promise<Map<string, CryptoKey>> {
    const answer = await this.#requests.send({ method: "GET", url: `${this.#issuer}/.well-known/jwks.json` });
    if (answer.status !== 200) throw errorOf(answer);
    const { keys } = decoded<{ keys?: unknown } | null>(answer) ?? {};
    if (!Array.isArray(keys)) throw unexpected(answer);
    return publicKeys(keys);
  }
}
