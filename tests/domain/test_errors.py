"""The exceptions that every layer raises."""

import pytest

from portico.core import errors
from portico.core.errors import Fault, PorticoError

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
}


def test_every_error_has_the_code_that_clients_rely_on() -> None:
    assert {kind.__name__: kind.code for kind in PorticoError.__subclasses__()} == CODES


@pytest.mark.parametrize("name", CODES)
def test_the_tree_at_the_top_of_the_module_names_every_error_with_its_code(name: str) -> None:
    drawn = [line.split()[1:] for line in (errors.__doc__ or "").splitlines() if "── " in line]
    assert [CODES[name]] == [code for kind, _status, code in drawn if kind == name]


def test_the_tree_names_no_error_that_does_not_exist() -> None:
    drawn = [line.split()[1] for line in (errors.__doc__ or "").splitlines() if "── " in line]
    assert [kind for kind in drawn if not hasattr(errors, kind)] == []


def test_an_error_keeps_its_message_and_all_faults_in_order() -> None:
    faults = [Fault("name", "must be 2 to 100 characters long"), Fault("price", "must be a number")]
    error = errors.Invalid("Two fields break a rule.", faults)
    assert str(error) == error.message == "Two fields break a rule."
    assert error.details == tuple(faults)


def test_an_error_without_faults_has_empty_details() -> None:
    assert errors.NotFound("Nothing here.").details == ()


def test_errors_that_tell_the_caller_what_to_do_next_carry_it() -> None:
    assert errors.MethodNotAllowed("No.", ["GET", "POST"]).allow == ("GET", "POST")
    assert errors.RateLimited("Slower.", retry_after=42).retry_after == 42
    assert errors.Unavailable("Soon.").retry_after == 1


def test_a_broken_rule_is_no_answer_to_a_caller_yet() -> None:
    assert not issubclass(errors.BrokenRule, PorticoError)
