import { ConnectionFailed, UntrustedCertificate } from "./errors.js";
import { atEnd } from "./signals.js";

const SILENCE_SECONDS = 45; // The service sends a comment each 15 seconds on a stream.
export const LONGEST_TIMER_SECONDS = 2_000_000; // A timer that is set to 2^31 ms or more ends at once.

/** Sends a request and gives the answer, as the global `fetch` does, and undici's. */
export type Fetch = (url: string, init: FetchInit) => Promise<FetchAnswer>;

interface FetchInit {
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  readonly credentials: "omit";
  readonly redirect: "manual";
  readonly signal: AbortSignal;
}

interface FetchAnswer {
  readonly status: number;
  readonly ok: boolean;
  readonly headers: { get(name: string): string | null };
  readonly body: { getReader(): { read(): Promise<{ readonly value?: Uint8Array | undefined }> } } | null;
  text(): Promise<string>;
}

/** What everything that talks to the service takes, beside its own arguments. */
export interface Options {
  /** Seconds to wait for an answer (30). */
  readonly timeout?: number | undefined;
  /** How often to repeat a request at most, 0 to 3 (3). */
  readonly retries?: number | undefined;
  /** The longest `Retry-After` to wait for, in seconds (60, which is enough for the window of a minute); a longer one is
   * thrown at once. */
  readonly patience?: number | undefined;
  /** What sends requests; else the global `fetch`. */
  readonly fetch?: Fetch | undefined;
  /** The time in Unix seconds, for tests. */
  readonly clock?: (() => number) | undefined;
  /** Waits for so many seconds, or until the signal, for tests. */
  readonly sleep?: ((seconds: number, signal?: AbortSignal) => Promise<unknown>) | undefined;
  /** Random numbers from 0 to 1, for tests. */
  readonly random?: (() => number) | undefined;
}

/** To be sent, once; the names of headers are in lower case. */
export interface Request {
  readonly method: string;
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Ends it, wherever it is. */
  readonly signal?: AbortSignal | undefined;
  /** Of an answer that is read part by part, if it is a success. */
  readonly streamed?: boolean;
}

/** An answer, and its body: read, or still to come. */
export interface Answer {
  readonly status: number;
  readonly headers: FetchAnswer["headers"];
  readonly text: string;
  /** When it came, in Unix seconds. */
  readonly at: number;
  /** Of one that is streamed, the next part of the body, undefined at its end. Throws `ConnectionFailed` where it breaks
   * off. */
  readonly part: () => Promise<Uint8Array | undefined>;
}

/** Sends a request once, and gives the answer. Throws `ConnectionFailed`, and the signal's reason once it was ended. */
export type Send = (request: Request) => Promise<Answer>;

/** What sends requests, within so many seconds each. Throws TypeError where these are impossible. */
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
        throw failed(request, error);
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
  const sent = { accept: "application/json", ...headers };
  new Headers(sent); // Throws TypeError for what no header can hold: nothing that repeating would mend.
  // Credentials go where we say and nowhere else: no cookie of the browser's, and no redirect.
  return { method, headers: sent, body: body ?? null, credentials: "omit", redirect: "manual" };
}

/** How Node calls faults before anything was sent. A browser does not tell, so there it may have been. */
const UNSENT = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$/;
const UNTRUSTED = /^(CERT_|UNABLE_TO_|ERR_TLS_CERT_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT|HOSTNAME_MISMATCH)/;

function failed({ method, url }: Request, error: unknown): ConnectionFailed {
  let cause = error as Fault;
  let words = cause.message;
  // What a proxy said is behind "Request was cancelled.", and that behind "fetch failed". A cause may be anything, a text too.
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

/** What `fetch` throws, and what it says was the cause. */
interface Fault {
  readonly message?: string;
  readonly code?: string;
  readonly cause?: Fault;
}
