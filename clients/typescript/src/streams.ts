/** Events as they happen, over connections that break.
 *
 * A stream goes on after the last event that came whole: whatever ended the connection, the next one asks for what came after
 * it (`Last-Event-ID`), so that none is missed and none comes twice. The first connection is made like any call. Later ones
 * are tried for as long as it takes, with delays up to half a minute, unless the service refuses them for good: by a 4xx other
 * than 429, or by a `Retry-After` beyond the client's patience. A 204 says that there is nothing more, and ends it.
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

/** Events as they happen, to be read by `for await`, which closes it when it is left.
 *
 * A connection that breaks is made again by itself. It goes on where it was: no event is missed, and none comes twice.
 */
export class EventStream implements AsyncIterableIterator<Event> {
  readonly #access: Access;
  readonly #path: string;
  readonly #given: AbortSignal | undefined;
  readonly #closing = new AbortController();
  readonly #events: AsyncGenerator<Event, undefined>;
  /** Before the next connections, until one of them tells something. */
  #delays: Generator<number, undefined>;
  #lastId: string | undefined;
  #first: Promise<Answer> | undefined;

  /** @internal Without `after`, it begins now. */
  constructor(access: Access, { after, ...rest }: StreamFilters, { signal }: Calling) {
    this.#access = access;
    this.#given = signal;
    this.#path = "/events/stream" + query(rest);
    this.#lastId = after?.toString();
    this.#delays = access.requests.delays();
    this.#events = this.#follow();
  }

  /** Begins it, unless it has: it tells of what happens from then on. Throws `Gone` where events after `after` are no longer
   * kept, any other `APIError` where the service refuses it, `ConnectionFailed`, and the reason of its signal. */
  async open(): Promise<this> {
    await this.#opened();
    return this;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** The next event, waited for; it is done once this is closed. Throws as `open` does. */
  next(): Promise<IteratorResult<Event, undefined>> {
    return this.#events.next();
  }

  /** Closes it. */
  async return(): Promise<IteratorResult<Event, undefined>> {
    this.close();
    return this.#events.return(undefined);
  }

  /** Ends the stream, also for whoever waits for its next event: without an error, unlike its signal. */
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
    // A 204 is the standard's way to tell clients not to come back.
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

/** A text as its bytes in UTF-8, each of them a character: so `fetch` takes what a header is to carry. */
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
