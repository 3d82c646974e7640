import { ConnectionFailed, UntrustedCertificate } from "./errors.js";

const SILENCE_SECONDS = 45; // The service sends a comment each 15 seconds on a stream.

/** What everything that talks to the service takes, beside its own arguments. */
export interface Options {
  /** Seconds to wait for an answer (30). */
  readonly timeout?: number;
  /** How often to repeat a request at most, 0 to 3 (3). */
  readonly retries?: number;
  /** The longest `Retry-After` to wait for, in seconds (60, which is enough for the window of a minute); a longer one is
   * thrown at once. */
  readonly patience?: number;
  /** What sends requests; else the global `fetch`. */
  readonly fetch?: typeof fetch;
  /** The time in Unix seconds, for tests. */
  readonly clock?: () => number;
  /** Waits for so many seconds, or until the signal, for tests. */
  readonly sleep?: (seconds: number, signal?: AbortSignal) => Promise<unknown>;
  /** Random numbers from 0 to 1, for tests. */
  readonly random?: () => number;
}

/** To be sent, once; the names of headers are in lower case. */
export interface Request {
  readonly method: string;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** An answer, with its body read. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** An answer whose body is still to come, of a success. */
export interface Opened extends Answer {
  /** The next part of the body, undefined at its end. Throws `ConnectionFailed` where it breaks off. */
  readonly part: () => Promise<Uint8Array | undefined>;
}

/** Sends a request once, and gives the answer. Throws `ConnectionFailed`. */
export type Send<A extends Answer = Answer> = (request: Request) => Promise<A>;

/** What sends requests, within so many seconds each. */
export function sender({ fetch: given, timeout = 30 }: Options): Send {
  return (request) => {
    const asked = init(request);
    return within(timeout, request, new AbortController(), async (signal) => {
      const response = await (given ?? fetch)(request.url, { ...asked, signal });
      return { status: response.status, headers: response.headers, text: await response.text() };
    });
  };
}

/** What sends requests whose answers are read part by part; `closing` ends it, wherever it is. */
export function opener({ fetch: given, timeout = 30 }: Options, closing: AbortSignal): Send<Opened> {
  return async (request) => {
    const stop = new AbortController();
    closing.addEventListener("abort", () => stop.abort(), { once: true, signal: stop.signal });
    const asked = init(request);
    return within(timeout, request, stop, async (signal) => {
      const response = await (given ?? fetch)(request.url, { ...asked, signal });
      const reader = response.ok && response.body?.getReader();
      const part = async () =>
        reader ? (await within(SILENCE_SECONDS, request, stop, () => reader.read())).value : undefined;
      return { status: response.status, headers: response.headers, text: reader ? "" : await response.text(), part };
    });
  };
}

function init({ method, headers, body }: Request): RequestInit {
  const sent = { accept: "application/json", ...headers };
  new Headers(sent); // Throws TypeError for what no header can hold: nothing that repeating would mend.
  // Credentials go where we say and nowhere else: no cookie of the browser's, and no redirect.
  return { method, headers: sent, body: body ?? null, credentials: "omit", redirect: "manual" };
}

/** What the work gives, unless it takes longer: then its request is aborted. Throws `ConnectionFailed`. */
async function within<T>(
  seconds: number,
  request: Request,
  stop: AbortController,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const timer = setTimeout(() => stop.abort(new Error(`nothing came for ${seconds} seconds`)), seconds * 1000);
  try {
    return await work(stop.signal);
  } catch (error) {
    throw failed(request, error);
  } finally {
    clearTimeout(timer);
  }
}

/** How Node calls faults before anything was sent. A browser does not tell, so there it may have been. */
const UNSENT = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$/;
const UNTRUSTED = /^(CERT_|UNABLE_TO_|ERR_TLS_CERT_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT|HOSTNAME_MISMATCH)/;

function failed({ method, url }: Request, error: unknown): ConnectionFailed {
  const { message, cause } = error as { message?: string; cause?: { code?: string; message?: string } };
  const said = `${method} ${url.split("?")[0]}: ${cause?.message || message}`;
  if (UNTRUSTED.test(cause?.code ?? "")) {
    const advice = "For a server with an authority of its own, name its certificate in NODE_EXTRA_CA_CERTS.";
    return new UntrustedCertificate(`${said}. ${advice}`, false, { cause: error });
  }
  return new ConnectionFailed(said, !UNSENT.test(cause?.code ?? ""), { cause: error });
}
