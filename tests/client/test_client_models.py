"""The library's shapes are those of the served OpenAPI document, down to nulls and enums."""

import copy
import dataclasses
import functools
import operator
import pickle
import types
import typing
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

import httpx
import pytest

from oauth.authority import Authority
from portico_client import events, inputs, models
from portico_client.errors import BY_CODE, APIError, Fault

MODELS: dict[str, type] = {
    "AccountBody": models.Account,
    "AccountItem": models.AccountItem,
    "ApiKeyItem": models.ApiKey,
    "ApiKeyWithSecret": models.ApiKeyWithSecret,
    "AuditClient": models.AuditClient,
    "AuditEntry": models.AuditEntry,
    "AuditUser": models.AuditUser,
    "DeliveryItem": models.Delivery,
    "EventPagination": models.EventPagination,
    "Fault": Fault,
    "InvitationItem": models.Invitation,
    "InvitationWithLink": models.InvitationWithLink,
    "OAuthClientItem": models.OAuthClient,
    "OAuthClientWithSecret": models.OAuthClientWithSecret,
    "WebhookWithSecret": models.WebhookWithSecret,
    "Pagination": models.Pagination,
    "PingBody": models.Ping,
    "PlanBody": models.Plan,
    "QuotaReachedBody": models.QuotaReached,
    "PreferencesBody": models.Preferences,
    "PreviousKey": models.PreviousKey,
    "ProductBody": models.Product,
    "ProductItem": models.ProductItem,
    "ProductsImportedBody": models.ProductsImported,
    "RotatedKey": models.RotatedKey,
    "SandboxResetBody": models.SandboxReset,
    "SuccessorKey": models.SuccessorKey,
    "UserBody": models.User,
    "UsageRow": models.UsageRow,
    "UserItem": models.UserItem,
    "WebhookItem": models.Webhook,
}
"""What is answered: its name in the document, and here."""

INPUTS = {
    "CreateProduct": inputs.NewProduct,
    "ChangeProduct": inputs.ProductChanges,
    "CreateUser": inputs.NewUser,
    "ChangeUser": inputs.UserChanges,
    "ChangeAccount": inputs.AccountChanges,
    "CreateInvitation": inputs.NewInvitation,
    "CreateOAuthClient": inputs.NewOAuthClient,
    "ChangeOAuthClient": inputs.OAuthClientChanges,
    "CreateApiKey": inputs.NewApiKey,
    "CreateWebhook": inputs.NewWebhook,
    "ChangeWebhook": inputs.WebhookChanges,
}
"""What is sent."""

PREVIOUS = {
    "PreviousAccount": models.PreviousAccount,
    "PreviousProduct": models.PreviousProduct,
    "PreviousUser": models.PreviousUser,
}
"""The old values in events."""

BY_ITSELF = ("page", "cursor", "from", "to")
"""The parameters that the library sets; `from` is no name of a field, and so given otherwise."""

DECLARED = {"read:invoices", "write:invoices"}
"""Scopes of the service that the served installation has."""

MAY_BE_MISSING = {
    "ApiKeyWithSecret": {"key"},
    "InvitationWithLink": {"link"},
    "OAuthClientWithSecret": {"client_secret"},
    "WebhookWithSecret": {"secret"},
    "Pagination": {"total_is_exact"},
    "RotatedKey": {"key"},
}
"""Fields of what is answered that are not always there."""

BATCHES = {"BatchBody", "BatchFault", "BatchProducts", "BatchRefusal", "BatchResult"}
"""The shapes of the batches, which the library has no call for."""

ENVELOPES = ("Accepted", "Created", "Listed", "Single")
"""What is around it."""
ERRORS = ("Error", "Facts")
"""The ends of the names of errors' bodies and of their facts, which `APIError` has."""

NOUNS = (
    *("/products", "/users", "/plans", "/invitations", "/clients", "/audit", "/usage"),
    *("/api-keys", "/events", "/webhooks"),
)


@pytest.fixture(scope="module")
def document(served: Authority) -> Any:
    """The document that the server serves."""
    with served.client() as anybody:
        answer = anybody.get(f"{served.api}/openapi.json")
    assert answer.status_code == httpx.codes.OK
    return answer.json()


@pytest.fixture(scope="module")
def schemas(document: Any) -> dict[str, Any]:
    """Its schemas."""
    return dict(document["components"]["schemas"])


