/** What is sent and answered: the fields are those of the API. Prices are numbers, times are texts such as
 * `2026-01-31T08:15:30.123Z`. */

import type { components, operations } from "./schema/api.js";

type Schemas = components["schemas"];
/** Fields, of which those that may be left out may be undefined. */
type Sent<All> = { [Name in keyof All]: object extends Pick<All, Name> ? All[Name] | undefined : All[Name] };
/** Filters, each of which may be left out, undefined or null. */
type Filters<All> = { [Name in keyof All]?: All[Name] | null | undefined };
type Query<Name extends keyof operations> = Filters<Omit<NonNullable<operations[Name]["parameters"]["query"]>, "page">>;

/** Names the state that was read: give it as `ifMatch` to change the resource only if nobody else did. It is there after
 * `get`, `create`, `update` and `rotateSecret`. */
export interface Tagged {
  readonly etag?: string;
}

/** A product in a list. */
export type ProductItem = Schemas["ProductItem"];
/** A product by itself. */
export type Product = Schemas["ProductBody"] & Tagged;
/** A product to be made. */
export type NewProduct = Sent<Schemas["CreateProduct"]>;
/** Changes of a product; `images` and `metadata` are replaced whole. */
export type ProductChanges = Sent<Schemas["ChangeProduct"]>;
/** Which products to list. `limit` is the size of a page, 1 to 100; `search` finds products with every word in name or
 * description; `status` is `active` where it is left out. */
export type ProductFilters = Query<"list_products">;

/** A user in a list, and as `create` gives it. */
export type UserItem = Schemas["UserItem"];
/** A user by itself. */
export type User = Schemas["UserBody"] & Tagged;
/** A user to be made; a viewer where no role is given. */
export type NewUser = Sent<Schemas["CreateUser"]>;
/** Changes of a user. Whoever changes their own password gives `current_password` too. */
export type UserChanges = Sent<Schemas["ChangeUser"]>;
/** Which users to list, and in which order; the newest first where nothing is said. */
export type UserFilters = Query<"list_users">;

/** An API key. `scopes` is null where it carries all that its owner has, and `networks` where it may be used from anywhere;
 * `expires_at` where it has no end. */
export type ApiKey = Schemas["KeyItem"];
/** A new API key. `key` is the secret, shown this once: store it now. */
export type ApiKeyWithSecret = Required<Schemas["MadeKey"]>;
/** The successor of a rotated key. `key` is the secret, shown this once: store it now. */
export type RotatedKey = Required<Schemas["RotatedKey"]>;
/** A key to be made. What is left out is as wide as it may be: all scopes of its owner, used from anywhere, without an
 * end. */
export type NewApiKey = Sent<Schemas["CreateKey"]>;
/** Whose keys to list: the caller's unless `user_id` is given. `limit` is the size of a page, 1 to 100. */
export type ApiKeyFilters = Query<"list_api_keys">;

/** Something that has happened.
 *
 * `id` increases with every event of the environment. `data` is the resource as the API shows it by itself, of a deleted one
 * as it was last; `previous`, of an update alone, the old values of the fields that changed. A `ping` is told by a webhook's
 * test alone.
 */
export type Event = Omit<Schemas["EventBody"], "type"> & { type: Schemas["EventBody"]["type"] | "ping" };
/** Which events to list: the oldest first. `after` is the id of the last event that the caller has, 0 for all that are kept;
 * `type` takes several, comma-separated, and `user.*` for all of a noun; `limit` is the size of a page, 1 to 100. */
export type EventFilters = Query<"list_events">;
/** Which events to be told, as in `EventFilters`. */
export type StreamFilters = Omit<EventFilters, "limit">;

/** A receiver that is told of events.
 *
 * `types` are those of events, `product.*` for all of a noun, or `*` for all. `disabled_reason` is `by hand` where somebody
 * did it, `gone` where the receiver answered 410, and `failing` after five days without one success; null while it is enabled.
 */
export type Webhook = Schemas["WebhookItem"] & Tagged;
/** A webhook with a new secret, shown this once: store it now, for `verifyWebhook`. */
export type WebhookWithSecret = Required<Schemas["NewWebhook"]> & Tagged;
/** A receiver to be told of events. */
export type NewWebhook = Sent<Schemas["CreateWebhook"]>;
/** Changes of a webhook. Disabling it drops what it has not been sent. */
export type WebhookChanges = Sent<Schemas["ChangeWebhook"]>;
/** An event on its way to a webhook. What is `last_` is of the last attempt: what the receiver answered, why it failed, and
 * how long it took. */
export type Delivery = Schemas["DeliveryItem"];
/** `limit` is the size of a page, 1 to 100. */
export type DeliveryFilters = Query<"list_deliveries">;

/** One page of a list; `total_items` is exact. */
export interface Page<Item> {
  readonly data: Item[];
  readonly pagination: Schemas["Pagination"];
}
/** One page of events, the oldest first: `last_id` is the `after` of the next page. */
export interface EventPage {
  readonly data: Event[];
  readonly pagination: Schemas["EventPages"];
}
