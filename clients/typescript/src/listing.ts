import { type Calling, type Calls, query } from "./calls.js";
import type { AuditEntry, AuditFilters, AuditPage, Event, EventFilters, EventPage, Page } from "./models.js";
import { listOf, unexpected } from "./reading.js";
import type { Answer } from "./transport.js";

const WHOLE_PAGE = 100; // The maximum, which takes the fewest requests.

/** A list that is read page by page, as needed. */
export class Listing<Item extends object> implements AsyncIterable<Item> {
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

  /** All items, each once. Items that are added or deleted meanwhile do not shift the others; only an item whose sort value
   * changes may appear twice or not at all. Reads 100 items per request unless `limit` is given.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Item, undefined> {
    const filters = { ...this.#filters, limit: this.#filters.limit ?? WHOLE_PAGE };
    for (let cursor: string | undefined; ; ) {
      const answer = await this.#calls.make("GET", this.#path + query({ ...filters, cursor }), this.#calling);
      const { data } = pageOf<Page<Item>>(answer);
      const next = nextOf(answer);
      if (next !== undefined && next === cursor) throw unexpected(answer); // An endless loop.
      yield* data;
      if (next === undefined) return;
      cursor = next;
    }
  }

  /** One page, counted from 1: 25 items unless `limit` is given. Empty past the end. */
  page(number: number): Promise<Page<Item>> {
    return read(this.#calls, this.#path, { ...this.#filters, page: number }, this.#calling);
  }
}

/** What is numbered in order, read page by page, as needed. */
abstract class Log<Item, P extends EventPage | AuditPage> implements AsyncIterable<Item> {
  readonly #calls: Calls;
  readonly #path: string;
  readonly #filters: EventFilters | AuditFilters;
  readonly #calling: Calling;

  /** @internal */
  constructor(calls: Calls, path: string, filters: EventFilters | AuditFilters, calling: Calling) {
    this.#calls = calls;
    this.#path = path;
    this.#filters = filters;
    this.#calling = calling;
  }

  /** Everything up to the newest, oldest first. Reads 100 per request unless `limit` is given. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Item, undefined> {
    let filters = { ...this.#filters, limit: this.#filters.limit ?? WHOLE_PAGE };
    for (let more = true; more; ) {
      const answer = await this.#calls.make("GET", this.#path + query(filters), this.#calling);
      const { data, pagination } = pageOf<P>(answer);
      const { has_more, last_id } = pagination;
      if (has_more && last_id === (filters.after ?? 0)) throw unexpected(answer); // An endless loop.
      yield* data as Item[];
      filters = { ...filters, after: last_id };
      more = has_more;
    }
  }

  /** One page: 25 unless `limit` is given. Its `last_id` is the `after` of the next. */
  page(): Promise<P> {
    return read(this.#calls, this.#path, this.#filters, this.#calling);
  }
}

/** Events that are read page by page, as needed. */
export class EventListing extends Log<Event, EventPage> {}

/** Entries of the audit log that are read page by page, as needed. */
export class AuditListing extends Log<AuditEntry, AuditPage> {}

async function read<P extends Page<unknown> | EventPage | AuditPage>(
  calls: Calls,
  path: string,
  filters: object,
  calling: Calling,
): Promise<P> {
  return pageOf<P>(await calls.make("GET", path + query(filters), calling));
}

/** The cursor of the next page, if there is one (RFC 8288). */
function nextOf({ headers }: Answer): string | undefined {
  // Nothing in the pattern fits the same text in two ways: of a long link, that would take for ever.
  const told = /<[^<>?]*\?([^<>]*)>; *rel="next"/.exec(headers.get("link") ?? "")?.[1];
  return new URLSearchParams(told?.replaceAll("+", "%2B")).get("cursor") || undefined;
}

function pageOf<P extends Page<unknown> | EventPage | AuditPage>(answer: Answer): P {
  const { data, pagination } = listOf<P>(answer);
  if (!Number.isSafeInteger(pagination?.limit)) throw unexpected(answer);
  return { data, pagination } as P;
}
