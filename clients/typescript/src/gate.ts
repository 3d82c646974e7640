import { Access } from "./access.js";
import { type Calling, Calls } from "./calls.js";
import type { Claims } from "./claims.js";
import { addresses } from "./environment.js";
import { APIError, ConnectionFailed, InvalidToken, UnexpectedAnswer, ValidationError } from "./errors.js";
import { Keys } from "./keys.js";
import type { Check, Verified } from "./models.js";
import { Requests } from "./retries.js";
import type { Options } from "./transport.js";

const IDENTITY_TYPE = "portico-identity+jwt";
const NO_CREDENTIAL = "Authenticate with the header 'Authorization: Bearer TOKEN', where TOKEN is an API key or an access token.";
const STATUS: Readonly<Record<string, number>> = { AUTHENTICATION_REQUIRED: 401, PERMISSION_DENIED: 403, RATE_LIMITED: 429 };

/** Who makes a request. `scopes` are those that both the credential and the user's role have; `credential` is its kind and id,
 * such as `api_key:17`. */
export interface Caller {
  readonly userId: number;
  readonly role: string;
  readonly plan: string;
  readonly scopes: ReadonlySet<string>;
  readonly credential: string;
}

/** The options of a gate. */
export interface GateOptions extends Options {
  /** The service's audience. Default: the base with `/` and the service's name, as it is where `portico.toml` does not name one. */
  readonly audience?: string | undefined;
  /** Where Portico forwards to the service, such as `/invoices`, if it does: refusals then name the service's metadata, as
   * Portico's do. */
  readonly path?: string | undefined;
  /** The authorization server's address. Default: the base with its last segment replaced by `auth`. */
  readonly authUrl?: string | undefined;
}

declare global {
  namespace Express {
    interface Request {
      /** Who makes the request, behind a `Gate`. Undefined where a rule is public. */
      portico?: Caller | undefined;
    }
  }
}

interface ServerRequest {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly originalUrl?: string | undefined;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly ip?: string | undefined;
  readonly socket?: { readonly remoteAddress?: string | undefined } | undefined;
  portico?: Caller | undefined;
}

interface ServerResponse {
  setHeader(name: string, value: string): unknown;
  writeHead(status: number, headers: Record<string, string>): unknown;
  end(body: string): unknown;
}

/** What a request says of itself, whatever server it came to. */
interface Sent {
  readonly identity: string | undefined;
  readonly authorization: string | undefined;
  readonly method: string;
  readonly path: string;
  readonly address: string | undefined;
}

interface Admitted {
  readonly caller: Caller | undefined;
  readonly headers: Record<string, string>;
}

/** A request that may not pass, and the answer that Portico would have given. */
class Refusal extends Error {
  readonly body: string;
  readonly headers: Record<string, string>;

  constructor(
    readonly status: number,
    code: string,
    message: string,
    headers: Record<string, string> = {},
  ) {
    super(message);
    this.body = JSON.stringify({ error: { code, message, details: [] } });
    const own = { "content-type": "application/json", "cache-control": "no-store", "x-content-type-options": "nosniff" };
    this.headers = { ...own, ...headers };
  }

  /** Adds to the challenge, if there is one, what a client must have (RFC 6750 §3, RFC 9728 §5.1). */
  challenge(scope: string | undefined, metadata: string | undefined): void {
    const value = this.headers["www-authenticate"];
    if (value === undefined) return;
    const more = { scope, resource_metadata: metadata };
    const added = Object.entries(more).filter(([name, one]) => one && !value.includes(`${name}=`));
    const parts = [value.slice("Bearer".length).trim(), ...added.map(([name, one]) => `${name}="${one}"`)];
    this.headers["www-authenticate"] = `Bearer ${parts.filter(Boolean).join(", ")}`.trim();
  }
}

/** Decides about the requests to one service of your own: by the rules that `portico.toml` declares for it, or by one scope.
 *
 * A request that Portico forwarded, or let a proxy pass, carries `X-Portico-Identity`. The gate trusts that token if the issuer
 * signed it for this service, and does not ask again. For all others it asks Portico with the bearer credential of the request,
 * which counts the request against its account. It refuses with Portico's status, body and headers.
 */
