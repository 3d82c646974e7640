"""What can go wrong. Errors of the API are drawn with their statuses and codes:

    PorticoError
    ├── APIError                         any answer that is not a success
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
    │   └── OAuthError                   what the OAuth endpoints and callbacks say (RFC 6749)
    ├── ConnectionFailed                 no answer came
    │   └── UntrustedCertificate         the server could not prove who it is
    ├── UnexpectedAnswer                 an answer that cannot be understood
    ├── SecretLost                       an answer that held a new secret was lost
    ├── CallbackRejected                 a callback that does not answer our authorization request
    ├── InvalidToken                     a JSON Web Token that must not be believed
    └── InvalidDelivery                  a delivery that must not be believed

An answer with a code that is not here, of a newer server, is an `APIError` itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class PorticoError(Exception):
    """Whatever this library raises, but for wrong arguments."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with one field of a request; `field` is a dotted path."""

    field: str
    message: str


class APIError(PorticoError):
    """The service answered, and not with success.

    `status` is that of HTTP; `code` is for programs and stays; `message` is for people; `details`
    names every faulty field; `request_id` names the request in the server's log, None where
    something else answered. `retry_after` is in seconds, where the answer says so.
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
    """There is no credential, or none that is valid."""

    CODE = "AUTHENTICATION_REQUIRED"


class PermissionDenied(APIError):
    """The caller is known and may not do this."""

    CODE = "PERMISSION_DENIED"


class NotFound(APIError):
    """There is no such resource or path."""

    CODE = "RESOURCE_NOT_FOUND"


class MethodNotAllowed(APIError):
    """The path exists and does not take this method."""

    CODE = "METHOD_NOT_ALLOWED"


class NotAcceptable(APIError):
    """The server has no media type that was asked for."""

    CODE = "NOT_ACCEPTABLE"


class RequestTimeout(APIError):
    """The request did not arrive in time."""

    CODE = "REQUEST_TIMEOUT"


class Duplicate(APIError):
    """A value that must be unique is taken."""

    CODE = "DUPLICATE_RESOURCE"


class Conflict(APIError):
    """The present state of the resource forbids this."""

    CODE = "CONFLICT"


class Gone(APIError):
    """What is asked for was there, and is no longer kept."""

    CODE = "GONE"


class PreconditionFailed(APIError):
    """The resource has changed since its entity tag was read.

    After a connection that broke, the change may be one's own: read the resource to see.
    """

    CODE = "PRECONDITION_FAILED"


class PayloadTooLarge(APIError):
    """The body is larger than the server takes."""

    CODE = "PAYLOAD_TOO_LARGE"


class UnsupportedMediaType(APIError):
    """The body is of a kind that the server does not read."""

    CODE = "UNSUPPORTED_MEDIA_TYPE"


class RateLimited(APIError):
    """A window of the account's plan is exhausted; `retry_after` seconds on it begins anew."""

    CODE = "RATE_LIMITED"


class InternalError(APIError):
    """A fault of the service."""

    CODE = "INTERNAL_ERROR"


class ServiceUnavailable(APIError):
    """The service cannot work just now; `retry_after` says when it may be asked again."""

    CODE = "SERVICE_UNAVAILABLE"


class OAuthError(APIError):
    """An OAuth endpoint, or the callback, said no. `code` is its `error` (RFC 6749 §4.1.2.1, §5.2),
    such as `access_denied` or `invalid_grant`; `status` is 0 for a callback."""


class ConnectionFailed(PorticoError):
    """No answer came. `sent` tells whether the request may have been carried out all the same."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class UntrustedCertificate(ConnectionFailed):
    """The server's certificate comes from an authority that is not trusted here."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


class UnexpectedAnswer(PorticoError):
    """A success that this version of the library cannot understand, an answer of more than 256 MiB,
    or a message of a stream of more than 16."""


class SecretLost(PorticoError):
    """The answer that held a new secret was lost on the way. The service shows a secret once.

    Of an API key, the old one works for 24 hours more, or until its own earlier end: have an admin
    make another key in that time. Of a webhook, rotate the secret; for 24 hours both sign.
    """


class CallbackRejected(PorticoError):
    """The callback is no answer to this authorization request; its code was not sent anywhere."""


class InvalidToken(PorticoError):
    """A JSON Web Token that must not be believed; the message says which check it failed."""


class InvalidDelivery(PorticoError):
    """A webhook's delivery that must not be believed; the message says which check it failed."""


BY_CODE: dict[str, type[APIError]] = {
    kind.CODE: kind for kind in APIError.__subclasses__() if kind.CODE
}
"""The class of every code."""
