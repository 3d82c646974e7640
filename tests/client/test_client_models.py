"""The library covers the OpenAPI document, and what is generated from it is current."""

import copy
import json
import pickle
import re
import runpy
import typing
from typing import Any

import pytest

from client.programs import PYTHON
from portico.core.plans import DEFAULT_PLANS
from portico.mounts import V1
from portico.openapi.document import DocumentPart
from portico.openapi.document import document as described
from portico_client import events, models
from portico_client.errors import BY_CODE, APIError, Fault

SHAPES = {
    source or name: name
    for name, source in re.findall(
        r"^(\w+)(?:\(\w+\))?(?: = ([^\s,]+))?(?:, etag)?$",
        (PYTHON / "shapes.txt").read_text("utf-8"),
        re.MULTILINE,
    )
}
"""What is generated: its name in the document, and here."""

BATCHES = {"BatchBody", "BatchFault", "BatchProducts", "BatchRefusal", "BatchResult"}
"""The shapes of the batches, which the library has no call for."""

BY_HAND = {"EventBody", "Fault"}
ENVELOPES = ("Accepted", "Created", "Listed", "Single", "VerifyAnswer")
"""What is around it."""
ERRORS = ("Error", "Facts")
"""The ends of the names of errors' bodies and of their facts, which `APIError` has."""

NOUNS = (
    *("/products", "/users", "/plans", "/invitations", "/clients", "/audit", "/usage"),
    *("/api-keys", "/events", "/webhooks", "/verify"),
)


@pytest.fixture(scope="module")
def document() -> Any:
    """The document of a server without a service of its own."""
    api, auth = DocumentPart("/v1", V1), DocumentPart("/auth", ())
    return json.loads(json.dumps(described(api, auth, DEFAULT_PLANS, site_name="Portico")))


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


def test_generated_modules_and_the_reference_are_current(document: Any) -> None:
    made = runpy.run_path(str(PYTHON / "generate.py"))["generated"](document)
    for path, text in made.items():
        assert path.read_text("utf-8") == text, f"{path.name}: run clients/python/generate.py"
        if path.stem in ("client", "apps", "verifiers"):
            assert not re.search(r"asyncio|Tasks|Async[A-Z]|\bawait\b", text)
    reference = runpy.run_path(str(PYTHON / "reference.py"))["reference"]()
    kept = (PYTHON / "docs/reference.md").read_text("utf-8")
    assert kept == reference, "run clients/python/reference.py"


def test_client_has_every_shape_of_the_api(document: Any) -> None:
    shapes = named([*operations(document).values(), document["webhooks"]], document)
    own = {name for name in shapes if not name.endswith(ERRORS) and not name.startswith(ENVELOPES)}
    assert own - BATCHES - BY_HAND <= {source.partition(".")[0] for source in SHAPES}


def test_every_type_of_event_has_its_class(document: Any) -> None:
    kinds = {name: shape for name, *shape in map(events.shape, typing.get_args(events.Event))}
    assert kinds.pop("unknown")
    assert document["webhooks"].keys() == kinds.keys() == {*typing.get_args(models.EventType)}
    for name, given in kinds.items():
        request = document["webhooks"][name]["post"]["requestBody"]
        fields = request["content"]["application/json"]["schema"]["properties"]
        targets = (
            fields[part]["$ref"].rpartition("/")[2]
            for part in ("data", "previous")
            if part in fields
        )
        expected = [getattr(models, SHAPES[target]) for target in targets]
        assert [kind for kind in given if kind is not type(None)] == expected


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
    called |= {("get", "/audit"), ("get", "/usage"), ("post", "/verify")}
    called |= {("get", "/users/me"), ("patch", "/users/me"), ("post", "/api-keys/rotate")}
    called |= {("get", "/events"), ("get", "/events/stream"), ("post", "/webhooks/{id}/test")}
    called |= {("post", "/webhooks/{id}/rotate-secret"), ("get", "/webhooks/{id}/deliveries")}
    called |= {("post", "/webhooks/{id}/deliveries/{delivery_id}/redeliver")}
    called |= {("get", "/users/{id}/account"), ("patch", "/users/{id}/account"), ("get", "/plans")}
    by_hand = {("post", "/products/batch")}  # the clients have no call for it yet
    assert operations(document).keys() - by_hand == called


def test_every_error_has_its_class(document: Any) -> None:
    assert {one["code"] for one in document["x-errors"]} == BY_CODE.keys()


def test_an_error_can_be_pickled() -> None:
    for kind in BY_CODE.values():
        error = kind(422, kind.CODE, "No.", [Fault("price", "must be more")], "req_1", 3)
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301 - our own
            assert isinstance(again, APIError)
            assert str(again) == str(error)
            assert (again.details, again.retry_after) == (error.details, 3)
