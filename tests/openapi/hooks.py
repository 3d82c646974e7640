"""What Schemathesis must know of Portico beyond the document.

All its checks stay as they are. `positive_data_acceptance` takes every refusal of a request that
keeps its schema for a fault; the refusals below depend on more than one value of the request, or
on what is stored, which JSON Schema cannot say. Exactly these are let pass, by the field that they
name.
"""

import os
import re
from base64 import b64encode
from typing import Any

import schemathesis
from schemathesis.core.failures import AcceptedNegativeData, Failure
from schemathesis.core.transport import Response
from schemathesis.generation.case import Case
from schemathesis.hooks import HookContext
from schemathesis.openapi.checks import RejectedPositiveData

from portico.core.money import UNITS_PER_ONE
from portico.web import json_schema

CURSOR = ("cursor", "must ")
"""One that no page has given, or that stands beside a page's number."""

VERIFIED = ("service", "scope", "limit", "address", "method", "path", "cost")
IN_A_CHECK = {
    ("checks", ""),
    *((field, text) for field in VERIFIED for text in ("is ", "must ", "needs ")),
}

OF_A_CLIENT = {
    (field, "")
    for field in (
        *("redirect_uris", "scopes", "grants", "service", "first_party", "public"),
        *("jwks", "jwks_uri", "post_logout_redirect_uris", "backchannel_logout_uri"),
    )
}
"""What an address may be, what the settings declare, and what goes together."""

SAID_BY_NO_SCHEMA = {
    # A bound above the other one.
    ("GET", "/products", 400): {("min_price", "must not be greater than max_price"), CURSOR},
    ("GET", "/users", 400): {CURSOR},
    ("GET", "/api-keys", 400): {CURSOR},
    ("GET", "/webhooks/{id}/deliveries", 400): {CURSOR},
    ("GET", "/invitations", 400): {CURSOR},
    ("GET", "/clients", 400): {CURSOR},
    ("POST", "/clients", 400): OF_A_CLIENT,
    ("PATCH", "/clients/{id}", 400): OF_A_CLIENT,
    ("POST", "/clients", 422): OF_A_CLIENT,
    ("PATCH", "/clients/{id}", 422): OF_A_CLIENT,
    # A kind that there is; a service and a plan that the settings declare.
    ("GET", "/audit", 400): {
        ("target", "must be a kind and an id"),
        ("target", "must not be empty"),
    },
    ("GET", "/usage", 400): {
        ("service", "is not declared"),
        ("from", "must "),
        ("to", "must "),
        ("user_id", "must "),
    },
    ("POST", "/invitations", 422): {("plan", "must be one of")},
    ("PATCH", "/users/{id}/account", 422): {("plan", "must be one of")},
    # A change of status that the product's present status does not allow.
    ("PATCH", "/products/{id}", 422): {("status", "cannot change")},
    # Nobody but its owner knows the current password.
    ("PATCH", "/users/me", 422): {
        ("current_password", "This is not the current password."),
        ("current_password", "Send the current password too"),
    },
    # What a key may have depends on its owner, on who makes it, on the address and on the time.
    ("POST", "/api-keys", 422): {
        ("user_id", "must be a user's"),
        ("type", "must be another here"),
        ("scopes", "must be some of"),
        ("networks", "must be an address"),
        ("expires_at", "must "),
    },
    # Where webhooks may lead.
    ("POST", "/webhooks", 422): {("url", "must ")},
    ("PATCH", "/webhooks/{id}", 422): {("url", "must ")},
    # Either one check or several, of what is an address and what the settings declare.
    ("POST", "/verify", 400): {("credential", "is required, here or in each"), *IN_A_CHECK},
    ("POST", "/verify", 422): IN_A_CHECK,
    # An item is checked as one request is, and an atomic batch refused as its first fault is.
    **{("POST", "/products/batch", status): {("items", "")} for status in (400, 404, 409, 422)},
    ("PATCH", "/users/{id}", 422): {
        ("current_password", "This is not the current password."),
        ("current_password", "Send the current password too"),
    },
}

