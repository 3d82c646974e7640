"""The exceptions. Those for errors of the API are shown with their statuses and codes:

    PorticoError
    ├── APIError                         any response that is not a success
    │   ├── ValidationError              400, 422  VALIDATION_ERROR
    │   ├── AuthenticationRequired       401  AUTHENTICATION_REQUIRED
    │   ├── PermissionDenied             403  PERMISSION_DENIED
    │   ├── NotFound                     404  RESOURCE_NOT_FOUND
    │   ├── MethodNotAllowed             405  METHOD_NOT_ALLOWED
    │   ├── NotAcceptable                406  NOT_ACCEPTABLE
    │   ├── RequestTimeout               408  REQUEST_TIMEOUT
    │   ├── Duplicate                    409  DUPLICATE_RESOURCE
    │   ├── Conflict                     409  CONFLICT
    │   ├── Gone                         410  GONE
    │   ├── PreconditionFailed           412  PRECONDITION_FAILED
    │   ├── PayloadTooLarge              413  PAYLOAD_TOO_LARGE
    │   ├── UnsupportedMediaType         415  UNSUPPORTED_MEDIA_TYPE
    │   ├── RateLimited                  429  RATE_LIMITED
    │   ├── InternalError                500  INTERNAL_ERROR
    │   ├── ServiceUnavailable           503  SERVICE_UNAVAILABLE
    │   └── OAuthError                   errors of OAuth endpoints and callbacks (RFC 6749)
    ├── ConnectionFailed                 there was no response
    │   └── UntrustedCertificate         the server's certificate is not trusted
    ├── UnexpectedAnswer                 a response that cannot be understood
    ├── SecretLost                       the response with a new secret was lost
    ├── CallbackRejected                 a callback that does not belong to the authorization
    ├── InvalidToken                     a JSON Web Token that must not be trusted
    └── InvalidDelivery                  a webhook delivery that must not be trusted

A response with a code that is not listed here, from a newer server, raises `APIError` itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class PorticoError(Exception):
    """The base of all errors of this library, except those for wrong arguments."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A problem with one field of a request; `field` is a dotted path."""

    field: str
    message: str


class APIError(PorticoError):
    """The service responded with an error.

    `status` is the HTTP status; `code` is stable, for programs; `message` is for people; `details`
    has every faulty field; `request_id` identifies the request in the server's log and is None if
    something else responded. `retry_after` is in seconds, None if the response has none.
    """

    CODE: ClassVar[str] = ""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: Sequence[Fault] = (),
        request_id: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(status, code, message, details, request_id, retry_after)
        self.status = status
        self.code = code
        self.message = message
        self.details = tuple(details)
        self.request_id = request_id
        self.retry_after = retry_after

    def __str__(self) -> str:
        faults = "; ".join(f"{fault.field}: {fault.message}" for fault in self.details)
        request = f" [{self.request_id}]" if self.request_id else ""
        kind = f"{self.status} {self.code}".rstrip()
        return f"{kind}: {self.message}{f' ({faults})' if faults else ''}{request}"


class ValidationError(APIError):
    """The request cannot be read (400), or a value in it breaks a rule (422)."""

    CODE = "VALIDATION_ERROR"


class AuthenticationRequired(APIError):
    """The credential is missing or not valid."""

    CODE = "AUTHENTICATION_REQUIRED"


class PermissionDenied(APIError):
    """The caller is not allowed to do this."""

    CODE = "PERMISSION_DENIED"


class NotFound(APIError):
    """There is no such resource or path."""

    CODE = "RESOURCE_NOT_FOUND"


class MethodNotAllowed(APIError):
    """The path does not support this method."""

    CODE = "METHOD_NOT_ALLOWED"


class NotAcceptable(APIError):
    """The server cannot respond with the requested media type."""

    CODE = "NOT_ACCEPTABLE"


class RequestTimeout(APIError):
    """The request did not arrive in time."""

    CODE = "REQUEST_TIMEOUT"


class Duplicate(APIError):
    """A value that must be unique is already taken."""

    CODE = "DUPLICATE_RESOURCE"


class Conflict(APIError):
    """The current state of the resource does not allow this."""

    CODE = "CONFLICT"


class Gone(APIError):
    """What was requested existed, but is no longer kept."""

    CODE = "GONE"


class PreconditionFailed(APIError):
    """The resource has changed since its entity tag was read.

    After a broken connection, the change may be the caller's own: read the resource to find out.
    """

    CODE = "PRECONDITION_FAILED"


class PayloadTooLarge(APIError):
    """The body is larger than the server accepts."""

    CODE = "PAYLOAD_TOO_LARGE"


class UnsupportedMediaType(APIError):
    """The server does not accept this media type."""

    CODE = "UNSUPPORTED_MEDIA_TYPE"


class RateLimited(APIError):
    """A rate limit of the account's plan is exhausted; it resets after `retry_after` seconds."""

    CODE = "RATE_LIMITED"


class InternalError(APIError):
    """The service failed unexpectedly."""

    CODE = "INTERNAL_ERROR"


class ServiceUnavailable(APIError):
    """The service is temporarily unavailable; `retry_after` says when to try again."""

    CODE = "SERVICE_UNAVAILABLE"


class OAuthError(APIError):
    """An error from an OAuth endpoint or callback. `code` is its `error` (RFC 6749 §4.1.2.1, §5.2),
    such as `access_denied` or `invalid_grant`; `status` is 0 for a callback."""


class ConnectionFailed(PorticoError):
    """There was no response. `sent` is whether the request may have been carried out anyway."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class UntrustedCertificate(ConnectionFailed):
    """The server's certificate is not from a trusted authority."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class UnexpectedAnswer(PorticoError):
    """A successful response that this version of the library cannot understand, a response larger
    than 256 MiB, or a stream's message larger than 16 MiB."""


class SecretLost(PorticoError):
    """The response with a new secret was lost, and the service shows a secret only once.

    A rotated API key still works for 24 hours, or until its own earlier expiry: have an admin
    create another key in that time. For a webhook, rotate the secret; for 24 hours both sign.
    """


class CallbackRejected(PorticoError):
    """The callback does not belong to this authorization; its code was not sent anywhere."""


class InvalidToken(PorticoError):
    """A JSON Web Token that must not be trusted; the message says which check it failed."""


class InvalidDelivery(PorticoError):
    """A webhook delivery that must not be trusted; the message says which check it failed."""


BY_CODE: dict[str, type[APIError]] = {
    kind.CODE: kind for kind in APIError.__subclasses__() if kind.CODE
}
"""The exception class for each code."""
