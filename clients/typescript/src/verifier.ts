import type { Claims } from "./claims.js";
import { authAddress } from "./environment.js";
import { Keys } from "./keys.js";
import { Requests } from "./retries.js";
import type { Options } from "./transport.js";

/** Verifies tokens of one issuer for one audience.
 *
 * The issuer's public keys are fetched when they are first needed, kept for a quarter of an hour, and fetched again where a
 * token names a new one; at most once in ten seconds. A verified token was good when it was issued: whether it was revoked
 * since, only the service itself can tell. Login tokens hold an hour at most.
 */
export class TokenVerifier {
  readonly #keys: Keys;
  readonly #audience: string;

  /** `issuer` is the `authUrl` of the service, `audience` what tokens must be meant for: the `baseUrl` for login tokens, a
   * client's id for ID tokens. */
  constructor(issuer: string, audience: string, options: Options = {}) {
    this.#keys = new Keys(authAddress(issuer), new Requests(options));
    this.#audience = audience;
  }

  /** What a token says, once signature (RS256), `exp`, `nbf`, `iss` and `aud` are right.
   *
   * Throws `InvalidToken` for one that must not be believed; `ConnectionFailed` and `APIError` where the issuer's keys cannot be
   * had.
   */
  verify(token: string): Promise<Claims> {
    return this.#keys.verify(token, this.#audience);
  }
}
