import type { Access } from "./access.js";
import type { Calling, Calls } from "./calls.js";
import { EventListing } from "./listing.js";
import type { EventFilters, StreamFilters } from "./models.js";
import { EventStream } from "./streams.js";

/** The events that the caller may see. */
export class Events {
  readonly #calls: Calls;
  readonly #access: Access;

  /** @internal */
  constructor(calls: Calls, access: Access) {
    this.#calls = calls;
    this.#access = access;
  }

  /** Events, oldest first. A reader that continues `after` the last event it has misses none. Reading throws `Gone` if that
   * event is older than those that are kept. */
  list(filters: EventFilters = {}, calling: Calling = {}): EventListing {
    return new EventListing(this.#calls, "/events", filters, calling);
  }

  /** Events as they happen: those from now on, or those `after` an id. */
  stream(filters: StreamFilters = {}, calling: Calling = {}): EventStream {
    return new EventStream(this.#access, filters, calling);
  }
}
