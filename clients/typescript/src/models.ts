/** What is sent and returned, with the fields of the API. Prices are numbers, times are strings such as
 * `2026-01-31T08:15:30.123Z`. */

import type { components, operations, webhooks } from "./schema/api.js";

/** With the roles and scopes that a server may have of its own. */
type Open<All> = All extends object
  ? { [Name in keyof All]: Name extends "role" ? All[Name] | Own : Name extends "scopes" ? OpenList<All[Name]> : Open<All[Name]> }
  : All;
type OpenList<All> = All extends readonly (infer Item)[] ? (Item | Own)[] : All;
type Own = string & {}; // By `string` alone, editors would not propose the built-in ones.
type Schemas = Open<components["schemas"]>;
/** Fields, of which the optional ones may be undefined. */
type Sent<All> = { [Name in keyof All]: object extends Pick<All, Name> ? All[Name] | undefined : All[Name] };
/** Filters, each of which may be left out, undefined or null. */
type Filters<All> = { [Name in keyof All]?: All[Name] | null | undefined };
type Query<Name extends keyof operations> = Filters<Open<Omit<NonNullable<operations[Name]["parameters"]["query"]>, "page">>>;

/** Identifies the state that was read: pass it as `ifMatch` to change the resource only if nobody else has. `get`, `create`,
 * `update` and `rotateSecret` set it. */
export interface Tagged {
  readonly etag?: string;
}

/** A product in a list. */
export type ProductItem = Schemas["ProductItem"];
/** A single product. */
export type Product = Schemas["ProductBody"] & Tagged;
/** An image of a product, and its alternative text. */
export type Image = Product["images"][number];
export type Status = Product["status"];
/** A product to create. */
export type NewProduct = Sent<Schemas["CreateProduct"]>;
/** Changes of a product. `images` and `metadata` are replaced as a whole. */
export type ProductChanges = Sent<Schemas["ChangeProduct"]>;
/** Which products to list. `limit` is the page size, 1 to 100; `search` finds products with every word in name or description;
 * `status` defaults to `active`. */
export type ProductFilters = Query<"list_products">;

/** A user in a list. */
export type UserItem = Schemas["UserItem"];
/** A user as `create` returns it. */
export type CreatedUser = UserItem & Tagged;
/** A single user. */
export type User = Schemas["UserBody"] & Tagged;
/** A user's preferences. `language` is a tag such as `en` or `pt-BR`. */
export type Preferences = Schemas["PreferencesBody"];
/** A built-in role, or one of the server's own. */
export type Role = User["role"];
export type Theme = Preferences["theme"];
/** A user to create. `role` defaults to `viewer`. */
export type NewUser = Sent<Schemas["CreateUser"]>;
/** Changes of a user. Changing one's own e-mail or password requires `current_password`. */
export type UserChanges = Sent<Schemas["ChangeUser"]>;
/** Changes of a user's preferences. */
export type PreferencesChanges = NonNullable<UserChanges["preferences"]>;
/** Which users to list, and in which order. Default: newest first. */
export type UserFilters = Query<"list_users">;

/** A user's account as events show it. While `suspended`, none of its credentials is accepted. */
export type AccountItem = Schemas["AccountItem"];
/** A user's account. `second_factor` says whether signing in needs more than the password. */
export type Account = Schemas["AccountBody"] & Tagged;
/** Changes of an account. `metadata` is replaced as a whole; `external_id` is null to remove it. */
export type AccountChanges = Sent<Schemas["ChangeAccount"]>;
/** How many requests the accounts of a plan may make; `per_month` is null for any number. */
export type Plan = Schemas["PlanBody"];

/** An invitation that was not accepted yet. */
export type Invitation = Schemas["InvitationItem"] & Tagged;
/** An invitation with a new link, which is shown only once. */
export type InvitationWithLink = Required<Schemas["InvitationWithLink"]> & Tagged;
/** An invitation to make. `role` defaults to `viewer`, `plan` to `free`. */
export type NewInvitation = Sent<Schemas["CreateInvitation"]>;
/** `limit` is the page size, 1 to 100. */
export type InvitationFilters = Query<"list_invitations">;

