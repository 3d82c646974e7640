import { alone } from "./alone.js";
import { type Credential, Login, OAuthTokens, SessionLogin } from "./credentials.js";
import type { Addresses } from "./environment.js";
import { APIError } from "./errors.js";
import { errorOf, unexpected } from "./reading.js";
import type { Requests } from "./retries.js";
import { atEnd } from "./signals.js";
import { granted, isSendable, tokenRequest, tokensOf } from "./tokens.js";
import type { Answer, Request } from "./transport.js";

const MARGIN_SECONDS = 10; // How long before its expiry a token is renewed, as a request takes a while to arrive.

export const JSON_BODY = { "content-type": "application/json" };

/** The headers that authenticate requests, when they expire in Unix seconds, and what renews them. */
interface Proof {
  readonly headers: Readonly<Record<string, string>>;
  readonly expiresAt: number;
  readonly refreshToken?: string | undefined;
  /** Passed to the listener by the call that renewed them, before that continues. */
  readonly tokens?: OAuthTokens;
}

const NONE: Proof = { headers: {}, expiresAt: -Infinity };
const SESSION = /(?:^|[;,\s])(__(?:Host|Secure)-session=[!-+\--:<-~]+)(?![^;,\s])/;

/** Makes authenticated requests. One caller at a time renews the proof. */
export class Access {
  #proof: Proof = NONE;
  /** The tokens that the listener has received. */
  #told: OAuthTokens | undefined;
  #telling = false;
  #refusal: APIError | undefined;
  /** The one-time code that was refused, if it was that: another one may be accepted. */
  #refusedCode: string | undefined;
  readonly #renew: ((held: Proof) => Promise<Proof>) | undefined;
  readonly #ending: ((held: Proof) => Request) | undefined;
  readonly #alone = alone();

  /** `credential` is an API key, an access token, or another credential. */
  constructor(
    readonly addresses: Addresses,
    readonly requests: Requests,
    credential: string | Credential,
  ) {
    const { base, auth } = addresses;
    if (typeof credential === "string") {
      this.#proof = keyProof(credential);
    } else if (credential instanceof Login) {
      this.#renew = (held) => this.#login(credential, held);
      this.#ending = ({ refreshToken }) => post(`${auth}/logout`, { refresh_token: refreshToken });
    } else if (credential instanceof SessionLogin) {
      this.#renew = () => this.#session(credential);
      this.#ending = ({ headers }) => ({ method: "DELETE", url: `${base}/sessions`, headers });
    } else {
      this.#proof = oauthProof(credential);
      if (credential.refreshToken !== undefined) this.#renew = ({ tokens }) => this.#oauth(tokens ?? credential);
    }
    this.#told = this.#proof.tokens;
  }

  /** The response to a request at a path below the base address. Throws `APIError` unless it succeeds, and
   * `ConnectionFailed`. */
  async success(request: Omit<Request, "url"> & { path: string }): Promise<Answer> {
    const { path, ...rest } = request;
    const answer = await this.#answer({ ...rest, url: this.addresses.base + path });
    if (answer.status < 200 || answer.status >= 300) throw errorOf(answer);
    return answer;
  }

