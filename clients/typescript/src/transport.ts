import { ConnectionFailed, UntrustedCertificate } from "./errors.js";
import { atEnd } from "./signals.js";

const SILENCE_SECONDS = 45; // On a stream, the service sends a comment every 15 seconds.
export const LONGEST_TIMER_SECONDS = 2_000_000; // A timer of 2^31 ms or more fires immediately.

/** Sends a request and returns the response, like the global `fetch` or undici's. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchAnswer>;

interface FetchInit {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  readonly credentials: "omit";
  readonly redirect: "manual";
  readonly cache?: "no-store";
  readonly signal: AbortSignal;
}

interface FetchAnswer {
  readonly status: number;
  readonly ok: boolean;
  readonly headers: { get(name: string): string | null };
  readonly body: { getReader(): { read(): Promise<{ readonly value?: Uint8Array | undefined }> } } | null;
  text(): Promise<string>;
}

/** Options of all classes that send requests. */
export interface Options {
  /** Seconds to wait for a response. Default: 30. */
  readonly timeout?: number | undefined;
  /** The maximum number of retries of a request, 0 to 3. Default: 3. */
  readonly retries?: number | undefined;
  /** The longest `Retry-After` to wait for, in seconds; a longer one throws the error immediately. Default: 60, which is enough
   * for the minute's window. */
  readonly patience?: number | undefined;
  /** The function that sends requests. Default: the global `fetch`. */
  readonly fetch?: Fetch | undefined;
  /** The time in Unix seconds, for tests. */
  readonly clock?: (() => number) | undefined;
  /** Waits for some seconds or until the signal aborts, for tests. */
  readonly sleep?: ((seconds: number, signal?: AbortSignal) => Promise<unknown>) | undefined;
  /** Random numbers from 0 to 1, for tests. */
  readonly random?: (() => number) | undefined;
}

/** A request to send. The names of headers are in lower case. */
export interface Request {
  readonly method: string;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Aborts the request at any stage. */
  readonly signal?: AbortSignal | undefined;
  /** Whether a successful response is read part by part. */
  readonly streamed?: boolean;
}

/** A response with its body, which is either read (`text`) or still to be read (`part`). */
export interface Answer {
  readonly status: number;
  readonly headers: FetchAnswer["headers"];
  readonly text: string;
  /** When the response arrived, in Unix seconds. */
  readonly at: number;
  /** The next part of a streamed body, undefined at its end. Throws `ConnectionFailed` if the connection breaks. */
  readonly part: () => Promise<Uint8Array | undefined>;
}

/** Sends a request once and returns the response. Throws `ConnectionFailed`, and the signal's reason if that aborts. */
export type Send = (request: Request) => Promise<Answer>;

/** The function that sends requests with this timeout. Throws TypeError for an invalid timeout. */
export function sender({ fetch: given, timeout = 30 }: Options, clock: () => number): Send {
  if (!(typeof timeout === "number" && 0 < timeout && timeout <= LONGEST_TIMER_SECONDS)) {
    throw new TypeError(`timeout must be more than 0 seconds, and ${LONGEST_TIMER_SECONDS} at most`);
  }
  return async (request) => {
    const { url, signal, streamed } = request;
    const stop = new AbortController();
    const within = async <T>(seconds: number, work: () => Promise<T>): Promise<T> => {
      const timer = setTimeout(() => stop.abort(new Error(`nothing came for ${seconds} seconds`)), seconds * 1000);
      try {
        return await work();
      } catch (error) {
        signal?.throwIfAborted();
        stop.abort();
        // Next.js throws this to render the page at each request, and must get it back.
        throw (error as Fault).digest === "DYNAMIC_SERVER_USAGE" ? error : failed(request, error);
      } finally {
        clearTimeout(timer);
      }
    };
    signal?.throwIfAborted();
    const forget = atEnd(signal, () => stop.abort());
    stop.signal.addEventListener("abort", forget);
    const asked = { ...init(request), signal: stop.signal };
    return within(timeout, async () => {
      const response = await (given ?? fetch)(url, asked);
      const reader = streamed && response.ok ? response.body?.getReader() : undefined;
      const part = async () => {
        const value = reader && (await within(SILENCE_SECONDS, () => reader.read())).value;
        if (!value) stop.abort();
        return value;
      };
      const text = reader ? "" : await response.text();
      if (!reader) forget(); // The signal may outlive many requests.
      return { status: response.status, headers: response.headers, text, at: clock(), part };
    });
  };
}

function init({ method, headers, body }: Request): Omit<FetchInit, "signal"> {
  // A browser names itself, and a page may not send this header to another origin (CORS). `process` does not tell Node from
  // pages: bundlers define it there too.
  const agent = !globalThis.navigator?.userAgent?.startsWith("Mozilla") && { "user-agent": "portico-client-js/0.1.0" };
  const sent = { accept: "application/json", ...agent, ...headers };
  new Headers(sent); // Throws TypeError for values that no header can carry, outside of the retries.
  // Next.js 14 caches every response for ever unless asked not to. Cloudflare Workers with a compatibility date before 2024-11-11
  // do not know the option, and throw.
  const cache = "cache" in Request.prototype && ({ cache: "no-store" } as const);
  // Credentials are sent only where we say: no browser cookies, and no redirects.
  return { method, headers: sent, body: body ?? null, credentials: "omit", redirect: "manual", ...cache };
}

/** Node's codes for failures before anything was sent. Browsers do not say, so there a request counts as sent. */
const UNSENT = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$/;
const UNTRUSTED = /^(CERT_|UNABLE_TO_|ERR_TLS_CERT_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT|HOSTNAME_MISMATCH)/;

function failed({ method, url }: Request, error: unknown): ConnectionFailed {
  let cause = error as Fault;
  let words = cause.message;
  // The innermost cause has the reason: "fetch failed" wraps "Request was cancelled.", which wraps what a proxy said. A cause may
  // also be a string.
  while (cause.cause && typeof cause.cause === "object") {
    cause = cause.cause;
    words = cause.message || cause.code || words;
  }
  const { code = "" } = cause;
  const said = `${method} ${url.split("?")[0]}: ${words}`;
  if (UNTRUSTED.test(code)) {
    return new UntrustedCertificate(`${said}. Name its authority's certificate in NODE_EXTRA_CA_CERTS.`, false, { cause: error });
  }
  return new ConnectionFailed(said, !UNSENT.test(code), { cause: error });
}

/** An error of `fetch`, and its causes. */
interface Fault {
  readonly message?: string;
  readonly code?: string;
  readonly cause?: Fault;
  readonly digest?: string;
}