/** An application with which users sign in. */
export type OAuthClient = Schemas["OAuthClientItem"] & Tagged;
/** A client with its new secret, which is shown only once; a public client has none. */
export type OAuthClientWithSecret = Schemas["OAuthClientWithSecret"] & Tagged;
/** A client to register. A `public` one has no secret. */
export type NewOAuthClient = Sent<Schemas["CreateOAuthClient"]>;
/** Changes of a client. `redirect_uris` and `scopes` are replaced as a whole. */
export type OAuthClientChanges = Sent<Schemas["ChangeOAuthClient"]>;
/** `limit` is the page size, 1 to 100. */
export type OAuthClientFilters = Query<"list_clients">;

/** The account of an actor. */
export type AuditUser = Schemas["AuditUser"];
/** The OAuth client that acted for the account, as it was called then. */
export type AuditClient = Schemas["AuditClient"];
/** An entry of the audit log: who did what, when and from where. `user` is null if no account is known, `client` unless by an OAuth token. */
export type AuditEntry = Schemas["AuditEntry"];
/** Which entries to list, oldest first: of one `action`, by the user `actor_id`, about one `target` such as `product:17`. */
export type AuditFilters = Query<"list_audit">;
/** One page of the audit log, oldest first. `pagination.last_id` is the `after` of the next. */
export type AuditPage = Schemas["ListedAudit"];

/** The requests since `start`: all, those refused with 429, and what all took of the account's limits. */
export type UsageRow = Schemas["UsageRow"];
/** Whose requests to count, the caller's unless `user_id` is given, by hour, day or month, `from` a time `to` before another;
 * those with one key, or to one service. */
export type UsageFilters = Query<"list_usage">;

/** An API key. `scopes` is null if it has all scopes of its owner, `networks` is null if it can be used from anywhere, and
 * `expires_at` is null if it does not expire. */
export type ApiKey = Schemas["ApiKeyItem"];
/** A new API key. `key` is the secret, shown only once: store it now. */
export type ApiKeyWithSecret = Required<Schemas["ApiKeyWithSecret"]>;
/** The successor of a rotated key. `key` is the secret, shown only once: store it now. */
export type RotatedKey = Required<Schemas["RotatedKey"]>;
/** The key that a rotation replaced, and when it expires. */
export type PreviousKey = Schemas["PreviousKey"];
export type KeyStatus = ApiKey["status"];
export type KeyType = ApiKey["type"];
/** A built-in scope, or one of a kind or service of the server's own. */
export type Scope = NonNullable<ApiKey["scopes"]>[number];
/** A key to create. By default it is unrestricted: it has all scopes of its owner, can be used from anywhere, and does not
 * expire. */
export type NewApiKey = Sent<Schemas["CreateApiKey"]>;
/** Whose keys to list: the caller's unless `user_id` is given. `limit` is the page size, 1 to 100. */
export type ApiKeyFilters = Query<"list_api_keys">;

/** The types of events. `ping` is sent only by the test of a webhook. */
export type EventType = keyof webhooks;
type Body<Type extends EventType> = Open<webhooks[Type]["post"]["requestBody"]["content"]["application/json"]>;
type Complete<One> = One extends { previous: object } ? One : One & { previous?: never };
/** An event of one type, such as `EventOf<"product.updated">`.
 *
 * `id` increases with every event of the environment. `data` is the resource as the API shows a single one; for a deleted
 * resource, its last state. `previous` has the old values of the fields that changed, only for updates.
 */
export type EventOf<Type extends EventType> = { [Name in Type]: Complete<Body<Name>> }[Type];
/** An event of a type that this client does not know, from a newer server. `type` is its name. To the compiler it is a name with
 * a question mark, which no type has: so a comparison with a known type excludes this. */
