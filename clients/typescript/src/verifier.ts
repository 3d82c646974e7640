import type { Claims } from "./claims.js";
import { authAddress } from "./environment.js";
import { Keys } from "./keys.js";
import { Requests } from "./retries.js";
import type { Options } from "./transport.js";

/** Verifies tokens of one issuer for one audience.
 *
 * The issuer's public keys are fetched when they are first needed, cached for 15 minutes, and fetched again if a token names a
 * new one; at most once in ten seconds. A verified token was valid when it was issued. Only Portico itself knows whether it was
 * revoked since. Login tokens are valid for an hour at most.
 */
export class TokenVerifier {
  readonly #keys: Keys;
  readonly #audience: string;

  /** `issuer` is the `authUrl` of the service. `audience` is what tokens must be issued for: the `baseUrl` for login tokens, a
   * client's id for ID tokens. */
  constructor(issuer: string, audience: string, options: Options = {}) {
    this.#keys = new Keys(authAddress(issuer), new Requests(options));
    this.#audience = audience;
  }

  /** The claims of a token, after checking its signature (RS256), `exp`, `nbf`, `iss` and `aud`.
   *
   * Throws `InvalidToken` if it must not be trusted; `ConnectionFailed` or `APIError` if the issuer's keys cannot be fetched.
   */
  verify(token: string): Promise<Claims> {
    return this.#keys.verify(token, this.#audience);
  }
}