def operations(document: Any) -> dict[tuple[str, str], Any]:
    """The operations on resources; the library signs in by itself."""
    return {
        (method, path): operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if path.startswith(NOUNS)
    }


def named(value: Any, document: Any) -> set[str]:
    """The schemas that a part of the document names, and those that they name."""
    if isinstance(value, list):
        return {name for one in value for name in named(one, document)}
    if not isinstance(value, dict):
        return set()
    found = {name for one in value.values() for name in named(one, document)}
    if isinstance(target := value.get("$ref"), str):
        _, _, kind, name = target.split("/")
        found |= named(document["components"][kind][name], document)
        found |= {name} if kind == "schemas" else set()
    return found


def test_every_shape_of_the_resources_is_here(document: Any) -> None:
    shapes = named([*operations(document).values(), document["webhooks"]], document)
    answered = {name for name in shapes if not name.endswith(ERRORS)}
    own = {name for name in answered if not name.startswith(ENVELOPES)}
    assert own - {"EventBody"} - BATCHES == MODELS.keys() | INPUTS.keys() | PREVIOUS.keys()


def test_what_is_in_the_document_has_the_same_name_here() -> None:
    for name, model in MODELS.items():
        assert model.__name__ in (name, name.removesuffix("Body"), name.removesuffix("Item"))
    for name, model in INPUTS.items():
        noun = name.removeprefix("Create").removeprefix("Change")
        assert model.__name__ == (f"New{noun}" if name.startswith("Create") else f"{noun}Changes")


@pytest.mark.parametrize("name", MODELS)
def test_what_is_answered_is_what_is_read(schemas: dict[str, Any], name: str) -> None:
    model: Any = MODELS[name]
    hints, schema = typing.get_type_hints(model), schemas[name]
    fields = {field.name for field in dataclasses.fields(model)} - {"etag"}
    assert fields == schema["properties"].keys()
    missing = MAY_BE_MISSING.get(name, set())
    assert fields - set(schema["required"]) == missing
    for field in fields:
        hint = hints[field]
        hint = present(hint) if field in missing and optional(hint) else hint
        assert fits(hint, schema["properties"][field], schemas), (field, hint)


def test_every_type_of_event_has_its_class(document: Any) -> None:
    kinds = {name: shape for name, *shape in map(events.shape, typing.get_args(events.Event))}
    assert kinds.pop("unknown")
    assert document["webhooks"].keys() == kinds.keys() == {*typing.get_args(models.EventType)}
    for name, (data, previous) in kinds.items():
        request = document["webhooks"][name]["post"]["requestBody"]
        fields = request["content"]["application/json"]["schema"]["properties"]
        named_data = fields["data"]["$ref"].rpartition("/")[2]
        assert data is MODELS[named_data]
        old = fields.get("previous", {"$ref": ""})["$ref"].rpartition("/")[2]
        assert previous is (PREVIOUS[old] if old else type(None))


@pytest.mark.parametrize("name", INPUTS | PREVIOUS)
def test_what_is_sent_is_what_is_taken(schemas: dict[str, Any], name: str) -> None:
    shape: Any = {**INPUTS, **PREVIOUS}[name]
    hints = typing.get_type_hints(shape)
    schema = schemas[name]
    assert hints.keys() == schema["properties"].keys()
    assert shape.__required_keys__ == set(schema.get("required", ()))
    for field, hint in hints.items():
        assert fits(hint, schema["properties"][field], schemas), (field, hint)


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/products", inputs.ProductFilters),
        ("/users", inputs.UserFilters),
        ("/api-keys", inputs.ApiKeyFilters),
        ("/events", inputs.EventFilters),
        ("/invitations", inputs.InvitationFilters),
        ("/clients", inputs.OAuthClientFilters),
        ("/audit", inputs.AuditFilters),
        ("/usage", inputs.UsageFilters),
        ("/webhooks/{id}/deliveries", inputs.DeliveryFilters),
    ],
)
def test_every_filter_of_a_list_can_be_given(document: Any, path: str, shape: Any) -> None:
    parameters = {
        one["name"]: one["schema"]
        for one in document["paths"][path]["get"]["parameters"]
        if one["in"] == "query" and one["name"] not in BY_ITSELF
    }
    hints = typing.get_type_hints(shape)
    assert hints.keys() == parameters.keys()
    for name, hint in hints.items():
        assert optional(hint), f"{name} may be None, which leaves it out"
        assert fits(present(hint), parameters[name], {}), name


