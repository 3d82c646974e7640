import { type Calls, query } from "./calls.js";
import type { Event, EventFilters, EventPage, Page } from "./models.js";
import { decoded, unexpected } from "./reading.js";

const WHOLE_PAGE = 100; // The most, which takes the fewest requests.

/** A list that is read as it is needed, page by page. */
export class Listing<Item extends { id: number }> implements AsyncIterable<Item> {
  readonly #calls: Calls;
  readonly #path: string;
  readonly #filters: object;

  /** @internal */
  constructor(calls: Calls, path: string, filters: object) {
    this.#calls = calls;
    this.#path = path;
    this.#filters = filters;
  }

  /** All items of all pages, each once, also where the list changes meanwhile. Reads 100 at once unless `limit` was given.
   *
   * What moves onto a later page because something was added is given once. Where something was deleted, later items move
   * forward, onto pages that were read already: those are read again, so that whoever deletes what they iterate over misses
   * none.
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<Item, undefined> {
    const seen = new Set<number>();
    let total = 0;
    for (let next = 1; next; ) {
      const { data, pagination } = await read<Page<Item>>(this.#calls, this.#path, {
        limit: WHOLE_PAGE,
        ...this.#filters,
        page: next,
      });
      const { page, limit, total_items, total_pages } = pagination;
      const gone = total - total_items;
      total = total_items;
      if (gone > 0 && page > 1) {
        next = Math.floor(Math.max(0, (page - 1) * limit - gone) / limit) + 1;
        continue;
      }
      next = page < total_pages ? page + 1 : 0;
      for (const item of data) {
        if (seen.has(item.id)) continue;
        seen.add(item.id);
        yield item;
      }
    }
  }

  /** One page, counted from 1: 25 items unless `limit` was given. Empty past the end. */
  page(number: number): Promise<Page<Item>> {
    return read(this.#calls, this.#path, { ...this.#filters, page: number });
  }
}

/** Events that are read as they are needed, page by page. */
export class EventListing implements AsyncIterable<Event> {
  readonly #calls: Calls;
  readonly #filters: EventFilters;

  /** @internal */
  constructor(calls: Calls, filters: EventFilters) {
    this.#calls = calls;
    this.#filters = filters;
  }

  /** All events up to the newest, the oldest first. Reads 100 at once unless `limit` was given. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Event, undefined> {
    let filters: EventFilters = { limit: WHOLE_PAGE, ...this.#filters };
    for (let more = true; more; ) {
      const { data, pagination } = await read<EventPage>(this.#calls, "/events", filters);
      yield* data;
      filters = { ...filters, after: pagination.last_id };
      more = pagination.has_more;
    }
  }

  /** One page: 25 events unless `limit` was given. The next is after its `last_id`. */
  page(): Promise<EventPage> {
    return read(this.#calls, "/events", this.#filters);
  }
}

async function read<P extends Page<unknown> | EventPage>(calls: Calls, path: string, filters: object): Promise<P> {
  const answer = await calls.make("GET", path + query(filters));
  const { data, pagination } = decoded<Partial<P>>(answer);
  if (!Array.isArray(data) || typeof pagination !== "object") throw unexpected(answer);
  return { data, pagination } as P;
}
