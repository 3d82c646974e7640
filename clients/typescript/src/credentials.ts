import type { Claims } from "./claims.js";

/** Returns the code that the authenticator app shows, or a recovery code. */
export type Otp = () => string | Promise<string>;

class ByPassword {
  readonly email: string;
  readonly #password: string;
  readonly #otp: Otp | undefined;

  /** `otp` is called at each sign-in, for accounts with a second factor. After a code was refused, the next call asks for
   * another; the same code is not sent again. */
  constructor(email: string, password: string, { otp }: { readonly otp?: Otp | undefined } = {}) {
    this.email = email;
    this.#password = password;
    this.#otp = otp;
  }

  /** @internal The body of a request that signs in. */
  async fields(): Promise<{ email: string; password: string; otp?: string }> {
    return { email: this.email, password: this.#password, ...(this.#otp && { otp: await this.#otp() }) };
  }
}

/** Signs in by e-mail and password for a JSON Web Token.
 *
 * The client signs in at the first call, refreshes the token before it expires, and signs in again if that is not possible.
 */
export class Login extends ByPassword {
  /** Its name at the authorization server. */
  readonly kind = "login";
}

/** Signs in by e-mail and password for a session cookie. Only in Node: browsers hide cookies from programs.
 *
 * The client signs in at the first call, and again once the session has ended: 30 minutes after its last call, or 24 hours
 * after it began.
 */
export class SessionLogin extends ByPassword {
  readonly kind = "session";
}

/** The listener that is called with renewed tokens. */
export type OnChange = (tokens: OAuthTokens) => unknown;

/** The fields of `OAuthTokens`, and their form in JSON. */
export interface TokenFields {
  readonly accessToken: string;
  readonly refreshToken?: string | undefined;
  readonly clientId: string;
  readonly clientSecret?: string | undefined;
  /** When the access token expires, if that is known, as a Date or string. */
  readonly expiresAt?: Date | string | undefined;
  readonly scopes?: readonly string[] | undefined;
  readonly identity?: Claims | undefined;
}

/** The tokens of a user who signed in to an application by OAuth.
 *
 * A refresh token can be used once; reusing it revokes all tokens. So the call that renews the tokens calls `onChange` with the
 * new ones, to store them, and awaits it before it continues. If `onChange` throws, the call throws that error too, and the next
 * call calls `onChange` again first. Other calls meanwhile use the new tokens and do not wait, so `onChange` may make calls
 * itself. `scopes` are those that the user granted; `identity` is who signed in, if `openid` was requested. Without a
 * `refreshToken` the tokens cannot be renewed. Printing it shows no secret. Store `JSON.stringify(tokens)`, and restore them
 * with `new OAuthTokens(JSON.parse(text))`.
 */
export class OAuthTokens {
  readonly clientId: string;
  readonly expiresAt: Date | undefined;
  readonly scopes: readonly string[];
  readonly identity: Claims | undefined;
  readonly onChange: OnChange | undefined;
  readonly #secrets: Pick<TokenFields, "accessToken" | "refreshToken" | "clientSecret">;

  constructor(fields: TokenFields, { onChange }: { readonly onChange?: OnChange | undefined } = {}) {
    const { accessToken, refreshToken, clientSecret } = fields;
    this.clientId = fields.clientId;
    this.expiresAt = fields.expiresAt === undefined ? undefined : new Date(fields.expiresAt);
    this.scopes = fields.scopes ?? [];
    this.identity = fields.identity;
    this.onChange = onChange;
    this.#secrets = { accessToken, refreshToken, clientSecret };
  }

  get accessToken(): string {
    return this.#secrets.accessToken;
  }

  get refreshToken(): string | undefined {
    return this.#secrets.refreshToken;
  }

  get clientSecret(): string | undefined {
    return this.#secrets.clientSecret;
  }

  /** All fields except `onChange`. */
  toJSON(): TokenFields {
    const { clientId, expiresAt, scopes, identity } = this;
    return { ...this.#secrets, clientId, expiresAt, scopes, identity };
  }

  /** A copy with these changes. */
  with(changes: Partial<TokenFields>, onChange = this.onChange): OAuthTokens {
    return new OAuthTokens({ ...this.toJSON(), ...changes }, { onChange });
  }
}

/** A credential other than an API key. */
export type Credential = Login | SessionLogin | OAuthTokens;
