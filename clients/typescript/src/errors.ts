/** The errors. Those of the API are shown with their statuses and codes:
 *
 *     PorticoError
 *     ├── APIError                         any response that is not a success
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
 *     │   └── OAuthError                   errors of OAuth endpoints and callbacks (RFC 6749)
 *     ├── ConnectionFailed                 there was no response
 *     │   └── UntrustedCertificate         the server's certificate is not trusted
 *     ├── UnexpectedAnswer                 a response that cannot be understood
 *     ├── SecretLost                       the response with a new secret was lost
 *     ├── CallbackRejected                 a callback that does not belong to the authorization
 *     ├── InvalidToken                     a JSON Web Token that must not be trusted
 *     └── InvalidDelivery                  a webhook delivery that must not be trusted
 *
 * A response with a code that is not listed here, from a newer server, throws `APIError` itself. Wrong arguments throw a
 * `TypeError`.
 */

/** The base of all errors of this library, except those for wrong arguments. */
export class PorticoError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** A problem with one field of a request; `field` is a dotted path. */
export interface Fault {
  readonly field: string;
  readonly message: string;
}

/** The properties of an error beside its status, code and message. */
export interface Particulars {
  readonly details?: readonly Fault[] | undefined;
  readonly requestId?: string | undefined;
  readonly retryAfter?: number | undefined;
}

/** The service responded with an error.
 *
 * `status` is the HTTP status; `code` is stable, for programs; `message` is for people; `details` has every faulty field;
 * `requestId` identifies the request in the server's log and is undefined if something else responded. `retryAfter` is in
 * seconds, undefined if the response has none. `String(error)` has all of it.
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

/** The credential is missing or not valid. */
export class AuthenticationRequired extends APIError {
  static override readonly CODE = "AUTHENTICATION_REQUIRED";
}

/** The caller is not allowed to do this. */
export class PermissionDenied extends APIError {
  static override readonly CODE = "PERMISSION_DENIED";
}

/** There is no such resource or path. */
export class NotFound extends APIError {
  static override readonly CODE = "RESOURCE_NOT_FOUND";
}

/** The path does not support this method. */
export class MethodNotAllowed extends APIError {
  static override readonly CODE = "METHOD_NOT_ALLOWED";
}

/** The server cannot respond with the requested media type. */
export class NotAcceptable extends APIError {
  static override readonly CODE = "NOT_ACCEPTABLE";
}

/** The request did not arrive in time. */
export class RequestTimeout extends APIError {
  static override readonly CODE = "REQUEST_TIMEOUT";
}

/** A value that must be unique is already taken. */
export class Duplicate extends APIError {
  static override readonly CODE = "DUPLICATE_RESOURCE";
}

/** The current state of the resource does not allow this. */
export class Conflict extends APIError {
  static override readonly CODE = "CONFLICT";
}

/** What was requested existed, but is no longer kept. */
export class Gone extends APIError {
  static override readonly CODE = "GONE";
}

/** The resource has changed since its entity tag was read.
 *
 * After a broken connection, the change may be the caller's own: read the resource to find out.
 */
export class PreconditionFailed extends APIError {
  static override readonly CODE = "PRECONDITION_FAILED";
}

/** The body is larger than the server accepts. */
export class PayloadTooLarge extends APIError {
  static override readonly CODE = "PAYLOAD_TOO_LARGE";
}

/** The server does not accept this media type. */
export class UnsupportedMediaType extends APIError {
  static override readonly CODE = "UNSUPPORTED_MEDIA_TYPE";
}

/** A rate limit of the account's plan is exhausted; it resets after `retryAfter` seconds. */
export class RateLimited extends APIError {
  static override readonly CODE = "RATE_LIMITED";
}

/** The service failed unexpectedly. */
export class InternalError extends APIError {
  static override readonly CODE = "INTERNAL_ERROR";
}

/** The service is temporarily unavailable; `retryAfter` says when to try again. */
export class ServiceUnavailable extends APIError {
  static override readonly CODE = "SERVICE_UNAVAILABLE";
}

/** An error from an OAuth endpoint or callback. `code` is its `error` (RFC 6749 §4.1.2.1, §5.2), such as `access_denied` or
 * `invalid_grant`; `status` is 0 for a callback.
 */
export class OAuthError extends APIError {}

/** There was no response. `sent` is whether the request may have been carried out anyway. */
export class ConnectionFailed extends PorticoError {
  constructor(
    message: string,
    readonly sent = true,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The server's certificate is not from a trusted authority. */
export class UntrustedCertificate extends ConnectionFailed {}

/** A successful response that this version of the library cannot understand, or a stream's message larger than 16 MiB. */
export class UnexpectedAnswer extends PorticoError {}

/** The response with a new secret was lost, and the service shows a secret only once.
 *
 * A rotated API key still works for 24 hours, or until its own earlier expiry: have an admin create another key in that time.
 * For a webhook, rotate the secret; for 24 hours both sign.
 */
export class SecretLost extends PorticoError {}

/** The callback does not belong to this authorization; its code was not sent anywhere. */
export class CallbackRejected extends PorticoError {}

/** A JSON Web Token that must not be trusted; the message says which check it failed. */
export class InvalidToken extends PorticoError {}

/** A webhook delivery that must not be trusted; the message says which check it failed. */
export class InvalidDelivery extends PorticoError {}