export class Gate {
  readonly #calls: Calls;
  readonly #keys: Keys;
  readonly #service: string;
  readonly #audience: string;
  readonly #metadata: string | undefined;

  /** `baseUrl` is the API's address, `key` an API key with the scope `verify`, `service` the name that `portico.toml` gives the
   * service. Throws TypeError for an invalid argument. */
  constructor(baseUrl: string, key: string, service: string, options: GateOptions = {}) {
    const where = addresses(baseUrl, options.authUrl);
    const requests = new Requests(options);
    this.#calls = new Calls(new Access(where, requests, key));
    this.#keys = new Keys(where.auth, requests);
    this.#service = service;
    this.#audience = options.audience ?? `${where.base}/${service}`;
    this.#metadata = options.path === undefined ? undefined : metadata(`${where.base}${options.path}`);
  }

  /** Asks whether a credential is valid at this service, and counts the request against its account. */
  verify(credential: string, asked: Omit<Check, "credential" | "service"> = {}, { signal }: Calling = {}): Promise<Verified> {
    return this.#calls.verify({ ...asked, credential, service: this.#service }, signal);
  }

  /** Middleware for Express and whatever calls its middleware alike. `request.portico` is the `Caller`. Without a scope the rules
   * of the service decide. Behind another middleware of a gate, it asks and counts nothing more. */
  express(scope?: string): (request: ServerRequest, response: ServerResponse, next: (error?: unknown) => void) => Promise<void> {
    return async (request, response, next) => {
      const header = (name: string) => [request.headers[name]].flat().join(", ") || undefined;
      const sent: Sent = {
        identity: header("x-portico-identity"),
        authorization: header("authorization"),
        method: request.method ?? "GET",
        path: (request.originalUrl ?? request.url ?? "/").split("?")[0] || "/",
        address: request.ip ?? request.socket?.remoteAddress,
      };
      try {
        const { caller, headers } = await this.#admit(sent, scope, request.portico);
        request.portico = caller;
        for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
      } catch (error) {
        if (!(error instanceof Refusal)) return next(error);
        response.writeHead(error.status, error.headers);
        response.end(error.body);
        return;
      }
      next();
    };
  }

  /** A fetch handler, as `export default { fetch }` and route handlers take it, before which the gate decides. Without a scope
   * the rules of the service decide; the caller is undefined where a rule is public. A `Request` does not say where it came from,
   * so the networks of keys are not looked at. */
  fetch<Rest extends unknown[]>(
    scope: string | undefined,
    handler: (request: Request, caller: Caller | undefined, ...rest: Rest) => Response | Promise<Response>,
  ): (request: Request, ...rest: Rest) => Promise<Response> {
    return async (request, ...rest) => {
      const sent: Sent = {
        identity: request.headers.get("x-portico-identity") ?? undefined,
        authorization: request.headers.get("authorization") ?? undefined,
        method: request.method,
        path: new URL(request.url).pathname,
        address: undefined,
      };
      try {
        const { caller, headers } = await this.#admit(sent, scope);
        const answer = await handler(request, caller, ...rest);
        const more = Object.entries(headers);
        if (!more.length || answer.status < 200) return answer;
        const told = new Response(answer.body, answer); // The headers of some cannot be changed.
        for (const [name, value] of more) told.headers.set(name, value);
        return told;
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        return new Response(error.body, { status: error.status, headers: error.headers });
      }
    };
  }

  /** Who asks, and the limit's headers. Throws `Refusal`. */
  async #admit(sent: Sent, scope: string | undefined, known?: Caller): Promise<Admitted> {
    try {
      const admitted = known ? { caller: known, headers: {} } : await this.#ask(sent, scope);
      const { caller } = admitted;
      if (scope !== undefined && !caller) throw refused("AUTHENTICATION_REQUIRED", NO_CREDENTIAL, "Bearer");
      if (scope !== undefined && !caller?.scopes.has(scope)) {
        throw refused("PERMISSION_DENIED", `This needs the scope ${scope}.`, insufficient(scope));
      }
      return admitted;
    } catch (error) {
      if (error instanceof Refusal) error.challenge(scope, this.#metadata);
      const { status = 0 } = error instanceof APIError ? error : {};
      const unheard = error instanceof ConnectionFailed || error instanceof UnexpectedAnswer;
      if (!status && !unheard) throw error;
      // Such as for a key that may not ask: the gate's own fault, whose status Express would answer the caller.
      if (!unheard && status !== 429 && status < 500) throw new Error("Portico refuses the gate.", { cause: error });
      throw new Refusal(503, "SERVICE_UNAVAILABLE", "Credentials cannot be verified at the moment.", { "retry-after": "1" });
    }
  }

