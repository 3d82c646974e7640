/** Events as they happen, over connections that may break.
 *
 * A stream resumes after the last event that arrived completely: whatever ended the connection, the next one requests the
 * events after it (`Last-Event-ID`), so none is missed and none comes twice. The first connection is made like any call. Later
 * ones are retried for as long as it takes, with delays of up to half a minute, unless the service refuses for good: by a 4xx
 * other than 429, or by a `Retry-After` beyond the client's patience. A 204 ends the stream.
 */

import type { Access } from "./access.js";
import { type Calling, query } from "./calls.js";
import { APIError, ConnectionFailed, UnexpectedAnswer, UntrustedCertificate } from "./errors.js";
import type { Event, StreamFilters } from "./models.js";
import { eventOf, unexpected } from "./reading.js";
import { atEnd } from "./signals.js";
import { Parser } from "./sse.js";
import type { Answer } from "./transport.js";

const EVENT_STREAM = "text/event-stream";

/** An iterator of events as they happen. Read it with `for await`, which closes it at the end of the loop.
 *
 * A broken connection is reestablished automatically and resumes where it was: no event is missed and none comes twice.
 */
export class EventStream implements AsyncIterableIterator<Event> {
  readonly #access: Access;
  readonly #path: string;
  readonly #given: AbortSignal | undefined;
  readonly #closing = new AbortController();
  readonly #events: AsyncGenerator<Event, undefined>;
  /** The delays before the next connections; reset once one of them delivers data. */
  #delays: Generator<number, undefined>;
  #lastId: string | undefined;
  #first: Promise<Answer> | undefined;

  /** @internal Without `after`, the stream begins with new events. */
  constructor(access: Access, { after, ...rest }: StreamFilters, { signal }: Calling) {
    this.#access = access;
    this.#given = signal;
    this.#path = "/events/stream" + query(rest);
    this.#lastId = after?.toString();
    this.#delays = access.requests.delays();
    this.#events = this.#follow();
  }

  /** Opens the stream unless it is open; it has the events from then on. Throws `Gone` if events after `after` are no longer
   * kept, another `APIError` if the service refuses the stream, `ConnectionFailed`, and the reason of its signal. */
  async open(): Promise<this> {
    await this.#opened();
    return this;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** Waits for the next event; done once the stream is closed. Throws as `open` does. */
  next(): Promise<IteratorResult<Event, undefined>> {
    return this.#events.next();
  }

  /** Closes the stream. */
  async return(): Promise<IteratorResult<Event, undefined>> {
    this.close();
    return this.#events.return(undefined);
  }

  /** Ends the stream, also for callers that wait for its next event. Unlike its signal, this throws no error there. */
  close(): void {
    this.#closing.abort();
  }

  #opened(): Promise<Answer> {
    return (this.#first ??= this.#begin());
  }

  async #begin(): Promise<Answer> {
    const given = this.#given;
    given?.throwIfAborted();
    const forget = atEnd(given, () => this.#closing.abort(given?.reason));
    this.#closing.signal.addEventListener("abort", forget);
    try {
      return await this.#connect();
    } catch (error) {
      forget();
      throw error;
    }
  }

  async *#follow(): AsyncGenerator<Event, undefined> {
    const { signal } = this.#closing;
    try {
      for (let opened = await this.#opened(); opened.status !== 204; opened = await this.#connectAgain()) {
        const parser = new Parser();
        for (let part = await this.#part(opened); part; part = await this.#part(opened)) {
          for (const { data, lastId } of parser.feed(part)) {
            signal.throwIfAborted();
            this.#lastId = lastId || this.#lastId;
            if (data) yield read(data);
          }
        }
      }
    } catch (error) {
      if (!signal.aborted || error instanceof UnexpectedAnswer) throw error;
      if (signal.reason === this.#given?.reason) throw signal.reason;
    } finally {
      this.close();
    }
  }

  async #part(opened: Answer): Promise<Uint8Array | undefined> {
    try {
      const part = await opened.part();
      if (part) this.#delays = this.#access.requests.delays();
      return part;
    } catch (error) {
      if (error instanceof ConnectionFailed) return undefined;
      throw error;
    }
  }

  async #connect(): Promise<Answer> {
    const last = this.#lastId !== undefined && { "last-event-id": utf8(this.#lastId) };
    const headers = { accept: EVENT_STREAM, ...last };
    const { signal } = this.#closing;
    const opened = await this.#access.success({ method: "GET", path: this.#path, headers, signal, streamed: true });
    // By the standard, a 204 tells clients not to reconnect.
    if (opened.status !== 204 && !opened.headers.get("content-type")?.startsWith(EVENT_STREAM)) {
      this.close();
      throw unexpected(opened);
    }
    return opened;
  }

  async #connectAgain(): Promise<Answer> {
    const { requests } = this.#access;
    const { signal } = this.#closing;
    for (let asked = 0; ; ) {
      await requests.sleep(asked + (this.#delays.next().value ?? 0), signal);
      signal.throwIfAborted();
      try {
        return await this.#connect();
      } catch (error) {
        asked = error instanceof APIError ? (error.retryAfter ?? 0) : 0;
        if (!isPassing(error) || asked > requests.patience) throw error;
      }
    }
  }
}

/** The UTF-8 bytes of a string, one character each: `fetch` takes header values in this form. */
function utf8(text: string): string {
  return encodeURIComponent(text).replace(/%(..)/g, (_, byte) => String.fromCharCode(parseInt(byte, 16)));
}

function isPassing(error: unknown): boolean {
  if (error instanceof APIError) return error.status === 429 || error.status >= 500;
  return error instanceof ConnectionFailed && !(error instanceof UntrustedCertificate);
}

function read(data: string): Event {
  try {
    return eventOf(data);
  } catch (cause) {
    throw new UnexpectedAnswer("an event of the stream cannot be understood", { cause });
  }
}
