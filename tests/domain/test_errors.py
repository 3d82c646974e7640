"""The exceptions that every layer raises."""

from portico.core.errors import PorticoError
from portico.features.services.forward import UpstreamError

CODES = {
    "Unreadable": "VALIDATION_ERROR",
    "Invalid": "VALIDATION_ERROR",
    "AuthenticationRequired": "AUTHENTICATION_REQUIRED",
    "PermissionDenied": "PERMISSION_DENIED",
    "NotFound": "RESOURCE_NOT_FOUND",
    "MethodNotAllowed": "METHOD_NOT_ALLOWED",
    "NotAcceptable": "NOT_ACCEPTABLE",
    "RequestTimeout": "REQUEST_TIMEOUT",
    "Duplicate": "DUPLICATE_RESOURCE",
    "Conflict": "CONFLICT",
    "Gone": "GONE",
    "PreconditionFailed": "PRECONDITION_FAILED",
    "PayloadTooLarge": "PAYLOAD_TOO_LARGE",
    "UnsupportedMediaType": "UNSUPPORTED_MEDIA_TYPE",
    "RateLimited": "RATE_LIMITED",
    "Internal": "INTERNAL_ERROR",
    "Unavailable": "SERVICE_UNAVAILABLE",
    "BadGateway": "BAD_GATEWAY",
    "GatewayTimeout": "GATEWAY_TIMEOUT",
    "NotForwarded": "NOT_IMPLEMENTED",
}


def test_every_error_has_the_code_that_clients_rely_on() -> None:
    kinds = {*PorticoError.__subclasses__(), *UpstreamError.__subclasses__()} - {UpstreamError}
    assert {kind.__name__: kind.code for kind in kinds} == CODES
