import { type Calling, type Calls, query } from "./calls.js";
import type { Event, EventFilters, EventPage, Page } from "./models.js";
import { listOf, unexpected } from "./reading.js";
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
    const filters = { ...this.#filters, limit: this.#filters.limit ?? WHOLE_PAGE };
    for (let cursor: string | undefined; ; ) {
      const answer = await this.#calls.make("GET", this.#path + query({ ...filters, cursor }), this.#calling);
      const { data } = pageOf<Page<Item>>(answer);
      const next = nextOf(answer);
      if (next !== undefined && next === cursor) throw unexpected(answer); // It would be read for ever.
      yield* data;
      if (next === undefined) return;
      cursor = next;
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
      const answer = await this.#calls.make("GET", "/events" + query(filters), this.#calling);
      const { data, pagination } = pageOf<EventPage>(answer);
      const { has_more, last_id } = pagination;
      if (has_more && last_id === (filters.after ?? 0)) throw unexpected(answer); // It would be read for ever, too.
      yield* data;
      filters = { ...filters, after: last_id };
      more = has_more;
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

/** The cursor that stands before the next page, if there is one (RFC 8288). */
function nextOf({ headers }: Answer): string | undefined {
  // Nothing in the pattern fits the same text in two ways: of a long link, that would take for ever.
  const [, parameters = ""] = /<[^<>?]*\?([^<>]*)>; *rel="next"/.exec(headers.get("link") ?? "") ?? [];
  return new URLSearchParams(parameters.replaceAll("+", "%2B")).get("cursor") || undefined;
}

function pageOf<P extends Page<unknown> | EventPage>(answer: Answer): P {
  const { data, pagination } = listOf<P>(answer);
  if (!Number.isSafeInteger(pagination?.limit)) throw unexpected(answer);
  return { data, pagination } as P;
}
