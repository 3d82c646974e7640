/** What can go wrong. Errors of the API are drawn with their statuses and codes:
 *
 *     PorticoError
 *     ├── APIError                         any answer that is not a success
 *     │   ├── ValidationError              400, 422  VALIDATION_ERROR
 *     │   ├── AuthenticationRequired       401  AUTHENTICATION_REQUIRED
 *     │   ├── PermissionDenied             403  PERMISSION_DENIED
 *     │   ├── NotFound                     404  RESOURCE_NOT_FOUND
 *     │   ├── MethodNotAllowed             405  METHOD_NOT_ALLOWED
 *     │   ├── NotAcceptable                406  NOT_ACCEPTABLE
 *     │   ├── RequestTimeout               408  REQUEST_TIMEOUT
 *     │   ├── Duplicate                    409  DUPLICATE_RESOURCE
 *     │   ├── Conflict                     409  CONFLICT
 *     │   ├── Gone                         410  GONE
 *     │   ├── PreconditionFailed           412  PRECONDITION_FAILED
 *     │   ├── PayloadTooLarge              413  PAYLOAD_TOO_LARGE
 *     │   ├── UnsupportedMediaType         415  UNSUPPORTED_MEDIA_TYPE
 *     │   ├── RateLimited                  429  RATE_LIMITED
 *     │   ├── InternalError                500  INTERNAL_ERROR
 *     │   ├── ServiceUnavailable           503  SERVICE_UNAVAILABLE
 *     │   └── OAuthError                   what the OAuth endpoints and callbacks say (RFC 6749)
 *     ├── ConnectionFailed                 no answer came
 *     │   └── UntrustedCertificate         the server could not prove who it is
 *     ├── UnexpectedAnswer                 an answer that cannot be understood
 *     ├── SecretLost                       an answer that held a new secret was lost
 *     ├── CallbackRejected                 a callback that does not answer our authorization request
 *     ├── InvalidToken                     a JSON Web Token that must not be believed
 *     └── InvalidDelivery                  a delivery that must not be believed
 *
 * An answer with a code that is not here, of a newer server, is an `APIError` itself. Wrong arguments are a `TypeError`.
 */

/** Whatever this library throws, but for wrong arguments. */
export class PorticoError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** One thing wrong with one field of a request; `field` is a dotted path. */
export interface Fault {
  readonly field: string;
  readonly message: string;
}

/** What an answer says beside its status, code and message. */
export interface Particulars {
  readonly details?: readonly Fault[] | undefined;
  readonly requestId?: string | undefined;
  readonly retryAfter?: number | undefined;
}

/** The service answered, and not with success.
 *
 * `status` is that of HTTP; `code` is for programs and stays; `message` is for people; `details` names every faulty field;
 * `requestId` names the request in the server's log, undefined where something else answered. `retryAfter` is in seconds,
 * where the answer says so. `String(error)` has all of it.
 */
export class APIError extends PorticoError {
  static readonly CODE: string = "";
  readonly details: readonly Fault[];
  readonly requestId: string | undefined;
  readonly retryAfter: number | undefined;

  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    { details = [], requestId, retryAfter }: Particulars = {},
  ) {
    super(message);
    this.details = details;
    this.requestId = requestId;
    this.retryAfter = retryAfter;
  }

  override toString(): string {
    const faults = this.details.map(({ field, message }) => `${field}: ${message}`).join("; ");
    const request = this.requestId ? ` [${this.requestId}]` : "";
    return `${this.name}: ${this.status}${this.code && ` ${this.code}`}: ${this.message}${faults && ` (${faults})`}${request}`;
  }
}

/** The request cannot be read (400), or a value in it breaks a rule (422). */
export class ValidationError extends APIError {
  static override readonly CODE = "VALIDATION_ERROR";
}

/** There is no credential, or none that is valid. */
export class AuthenticationRequired extends APIError {
  static override readonly CODE = "AUTHENTICATION_REQUIRED";
}

/** The caller is known and may not do this. */
export class PermissionDenied extends APIError {
  static override readonly CODE = "PERMISSION_DENIED";
}

/** There is no such resource or path. */
export class NotFound extends APIError {
  static override readonly CODE = "RESOURCE_NOT_FOUND";
}

/** The path exists and does not take this method. */
export class MethodNotAllowed extends APIError {
  static override readonly CODE = "METHOD_NOT_ALLOWED";
}

/** The server has no media type that was asked for. */
export class NotAcceptable extends APIError {
  static override readonly CODE = "NOT_ACCEPTABLE";
}

/** The request did not arrive in time. */
export class RequestTimeout extends APIError {
  static override readonly CODE = "REQUEST_TIMEOUT";
}

/** A value that must be unique is taken. */
export class Duplicate extends APIError {
  static override readonly CODE = "DUPLICATE_RESOURCE";
}

/** The present state of the resource forbids this. */
export class Conflict extends APIError {
  static override readonly CODE = "CONFLICT";
}

/** What is asked for was there, and is no longer kept. */
export class Gone extends APIError {
  static override readonly CODE = "GONE";
}

/** The resource has changed since its entity tag was read.
 *
 * After a connection that broke, the change may be one's own: read the resource to see.
 */
export class PreconditionFailed extends APIError {
  static override readonly CODE = "PRECONDITION_FAILED";
}

/** The body is larger than the server takes. */
export class PayloadTooLarge extends APIError {
  static override readonly CODE = "PAYLOAD_TOO_LARGE";
}

/** The body is of a kind that the server does not read. */
export class UnsupportedMediaType extends APIError {
  static override readonly CODE = "UNSUPPORTED_MEDIA_TYPE";
}

/** A window of the account's plan is exhausted; `retryAfter` seconds on it begins anew. */
export class RateLimited extends APIError {
  static override readonly CODE = "RATE_LIMITED";
}

/** A fault of the service. */
export class InternalError extends APIError {
  static override readonly CODE = "INTERNAL_ERROR";
}

/** The service cannot work just now; `retryAfter` says when it may be asked again. */
export class ServiceUnavailable extends APIError {
  static override readonly CODE = "SERVICE_UNAVAILABLE";
}

/** An OAuth endpoint, or the callback, said no. `code` is its `error` (RFC 6749 §4.1.2.1, §5.2), such as `access_denied` or
 * `invalid_grant`; `status` is 0 for a callback.
 */
export class OAuthError extends APIError {}

/** No answer came. `sent` tells whether the request may have been carried out all the same. */
export class ConnectionFailed extends PorticoError {
  constructor(
    message: string,
    readonly sent = true,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The server's certificate comes from an authority that is not trusted here. */
export class UntrustedCertificate extends ConnectionFailed {}

/** A success that this version of the library cannot understand, or a message of a stream of more than 16 MiB. */
export class UnexpectedAnswer extends PorticoError {}

/** The answer that held a new secret was lost on the way. The service shows a secret once.
 *
 * Of an API key, the old one works for 24 hours more, or until its own earlier end: have an admin make another key in that
 * time. Of a webhook, rotate the secret; for 24 hours both sign.
 */
export class SecretLost extends PorticoError {}

/** The callback is no answer to this authorization request; its code was not sent anywhere. */
export class CallbackRejected extends PorticoError {}

/** A JSON Web Token that must not be believed; the message says which check it failed. */
export class InvalidToken extends PorticoError {}

/** A webhook's delivery that must not be believed; the message says which check it failed. */
export class InvalidDelivery extends PorticoError {}
