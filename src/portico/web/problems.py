"""Errors as responses: the one table from codes to statuses (decisions §6)."""

from portico.core import errors
from portico.core.errors import PorticoError
from portico.core.oauth import resource_metadata
from portico.web.envelope import error_body
from portico.web.messages import JSON, Reply

STATUS: dict[type[PorticoError], int] = {
    errors.Unreadable: 400,
    errors.AuthenticationRequired: 401,
    errors.PermissionDenied: 403,
    errors.NotFound: 404,
    errors.MethodNotAllowed: 405,
    errors.NotAcceptable: 406,
    errors.RequestTimeout: 408,
    errors.Duplicate: 409,
    errors.Conflict: 409,
    errors.Gone: 410,
    errors.PreconditionFailed: 412,
    errors.PayloadTooLarge: 413,
    errors.UnsupportedMediaType: 415,
    errors.Invalid: 422,
    errors.RateLimited: 429,
    errors.Internal: 500,
    errors.Unavailable: 503,
}


_NO_STORE = ("cache-control", "no-store")
"""On every error: a cache may keep a 404, 405 or 410 that does not forbid it (RFC 9110 §15.1), and
would serve it even after the resource exists."""

_FAILED = (
    b'{"error":{"code":"INTERNAL_ERROR","message":"An unexpected error occurred.","details":[]}}'
)


def failed() -> Reply:
    """The response of a 500 if making any other fails."""
    return Reply(500, _FAILED, [("content-type", JSON), _NO_STORE])


def status_of(kind: type[PorticoError]) -> int:
    """The status of an error: its own, else that of the nearest base class that has one."""
    return next((STATUS[one] for one in kind.__mro__ if one in STATUS), 500)


def problem(error: PorticoError, resource: str = "") -> Reply:
    """The response of specification §7 for an error, with the challenge of RFC 6750 §3, which says
    where the metadata of the `resource` at this address is, if it has any. No cache keeps it."""
    reply = Reply(
        status_of(type(error)),
        error_body(error.code, error.message, error.details),
        [("content-type", JSON), _NO_STORE],
    )
    if isinstance(error, errors.AuthenticationRequired):
        reply.headers.append(_challenge(error.error, error.scope, resource))
    elif isinstance(error, errors.PermissionDenied) and error.scope is not None:
        reply.headers.append(_challenge("insufficient_scope", error.scope, resource))
    elif isinstance(error, errors.MethodNotAllowed):
        reply.headers.append(("allow", ", ".join(error.allow)))
    elif isinstance(error, errors.RateLimited | errors.Unavailable):
        reply.headers.append(("retry-after", str(error.retry_after)))
    return reply


def _challenge(error: str | None, scope: str | None, resource: str) -> tuple[str, str]:
    """The challenge of RFC 6750 §3 and RFC 9728 §5.1."""
    said = {
        "error": error,
        "scope": scope,
        "resource_metadata": resource and resource_metadata(resource),
    }
    listed = ", ".join(f'{name}="{value}"' for name, value in said.items() if value)
    return "www-authenticate", f"Bearer {listed}".strip()
