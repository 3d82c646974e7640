/** The typed client of the Portico API, for Node and browsers. */

export type { ApiKeys } from "./api_keys.js";
export type { Calling, Changing, Creating } from "./calls.js";
export type { Claims } from "./claims.js";
export { Client, type ClientOptions } from "./client.js";
export {
  type Credential,
  Login,
  OAuthTokens,
  type OnChange,
  type Otp,
  SessionLogin,
  type TokenFields,
} from "./credentials.js";
export * from "./errors.js";
export type { Events } from "./events.js";
export { type Caller, Gate, type GateOptions } from "./gate.js";
export type { AuditListing, EventListing, Listing } from "./listing.js";
export type { Audit, Invitations, OAuthClients, Usage } from "./managing.js";
export type * from "./models.js";
export { type Authorization, OAuthApp, type OAuthOptions } from "./oauth.js";
export type { Accounts, KindRecord, Products, Records, Users } from "./resources.js";
export type { EventStream } from "./streams.js";
export type { Fetch, Options } from "./transport.js";
export { TokenVerifier } from "./verifier.js";
export { verifyWebhook, type WebhookHeaders, type WebhookOptions } from "./verify_webhook.js";
export type { Webhooks } from "./webhooks.js";
