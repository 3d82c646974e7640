import type { Access } from "./access.js";
import type { Calling, Calls } from "./calls.js";
import { EventListing } from "./listing.js";
import type { EventFilters, StreamFilters } from "./models.js";
import { EventStream } from "./streams.js";

/** What has happened, as far as the caller may see it. */
export class Events {
  readonly #calls: Calls;
  readonly #access: Access;

  /** @internal */
  constructor(calls: Calls, access: Access) {
    this.#calls = calls;
    this.#access = access;
  }

  /** Events, the oldest first. Whoever goes on after the last that they have misses none. Throws `Gone` where it is older than
   * what is kept, when it is asked for. */
  list(filters: EventFilters = {}, calling: Calling = {}): EventListing {
    return new EventListing(this.#calls, filters, calling);
  }

  /** Events as they happen: from its beginning on, or from the first `after` an id. */
  stream(filters: StreamFilters = {}, calling: Calling = {}): EventStream {
    return new EventStream(this.#access, filters, calling);
  }
}
