import type { Claims } from "./claims.js";

/** Returns the code that the authenticator app shows, or a recovery code. */
export type Otp = () => string | Promise<string>;

class ByPassword {
  readonly email: string;
  readonly #password: string;
  readonly #otp: Otp | undefined;

  /** `otp` is called at each sign-in, for accounts with a second factor. After a code was refused the next call asks for
   * another; the same one is not sent again. */
  constructor(email: string, password: string, { otp }: { readonly otp?: Otp | undefined } = {}) {
    this.email = email;
    this.#password = password;
    this.#otp = otp;
  }

  /** @internal The body of a request that signs in. */
  async fields(): Promise<{ email: string; password: string; otp?: string }> {
    const code = this.#otp ? { otp: await this.#otp() } : {};
    return { email: this.email, password: this.#password, ...code };
  }
}

/** Signs in by e-mail and password for a JSON Web Token.
 *
 * The client signs in at the first call, refreshes the token before it ends, and signs in again where that is not possible.
 */
export class Login extends ByPassword {
  /** What the authorization server calls it. */
  readonly kind = "login";
}

/** Signs in by e-mail and password for a session cookie. In Node: browsers show no program a cookie.
 *
 * The client signs in at the first call, and again once the session has ended: 30 minutes after its last call, or 24 hours
 * after it began.
 */
export class SessionLogin extends ByPassword {
  readonly kind = "session";
}

/** What is told when tokens were renewed. */
export type OnChange = (tokens: OAuthTokens) => unknown;

/** What `OAuthTokens` is made of, and what `JSON.stringify` makes of it. */
export interface TokenFields {
  readonly accessToken: string;
  readonly refreshToken?: string | undefined;
  readonly clientId: string;
  readonly clientSecret?: string | undefined;
  /** When the access token ends, where that is known: a time, or its text. */
  readonly expiresAt?: Date | string | undefined;
  readonly scopes?: readonly string[] | undefined;
  readonly identity?: Claims | undefined;
}

/** What an application holds of a user who signed in by OAuth.
 *
 * A refresh token is good for one use, and its reuse ends all: the call that renews the tokens calls `onChange` with the new
 * ones and awaits it before it goes on, so that they can be stored. What it throws that call throws, and the next call tells
 * it again first. Calls that come meanwhile use the new tokens and do not wait for it, so it may make calls itself.
 * `scopes` is what the user granted; `identity` is who signed in, where `openid` was asked for. Without a `refreshToken` the
 * tokens end with the access token. Printing it shows no secret; `JSON.stringify` makes a text of all of it, to be stored, and
 * `new OAuthTokens(JSON.parse(text))` reads that.
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

  /** All of it but `onChange`. */
  toJSON(): TokenFields {
    const { clientId, expiresAt, scopes, identity } = this;
    return { ...this.#secrets, clientId, expiresAt, scopes, identity };
  }

  /** The same, but for these. */
  with(changes: Partial<TokenFields>, onChange = this.onChange): OAuthTokens {
    return new OAuthTokens({ ...this.toJSON(), ...changes }, { onChange });
  }
}

/** A way to sign in other than by API key. */
export type Credential = Login | SessionLogin | OAuthTokens;