def test_every_operation_can_be_called(document: Any) -> None:
    called = {
        (method, noun + rest)
        for noun in ("/products", "/users", "/webhooks", "/api-keys", "/invitations", "/clients")
        for method, rest in (
            *(("get", "/{id}"), ("patch", "/{id}"), ("delete", "/{id}")),
            *(("get", ""), ("post", "")),
        )
    }
    called -= {("patch", "/api-keys/{id}"), ("patch", "/invitations/{id}")}
    called |= {("post", "/invitations/{id}/renew"), ("post", "/clients/{id}/rotate-secret")}
    called |= {("get", "/audit"), ("get", "/usage")}
    called |= {("get", "/users/me"), ("patch", "/users/me"), ("post", "/api-keys/rotate")}
    called |= {("get", "/events"), ("get", "/events/stream"), ("post", "/webhooks/{id}/test")}
    called |= {("post", "/webhooks/{id}/rotate-secret"), ("get", "/webhooks/{id}/deliveries")}
    called |= {("post", "/webhooks/{id}/deliveries/{delivery_id}/redeliver")}
    called |= {("get", "/users/{id}/account"), ("patch", "/users/{id}/account"), ("get", "/plans")}
    by_hand = {("post", "/products/batch")}  # the clients have no call for it yet
    assert operations(document).keys() - by_hand == called


def test_every_error_has_its_class(document: Any) -> None:
    assert {one["code"] for one in document["x-errors"]} == BY_CODE.keys()


def fits(hint: Any, schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> bool:
    """Whether a type holds just what a schema allows."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return hint is MODELS[name]
    if "anyOf" in schema:
        null = {"type": "null"} in schema["anyOf"]
        (rest,) = (one for one in schema["anyOf"] if one != {"type": "null"})
        return null and optional(hint) and fits(present(hint), {**rest, **extra(schema)}, schemas)
    if "enum" in schema and typing.get_origin(hint) is Literal:
        # A webhook's test has a type of its own, which no list shows.
        return set(typing.get_args(hint)) - {"ping"} == set(schema["enum"]) - {"ping"} - DECLARED
    kind = schema["type"]
    if isinstance(kind, list):
        (single,) = (one for one in kind if one != "null")
        return optional(hint) and fits(present(hint), {**schema, "type": single}, schemas)
    if kind == "array":
        (item,) = {one for one in typing.get_args(hint) if one is not Ellipsis}
        whole = typing.get_origin(hint) in (tuple, Sequence)
        return whole and fits(item, schema["items"], schemas)
    if kind == "object":
        return fits_object(hint, schema, schemas)
    if kind == "string" and schema.get("format") == "date-time":
        return hint is datetime
    exact = {"string": str, "integer": int, "boolean": bool}
    return hint in (Decimal, Decimal | int) if kind == "number" else hint is exact[kind]


def fits_object(hint: Any, schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> bool:
    """The same of an object: a mapping where its names are free, else a class of ours."""
    if "properties" not in schema:
        free = schema["additionalProperties"] is True
        return bool(hint == (Mapping[str, Any] if free else Mapping[str, str]))
    hints = typing.get_type_hints(hint)
    return hints.keys() == schema["properties"].keys() and all(
        fits(hints[name], inner, schemas) for name, inner in schema["properties"].items()
    )


def extra(schema: Mapping[str, Any]) -> dict[str, Any]:
    """What stands beside a choice."""
    return {name: value for name, value in schema.items() if name not in ("anyOf", "description")}


def optional(hint: Any) -> bool:
    """Whether a type is a union with None."""
    union = typing.get_origin(hint) in (types.UnionType, typing.Union)
    return union and type(None) in typing.get_args(hint)


def present(hint: Any) -> Any:
    """What it is beside None."""
    return functools.reduce(operator.or_, set(typing.get_args(hint)) - {type(None)})


def test_an_error_can_be_pickled() -> None:
    for kind in BY_CODE.values():
        error = kind(422, kind.CODE, "No.", [Fault("price", "must be more")], "req_1", 3)
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own
            assert isinstance(again, APIError)
            assert str(again) == str(error)
            assert (again.details, again.retry_after) == (error.details, 3)