  /** Ends the login or session, if there is one. Throws TypeError if the client does not sign in itself. */
  async end(signal?: AbortSignal): Promise<void> {
    const ending = this.#ending;
    if (!ending) throw new TypeError("an API key or tokens cannot be logged out: revoke them");
    const work = async () => {
      if (this.#proof !== NONE) {
        const answer = await this.requests.send({ ...ending(this.#proof), signal });
        if (answer.status !== 204 && answer.status !== 401) throw errorOf(answer); // 401: it had ended already
      }
      this.#proof = NONE;
    };
    await until(signal, () => this.#alone(work));
  }

  /** Uses another API key from now on. */
  switch(apiKey: string): void {
    this.#proof = keyProof(apiKey);
  }

  /** The response to an authenticated request. If it is 401, nothing was done, so the request is repeated once with a new
   * proof. */
  async #answer(request: Request): Promise<Answer> {
    const carrying = ({ headers }: Proof) => ({ ...request, headers: { ...request.headers, ...headers } });
    const proof = this.#proof;
    const renew = this.#renew;
    if (!renew) return this.requests.send(carrying(proof));
    if (proof.expiresAt > this.requests.clock() + MARGIN_SECONDS) {
      if (proof.tokens !== this.#told) await until(request.signal, () => this.#tell());
      const answer = await this.requests.send(carrying(proof));
      if (answer.status !== 401) return answer;
    }
    return this.requests.send(carrying(await until(request.signal, () => this.#current(renew, proof))));
  }

  /** The successor of a proof, after the listener was called. */
  async #current(renew: (held: Proof) => Promise<Proof>, refused: Proof): Promise<Proof> {
    const proof = await this.#alone(() => this.#renewed(renew, refused));
    await this.#tell();
    return proof;
  }

  /** The successor of a proof. The first caller gets it; the others find it there.
   *
   * After a refusal it is not requested again: a password or refresh token does not become valid by repeating it. Neither
   * does a one-time code, but another code may be accepted.
   */
  async #renewed(renew: (held: Proof) => Promise<Proof>, refused: Proof): Promise<Proof> {
    if (this.#proof !== refused && this.#proof !== NONE) return this.#proof;
    if (this.#refusal && this.#refusedCode === undefined) throw this.#refusal;
    try {
      this.#proof = await renew(this.#proof);
    } catch (error) {
      if (error instanceof APIError && (error.status === 400 || error.status === 401)) this.#refusal = error;
      throw error;
    }
    return this.#proof;
  }

  /** Calls the listener with the new tokens, unless another call is doing so. Calls do not wait for that one: a listener may
   * make calls itself, or wait for other calls. If it fails, the next call calls it again. */
  async #tell(): Promise<void> {
    const { tokens } = this.#proof;
    if (this.#telling || tokens === this.#told) return;
    this.#telling = true;
    try {
      await tokens?.onChange?.(tokens);
      this.#told = tokens;
    } finally {
      this.#telling = false;
    }
  }

  /** The response to a sign-in. Sends no request for a code that was refused before. */
  async #signIn(url: string, login: Login | SessionLogin): Promise<Answer> {
    const fields = await login.fields();
    if (this.#refusal && this.#refusedCode === fields.otp) throw this.#refusal;
    this.#refusal = this.#refusedCode = undefined;
    const answer = await this.requests.send(post(url, fields));
    if (answer.status < 300) return answer;
    const refusal = errorOf(answer);
    if (refusal.details.some(({ field }) => field === "otp")) {
      this.#refusedCode = fields.otp;
      this.#proof = NONE; // The old one is not valid either.
    }
    throw refusal;
  }

  async #login(login: Login, { refreshToken }: Proof): Promise<Proof> {
    const { auth } = this.addresses;
    if (refreshToken !== undefined) {
      const answer = await this.requests.send(post(`${auth}/refresh`, { refresh_token: refreshToken }));
      if (answer.status === 200) return this.#loginProof(answer);
      if (answer.status !== 401) throw errorOf(answer);
    }
    return this.#loginProof(await this.#signIn(`${auth}/login`, login));
  }

  #loginProof(answer: Answer): Proof {
    const { access_token, refresh_token, expires_in } = tokensOf(answer);
    return { headers: bearer(access_token), expiresAt: this.requests.clock() + expires_in, refreshToken: refresh_token };
  }

  async #session(login: SessionLogin): Promise<Proof> {
    const answer = await this.#signIn(`${this.addresses.base}/sessions`, login);
    const cookie = SESSION.exec(answer.headers.get("set-cookie") ?? "")?.[1];
    if (cookie === undefined) throw unexpected(answer);
    return { headers: { cookie }, expiresAt: Infinity };
  }

  async #oauth(held: OAuthTokens): Promise<Proof> {
    const fields = { grant_type: "refresh_token", refresh_token: held.refreshToken ?? "" };
    const answer = await this.requests.send(tokenRequest(`${this.addresses.auth}/token`, held, fields));
    if (answer.status !== 200) throw errorOf(answer);
    return oauthProof(granted(answer, held, this.requests.clock()));
  }
}

/** The result of `work`. If the signal aborts before, `work` goes on and the signal's reason is thrown. */
function until<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const forget = atEnd(signal, () => reject(signal?.reason));
    work().then(resolve, reject).finally(forget);
  });
}

function post(url: string, fields: object): Request {
  return { method: "POST", url, headers: JSON_BODY, body: JSON.stringify(fields) };
}

function keyProof(key: string): Proof {
  return { headers: bearer(key), expiresAt: Infinity };
}

function oauthProof(tokens: OAuthTokens): Proof {
  const expiresAt = tokens.expiresAt ? tokens.expiresAt.getTime() / 1000 : Infinity;
  return { headers: bearer(tokens.accessToken), expiresAt, tokens };
}

function bearer(token: string): Record<string, string> {
  // The message does not show the token.
  if (!isSendable(token)) throw new TypeError("an API key or token must be visible ASCII characters");
  return { authorization: `Bearer ${token}` };
}
