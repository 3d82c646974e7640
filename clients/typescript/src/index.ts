/** The client of the Portico API, typed, for Node and browsers. */

export type { ApiKeys } from "./api_keys.js";
export type { Changing, Creating } from "./calls.js";
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
export {
  APIError,
  AuthenticationRequired,
  CallbackRejected,
  Conflict,
  ConnectionFailed,
  Duplicate,
  type Fault,
  Gone,
  InternalError,
  InvalidDelivery,
  InvalidToken,
  MethodNotAllowed,
  NotAcceptable,
  NotFound,
  OAuthError,
  PayloadTooLarge,
  PermissionDenied,
  PorticoError,
  PreconditionFailed,
  RateLimited,
  RequestTimeout,
  SecretLost,
  ServiceUnavailable,
  UnexpectedAnswer,
  UnsupportedMediaType,
  UntrustedCertificate,
  ValidationError,
} from "./errors.js";
export type { EventListing, Listing } from "./listing.js";
export type * from "./models.js";
export type { Products, Users } from "./resources.js";
export type { Options } from "./transport.js";
export type { Webhooks } from "./webhooks.js";
