"""The errors that callers are shown: each has a stable code and a message without secrets.

    PorticoError
    ├── Unreadable               400  VALIDATION_ERROR
    ├── Invalid                  422  VALIDATION_ERROR
    ├── AuthenticationRequired   401  AUTHENTICATION_REQUIRED
    ├── PermissionDenied         403  PERMISSION_DENIED
    ├── NotFound                 404  RESOURCE_NOT_FOUND
    ├── MethodNotAllowed         405  METHOD_NOT_ALLOWED
    ├── NotAcceptable            406  NOT_ACCEPTABLE
    ├── RequestTimeout           408  REQUEST_TIMEOUT
    ├── Duplicate                409  DUPLICATE_RESOURCE
    ├── Conflict                 409  CONFLICT
    ├── Gone                     410  GONE
    ├── PreconditionFailed       412  PRECONDITION_FAILED
    ├── PayloadTooLarge          413  PAYLOAD_TOO_LARGE
    ├── UnsupportedMediaType     415  UNSUPPORTED_MEDIA_TYPE
    ├── RateLimited              429  RATE_LIMITED
    ├── Internal                 500  INTERNAL_ERROR
    └── Unavailable              503  SERVICE_UNAVAILABLE
        ├── OutcomeUnknown       503  SERVICE_UNAVAILABLE
        └── DatabaseUnusable     503  SERVICE_UNAVAILABLE
    BrokenRule (ValueError)      one value breaks one rule; becomes a Fault of Invalid

The statuses are shown here for reference; the table that applies them is in `web/problems.py`.
"""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

OK = "ok"
SILENT = "silent"
FAILING = "failing"
FULL = "full"

BEHIND = "behind"
"""A database that waits for migrations, or a replica that lacks data that must be shown."""

PRIMARY = "primary"
"""A host among the replicas that currently is the primary."""

FOREIGN = "foreign"
"""A replica of another database than the primary's."""


class Fault(msgspec.Struct, frozen=True):
    """One thing wrong with one field of a request; `field` is a dotted path."""

    field: str
    message: str


class PorticoError(Exception):
    """An error that the caller is shown.

    `message` is for people and contains no secret; `details` lists every faulty field.
    """

    code: ClassVar[str]
    by_rule = False
    """Whether a rule of a kind raised it, which runs once validation has passed."""

    def __init__(self, message: str, details: Sequence[Fault] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details)


class Unreadable(PorticoError):
    """The request cannot be read: malformed, a wrong type, a missing or unknown field."""

    code = "VALIDATION_ERROR"


def unreadable(*faults: Fault) -> Unreadable:
    """An `Unreadable` with these faults and the usual message."""
    return Unreadable("The request could not be read.", faults)


class Invalid(PorticoError):
    """The request can be read, but a value in it breaks a rule."""

    code = "VALIDATION_ERROR"


def invalid(*faults: Fault) -> Invalid:
    """An `Invalid` with these faults and the usual message."""
    return Invalid("Some fields have values that are not allowed.", faults)


class AuthenticationRequired(PorticoError):
    """The credential is missing or not valid; `error` is the code of RFC 6750 §3.1 for a refused
    bearer token, `scope` the one that is needed here, once that is known."""

    code = "AUTHENTICATION_REQUIRED"

    def __init__(
        self, message: str, details: Sequence[Fault] = (), *, error: str | None = None
    ) -> None:
        super().__init__(message, details)
        self.error = error
        self.scope: str | None = None


class PermissionDenied(PorticoError):
    """The caller does not have permission to do this; `scope` has the scopes that the credential
    lacks, separated by spaces, if that is the reason."""

    code = "PERMISSION_DENIED"

    def __init__(self, message: str, *, scope: str | None = None) -> None:
        super().__init__(message)
        self.scope = scope


class NotFound(PorticoError):
    """There is no such resource or path."""

    code = "RESOURCE_NOT_FOUND"


class MethodNotAllowed(PorticoError):
    """The path does not support this method; `allow` lists those that it supports."""

    code = "METHOD_NOT_ALLOWED"

    def __init__(self, message: str, allow: Sequence[str]) -> None:
        super().__init__(message)
        self.allow = tuple(allow)


class NotAcceptable(PorticoError):
    """The client accepts no media type that the server can produce."""

    code = "NOT_ACCEPTABLE"


class RequestTimeout(PorticoError):
    """The request did not arrive in time."""

    code = "REQUEST_TIMEOUT"


class Duplicate(PorticoError):
    """A value that must be unique is taken."""

    code = "DUPLICATE_RESOURCE"


class Conflict(PorticoError):
    """The current state of the resource forbids this."""

    code = "CONFLICT"


class Gone(PorticoError):
    """The requested data existed, but is no longer kept."""

    code = "GONE"


class PreconditionFailed(PorticoError):
    """The resource has changed since the caller read it."""

    code = "PRECONDITION_FAILED"


class PayloadTooLarge(PorticoError):
    """The body is larger than the configured limit."""

    code = "PAYLOAD_TOO_LARGE"


class UnsupportedMediaType(PorticoError):
    """The body has a media type or encoding that is not supported."""

    code = "UNSUPPORTED_MEDIA_TYPE"


class RateLimited(PorticoError):
    """The rate limit of the caller's plan is reached; `retry_after` is in seconds."""

    code = "RATE_LIMITED"

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Internal(PorticoError):
    """An unexpected error in the server."""

    code = "INTERNAL_ERROR"


class Unavailable(PorticoError):
    """The server is temporarily unable to answer; `retry_after` is in seconds, `why` is a word for
    operators."""

    code = "SERVICE_UNAVAILABLE"

    def __init__(self, message: str, retry_after: int = 1, why: str = SILENT) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.why = why


class WrongDatabase(Unavailable):
    """A setting names a database that can never serve Portico: starting again changes nothing."""


class OutcomeUnknown(Unavailable):
    """Whether a change was stored is unknown; `then` is a sentence that says what to do."""

    def __init__(self, then: str = "Check whether it was stored before you repeat it.") -> None:
        lost = "The connection to the database was lost during the change; the outcome is unknown."
        super().__init__(f"{lost} {then}", retry_after=2)


class DatabaseUnusable(Unavailable):
    """The database responds but is in an unusable state. The caller is not shown the reason; as a
    string, the error tells operators where and what it is."""

    def __init__(self, message: str) -> None:
        super().__init__("The database cannot be used; nothing was changed.", 30, FAILING)
        self.args = (message,)


class BrokenRule(ValueError):
    """One value breaks one rule. Code that knows the field's name turns it into a `Fault`.

    The message continues the field's name: "must be 2 to 100 characters long".
    """