# Codes and tokens must have been issued, and whoever authenticates must do it in one way.
REFUSED_BY_OAUTH = {
    "/token": {"invalid_grant", "invalid_request", "invalid_scope"},
    "/device_authorization": {
        "invalid_request",
        "invalid_scope",
        "invalid_target",
        "unauthorized_client",
    },
    "/revoke": {"invalid_request"},
    "/introspect": {"invalid_request"},
}

WIDER = (json_schema.PASSWORD_BEYOND_ASCII, json_schema.EMAIL_BEYOND_ASCII, json_schema.IPV6_HOST)


@schemathesis.hook
def filter_failure(
    context: HookContext,  # noqa: ARG001 - hooks are called with it by name
    failure: Failure,
    case: Case[Any],
    response: Response,
) -> bool:
    """Whether a failed check is a fault of Portico's."""
    if isinstance(failure, AcceptedNegativeData):
        if response.status_code == 413:  # refused for its size, before anything is read
            return False
        # White space around a header's value is not part of it (RFC 9110 §5.5).
        sent = dict(case.headers).get("Idempotency-Key", "")
        return bool(sent == sent.strip())
    if not isinstance(failure, RejectedPositiveData):
        return True
    if case.path in REFUSED_BY_OAUTH:
        return response.json()["error"] not in REFUSED_BY_OAUTH[case.path]
    if response.status_code == 412:  # the header If-Match, held against what is stored
        return "If-Match" not in (case.headers or {})
    if "was used before with another body" in response.text:  # the header Idempotency-Key
        return False
    known = SAID_BY_NO_SCHEMA.get((case.method, case.path, response.status_code), set())
    return not all(
        any(
            fault["field"].partition(".")[0] == field and fault["message"].startswith(text)
            for field, text in known
        )
        for fault in response.json()["error"]["details"]
    )


@schemathesis.hook
def before_call(
    context: HookContext,  # noqa: ARG001 - hooks are called with it by name
    case: Case[Any],
    kwargs: dict[str, Any],  # noqa: ARG001 - hooks are called with it by name
) -> None:
    """Calls OAuth as a client, and keeps the run from deleting the user as whom it calls all else:
    everything after would be 401."""
    if case.path in REFUSED_BY_OAUTH:
        client = os.environ["PORTICO_TEST_CLIENT"].encode()
        case.headers["Authorization"] = f"Basic {b64encode(client).decode()}"
        if isinstance(case.body, dict):
            for name in ("client_id", "client_secret"):
                case.body.pop(name, None)
    own = os.environ["PORTICO_TEST_USER_ID"]  # the first of users and keys alike
    if case.method == "DELETE" and str((case.path_parameters or {}).get("id")) == own:
        case.path_parameters["id"] = 2**63 - 1


@schemathesis.hook
def before_load_schema(
    context: HookContext,
    schema: Any,
) -> None:
    """Saves what took most of the run and found nothing, ever, where a pattern implies what stands
    beside it: a search without end for texts that match it and not the format, and patterns that
    repeat four billion times, which Schemathesis makes of it and the least length.

    And says of prices what the document says in words: validators that divide binary floats
    would refuse 19.95. Leaves out where patterns are wider than the rules."""
    if isinstance(schema, dict):
        if isinstance(pattern := schema.get("pattern"), str):
            for wider in WIDER:
                schema["pattern"] = pattern = pattern.replace(f"|{wider}", "")
            schema.pop("format", None)
            if not re.search(pattern, "x" * (schema.get("minLength", 0) - 1)):
                schema.pop("minLength", None)
        if schema.get("type") == "number" and "exclusiveMaximum" in schema:
            schema["multipleOf"] = 1 / UNITS_PER_ONE
        for part in schema.values():
            before_load_schema(context, part)
    elif isinstance(schema, list):
        for part in schema:
            before_load_schema(context, part)
