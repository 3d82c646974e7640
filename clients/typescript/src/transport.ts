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
  /** Of an answer that is read part by part, if it is a success; the signal ends it, wherever it is. */
  readonly streamed?: AbortSignal;
}

/** An answer, and its body: read, or still to come. */
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** Of one that is streamed, the next part of the body, undefined at its end. Throws `ConnectionFailed` where it breaks
   * off. */
  readonly part: () => Promise<Uint8Array | undefined>;
}

/** Sends a request once, and gives the answer. Throws `ConnectionFailed`, and an `AbortError` once it was ended. */
export type Send = (request: Request) => Promise<Answer>;

/** What sends requests, within so many seconds each. */
export function sender({ fetch: given, timeout = 30 }: Options): Send {
  return async (request) => {
    const { url, streamed } = request;
    const stop = new AbortController();
    const { signal } = stop;
    const within = async <T>(seconds: number, work: () => Promise<T>): Promise<T> => {
      const timer = setTimeout(() => stop.abort(new Error(`nothing came for ${seconds} seconds`)), seconds * 1000);
      try {
        return await work();
      } catch (error) {
        streamed?.throwIfAborted();
        stop.abort();
        throw failed(request, error);
      } finally {
        clearTimeout(timer);
      }
    };
    streamed?.throwIfAborted();
    streamed?.addEventListener("abort", () => stop.abort(), { once: true, signal });
    const asked = { ...init(request), signal };
    return within(timeout, async () => {
      const response = await (given ?? fetch)(url, asked);
      const reader = streamed && response.ok ? response.body?.getReader() : undefined;
      const part = async () => {
        const value = reader && (await within(SILENCE_SECONDS, () => reader.read())).value;
        if (!value) stop.abort();
        return value;
      };
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

/** How Node calls faults before anything was sent. A browser does not tell, so there it may have been. */
const UNSENT = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$/;
const UNTRUSTED = /^(CERT_|UNABLE_TO_|ERR_TLS_CERT_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT|HOSTNAME_MISMATCH)/;

function failed({ method, url }: Request, error: unknown): ConnectionFailed {
  const { message, cause } = error as { message?: string; cause?: { code?: string; message?: string } };
  const said = `${method} ${url.split("?")[0]}: ${cause?.message || message}`;
  if (UNTRUSTED.test(cause?.code ?? "")) {
    return new UntrustedCertificate(`${said}. Name its authority's certificate in NODE_EXTRA_CA_CERTS.`, false, { cause: error });
  }
  return new ConnectionFailed(said, !UNSENT.test(cause?.code ?? ""), { cause: error });
}