  async #ask({ identity, authorization, method, path, address }: Sent, scope: string | undefined): Promise<Admitted> {
    let missing = NO_CREDENTIAL;
    if (identity !== undefined) {
      try {
        const claims = await this.#keys.verify(identity, this.#audience, IDENTITY_TYPE);
        return { caller: ofClaims(claims, this.#audience), headers: {} };
      } catch (error) {
        if (!(error instanceof InvalidToken)) throw error;
        missing = `X-Portico-Identity is not trusted: ${error.message}.`;
      }
    }
    const credential = bearer(authorization);
    const asked = scope === undefined ? { path } : { scope };
    const { valid, code, message, user, credential: held, limit } = await this.verify(credential, {
      ...asked,
      method,
      ...(address && { address }),
    }).catch((error: unknown) => {
      throw unreadable(error);
    });
    const headers: Record<string, string> = limit
      ? {
          "x-ratelimit-limit": String(limit.limit),
          "x-ratelimit-remaining": String(limit.remaining),
          "x-ratelimit-reset": String(limit.reset),
        }
      : {};
    if (valid) {
      if (!user || !held) return { caller: undefined, headers };
      const { id, role, plan } = user;
      const caller = { userId: id, role, plan, scopes: new Set(held.scopes), credential: `${held.kind}:${held.id}` };
      return { caller, headers };
    }
    if (!credential) throw refused(code, missing, "Bearer", headers);
    if (code === "RATE_LIMITED" && limit) headers["retry-after"] = String(limit.retry_after);
    const lacks = code === "PERMISSION_DENIED" && scope !== undefined && held && !held.scopes.includes(scope);
    const challenge = code === "AUTHENTICATION_REQUIRED" ? 'Bearer error="invalid_token"' : lacks ? insufficient(scope) : "";
    throw refused(code, message, challenge, headers);
  }
}

/** Where the metadata of a resource is (RFC 9728 §3.1). */
function metadata(resource: string): string {
  const { origin, pathname } = new URL(resource);
  return `${origin}/.well-known/oauth-protected-resource${pathname}`;
}

/** Throws `InvalidToken`. */
function ofClaims({ userId, all }: Claims, audience: string): Caller {
  const { aud, role, plan, scope, credential } = all;
  if (aud !== audience) throw new InvalidToken("it is for another audience too");
  const texts = [role, plan, scope, credential].every((one) => typeof one === "string");
  if (!texts || !Number.isSafeInteger(userId)) throw new InvalidToken("it does not say who asks");
  const scopes = new Set((scope as string).split(" ").filter(Boolean));
  return { userId, role: role as string, plan: plan as string, scopes, credential: credential as string };
}

/** The credential, empty without one. Throws `Refusal` for a header that is anything else. */
function bearer(authorization: string | undefined): string {
  if (authorization === undefined) return "";
  const [, token] = /^bearer +([^\s,]+)\s*$/i.exec(authorization) ?? [];
  if (token === undefined) throw refused("AUTHENTICATION_REQUIRED", "The Authorization header must be 'Bearer TOKEN'.", "Bearer");
  return token;
}

/** The refusal of what the caller sent, or the error itself if the gate's own values are wrong, such as a service that is not
 * declared. */
function unreadable(error: unknown): unknown {
  const [fault] = error instanceof ValidationError ? error.details : [];
  if (fault?.field === "credential") return refused("AUTHENTICATION_REQUIRED", "The credential is too long.", "Bearer");
  if (fault?.field === "path" || fault?.field === "method") return new Refusal(400, "VALIDATION_ERROR", fault.message);
  return error;
}

function insufficient(scope: string): string {
  return `Bearer error="insufficient_scope", scope="${scope}"`;
}

function refused(code: string, message: string, challenge: string, headers: Record<string, string> = {}): Refusal {
  return new Refusal(STATUS[code] ?? 403, code, message, { ...headers, ...(challenge && { "www-authenticate": challenge }) });
}