export interface UnknownEvent {
  id: number;
  type: `${string}?`;
  timestamp: string;
  data: Record<string, unknown>;
  previous?: Record<string, unknown>;
}
/** An event. A comparison of its `type` tells the compiler the shape of `data` and `previous`. */
export type Event = EventOf<EventType> | UnknownEvent;
/** The old values of a product's fields that changed. */
export type PreviousProduct = Schemas["PreviousProduct"];
/** The old values of a user's fields that changed. It is empty after a new password. */
export type PreviousUser = Schemas["PreviousUser"];
/** The old values of an account's fields that changed. */
export type PreviousAccount = Schemas["PreviousAccount"];
/** How much of a limit an account has used: told once for each window and percent. */
export type QuotaReached = Schemas["QuotaReachedBody"];
/** How many products an import created and updated, and their lowest and highest ids. */
export type ProductsImported = Schemas["ProductsImportedBody"];
/** How many samples of each kind the sandbox has now. */
export type SandboxReset = Schemas["SandboxResetBody"];
/** The `ApiKey` that succeeds a rotated one, without its secret. */
export type SuccessorKey = Schemas["SuccessorKey"];
/** The webhook that is tested. */
export type Ping = Schemas["PingBody"];
/** Which events to list, oldest first. `after` is the id of the last event that the caller has, 0 for all that are kept; `type`
 * is one type or several, comma-separated; `user.*` means all of a noun; `limit` is the page size, 1 to 100. */
export type EventFilters = Query<"list_events">;
/** Which events to receive, as in `EventFilters`. */
export type StreamFilters = Omit<EventFilters, "limit">;

/** What the caller of a service would have got: `code` is `VALID`, or the error code. */
export type Verified = Schemas["Verified"];
/** Whose credential it is. */
export type VerifiedUser = Schemas["VerifiedUser"];
/** A verified credential. `scopes` are those that its user's role has too. */
export type VerifiedCredential = Schemas["VerifiedCredential"];
/** The window with the least left. `reset` is in Unix seconds. */
export type VerifiedLimit = Schemas["VerifiedLimit"];

/** What to ask about one request to a service of your own. */
export type Check = NonNullable<Schemas["Verify"]["checks"]>[number];

/** A webhook, which sends events to a receiver.
 *
 * `types` are event types, `product.*` for all of a noun, or `*` for all. `disabled_reason` is `by hand`, or `gone` if the
 * receiver answered 410, or `failing` after five days without a successful delivery; null while it is enabled.
 */
export type Webhook = Schemas["WebhookItem"] & Tagged;
export type DisabledReason = NonNullable<Webhook["disabled_reason"]>;
export type WebhookStatus = Webhook["status"];
/** A webhook with a new secret, which is shown only once: store it for `verifyWebhook`. */
export type WebhookWithSecret = Required<Schemas["WebhookWithSecret"]> & Tagged;
/** A webhook to create. */
export type NewWebhook = Sent<Schemas["CreateWebhook"]>;
/** Changes of a webhook. Disabling it drops its pending deliveries. */
export type WebhookChanges = Sent<Schemas["ChangeWebhook"]>;
/** The delivery of an event to a webhook. The `last_` fields describe the last attempt: the receiver's status, why it failed,
 * and how long it took. */
export type Delivery = Schemas["DeliveryItem"];
export type DeliveryStatus = Delivery["status"];
/** `limit` is the page size, 1 to 100. */
export type DeliveryFilters = Query<"list_deliveries">;

/** The position of a page in its list. If `total_is_exact` is false, there are more items than `total_items`. */
export type Pagination = Schemas["Pagination"];
/** The position of a page of events. `last_id` is the `after` of the next page. */
export type EventPagination = Schemas["EventPagination"];
/** One page of a list. */
export interface Page<Item> {
  readonly data: Item[];
  readonly pagination: Pagination;
}
/** One page of events, oldest first. */
export interface EventPage {
  readonly data: Event[];
  readonly pagination: EventPagination;
}
