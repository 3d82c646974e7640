import type { Claims } from "./claims.js";
import { OAuthTokens, type OnChange } from "./credentials.js";
import { authAddress } from "./environment.js";
import { CallbackRejected, InvalidToken, OAuthError } from "./errors.js";
import { Keys } from "./keys.js";
import { decoded, errorOf } from "./reading.js";
import { Requests } from "./retries.js";
import { granted, tokenRequest } from "./tokens.js";
import type { Answer, Options } from "./transport.js";

/** The registration of an OAuth application. */
export interface OAuthOptions extends Options {
  readonly clientId: string;
  /** Undefined for a public client, such as a page. */
  readonly clientSecret?: string | undefined;
  /** A registered redirect URI. */
  readonly redirectUri: string;
  /** The authorization server's address. Default: `PORTICO_AUTH_URL`, or as in `Client`. */
  readonly authUrl?: string | undefined;
  /** Passed to the tokens, see `OAuthTokens`. */
  readonly onChange?: OnChange | undefined;
}

/** An authorization that has begun: send the browser to `url`.
 *
 * Keep it for this browser only, for example in its session, until the browser comes back; then drop it. All fields are
 * strings, so it can be stored as JSON.
 */
export interface Authorization {
  readonly url: string;
  readonly scope: string;
  readonly state: string;
  readonly nonce: string;
  readonly codeVerifier: string;
}

/** A registered OAuth application, which signs users in: the authorization code flow with state, nonce and PKCE (RFC 6749 as
 * restricted by RFC 9700; RFC 7636, RFC 9207, OpenID Connect Core). */
export class OAuthApp {
  readonly #issuer: string;
  readonly #redirectUri: string;
  readonly #keys: Keys;
  readonly #empty: OAuthTokens;
  readonly #requests: Requests;

  constructor(options: OAuthOptions) {
    const { clientId, clientSecret, redirectUri, authUrl, onChange } = options;
    this.#issuer = authAddress(authUrl);
    this.#redirectUri = redirectUri;
    this.#requests = new Requests(options);
    this.#keys = new Keys(this.#issuer, this.#requests);
    this.#empty = new OAuthTokens({ accessToken: "", clientId, clientSecret }, { onChange });
  }

  /** Begins to sign a user in: redirect the browser to the `url` of the result, and keep the result for this browser. `scope`
   * is space-separated; `openid` requests the user's identity. */
  async begin(scope: string): Promise<Authorization> {
    const [state, nonce, codeVerifier] = [random(), random(), random()];
    const parameters = new URLSearchParams({
      response_type: "code",
      client_id: this.#empty.clientId,
      redirect_uri: this.#redirectUri,
      scope,
      state,
      nonce,
      code_challenge: base64url(await sha256(codeVerifier)),
      code_challenge_method: "S256",
    });
    return { url: `${this.#issuer}/authorize?${parameters}`, scope, state, nonce, codeVerifier };
  }

  /** The tokens of the user. `callbackUrl` is the address at which the browser came back to the redirect URI.
   *
   * Throws `CallbackRejected` if the callback does not belong to `begun`, before its code is sent anywhere; `OAuthError` if the
   * user or the service refused; `InvalidToken` if the ID token is not valid.
   */
  async complete(callbackUrl: string | URL, begun: Authorization): Promise<OAuthTokens> {
    const { searchParams } = new URL(callbackUrl, this.#redirectUri);
    const code = codeOf(searchParams, begun.state, this.#issuer);
    const fields = {
      grant_type: "authorization_code",
      code,
      redirect_uri: this.#redirectUri,
      code_verifier: begun.codeVerifier,
    };
    const now = this.#requests.clock();
    const answer = await this.#requests.send(tokenRequest(`${this.#issuer}/token`, this.#empty, fields));
    if (answer.status !== 200) throw errorOf(answer);
    const tokens = granted(answer, this.#empty, now);
    if (!begun.scope.split(" ").includes("openid")) return tokens;
    return tokens.with({ identity: await this.#identity(answer, tokens, begun.nonce) });
  }

  /** Signs the user out: revokes the access and refresh token (RFC 7009). */
  async revoke(tokens: OAuthTokens): Promise<void> {
    const fields = { token: tokens.refreshToken ?? tokens.accessToken };
    const answer = await this.#requests.send(tokenRequest(`${this.#issuer}/revoke`, tokens, fields));
    if (answer.status !== 200) throw errorOf(answer);
  }

  /** Who signed in (OpenID Connect Core §3.1.3.7). */
  async #identity(answer: Answer, { accessToken, clientId }: OAuthTokens, nonce: string): Promise<Claims> {
    const { id_token: idToken } = decoded<{ id_token?: unknown }>(answer);
    if (typeof idToken !== "string") throw new InvalidToken("there is no ID token");
    const claims = await this.#keys.verify(idToken, clientId);
    if (!same(claims.all["nonce"], nonce)) throw new InvalidToken("its nonce does not match");
    const half = base64url((await sha256(accessToken)).slice(0, 16));
    if ("at_hash" in claims.all && !same(claims.all["at_hash"], half)) {
      throw new InvalidToken("it belongs to another access token");
    }
    return claims;
  }
}

/** The code of a callback with this state from this issuer (RFC 9207). */
function codeOf(sent: URLSearchParams, state: string, issuer: string): string {
  const names = [...sent.keys()];
  if (new Set(names).size < names.length) throw new CallbackRejected("the callback has a parameter twice");
  if (!same(sent.get("state"), state)) {
    throw new CallbackRejected("the callback's state does not match");
  }
  if (!same(sent.get("iss"), issuer)) throw new CallbackRejected("the callback comes from another issuer");
  const error = sent.get("error");
  if (error !== null) throw new OAuthError(0, error, sent.get("error_description") ?? error);
  const code = sent.get("code");
  if (!code) throw new CallbackRejected("the callback has no code");
  return code;
}

/** Compares a value with a string in constant time. */
function same(sent: unknown, ours: string): boolean {
  if (typeof sent !== "string" || sent.length !== ours.length) return false;
  let differs = 0;
  for (let place = 0; place < ours.length; place++) differs |= sent.charCodeAt(place) ^ ours.charCodeAt(place);
  return differs === 0;
}

function random(): string {
  return base64url(crypto.getRandomValues(new Uint8Array(32)));
}

async function sha256(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
}

function base64url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}
