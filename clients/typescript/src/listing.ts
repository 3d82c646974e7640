import { type Calling, type Calls, query } from "./calls.js";
import type { Event, EventFilters, EventPage, Page } from "./models.js";
import { decoded, unexpected } from "./reading.js";
import type { Answer } from "./transport.js";

const WHOLE_PAGE = 100; // The most, which takes the fewest requests.

/** A list that is read as it is needed, page by page. */
export class Listing<Item extends { id: number }> implements AsyncIterable<Item> {
  readonly #calls: Calls;
  readonly #path: string;
  readonly #filters: { readonly limit?: number | null | undefined };
  readonly #calling: Calling;

  /** @internal */
  constructor(calls: Calls, path: string, filters: object, calling: Calling) {
    this.#calls = calls;
    this.#path = path;
    this.#filters = filters;
    this.#calling = calling;
  }

  /** All items, each once. What others add or delete meanwhile moves none of the others; only one whose place in the order
   * is changed may come twice, or not. Reads 100 at once unless `limit` was given.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Item, undefined> {
    let filters: object = { ...this.#filters, limit: this.#filters.limit ?? WHOLE_PAGE };
    for (;;) {
      const answer = await this.#calls.make("GET", this.#path + query(filters), this.#calling);
      yield* pageOf<Page<Item>>(answer).data;
      // The cursor that stands before the next page (RFC 8288).
      const [, cursor] = /<[^>]*[?&]cursor=([^&>]+)[^>]*>; *rel="next"/.exec(answer.headers.get("link") ?? "") ?? [];
      if (!cursor) return;
      filters = { ...filters, cursor: decodeURIComponent(cursor) };
    }
  }

  /** One page, counted from 1: 25 items unless `limit` was given. Empty past the end. */
  page(number: number): Promise<Page<Item>> {
    return read(this.#calls, this.#path, { ...this.#filters, page: number }, this.#calling);
  }
}

/** Events that are read as they are needed, page by page. */
export class EventListing implements AsyncIterable<Event> {
  readonly #calls: Calls;
  readonly #filters: EventFilters;
  readonly #calling: Calling;

  /** @internal */
  constructor(calls: Calls, filters: EventFilters, calling: Calling) {
    this.#calls = calls;
    this.#filters = filters;
    this.#calling = calling;
  }

  /** All events up to the newest, the oldest first. Reads 100 at once unless `limit` was given. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Event, undefined> {
    let filters: EventFilters = { ...this.#filters, limit: this.#filters.limit ?? WHOLE_PAGE };
    for (let more = true; more; ) {
      const { data, pagination } = await read<EventPage>(this.#calls, "/events", filters, this.#calling);
      yield* data;
      filters = { ...filters, after: pagination.last_id };
      more = pagination.has_more;
    }
  }

  /** One page: 25 events unless `limit` was given. The next is after its `last_id`. */
  page(): Promise<EventPage> {
    return read(this.#calls, "/events", this.#filters, this.#calling);
  }
}

async function read<P extends Page<unknown> | EventPage>(
  calls: Calls,
  path: string,
  filters: object,
  calling: Calling,
): Promise<P> {
  return pageOf<P>(await calls.make("GET", path + query(filters), calling));
}

function pageOf<P extends Page<unknown> | EventPage>(answer: Answer): P {
  const { data, pagination } = decoded<Partial<P> | null>(answer) ?? {};
  if (!Array.isArray(data) || typeof pagination !== "object" || pagination === null) throw unexpected(answer);
  return { data, pagination } as P;
}
