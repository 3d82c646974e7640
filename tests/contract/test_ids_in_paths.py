"""Paths with ids elsewhere than at their end: found, read and refused as all others."""

from typing import Any

import httpx
import pytest

from driving import Api, Caller, refused
from portico.core.plans import DEFAULT_PLANS
from portico.features.access.credentials import Credentials
from portico.features.catalogue.rules import Product
from portico.features.catalogue.schemas import CreateProduct
from portico.features.catalogue.service import create_product
from portico.openapi.document import Part, document
from portico.web.api_responder import ApiResponder
from portico.web.authenticate import Authenticators
from portico.web.cookies import Origins, session_cookie
from portico.web.envelope import Single
from portico.web.measure import Measure
from portico.web.messages import Reply, Request, json_reply
from portico.web.peers import Peers
from portico.web.pipeline import Pipeline
from portico.web.reading import sent
from portico.web.representations import Representations
from portico.web.router import Router
from portico.web.routing import Mount, Route

pytestmark = pytest.mark.one_engine

COPY = "/shelves/{id}/lamps/{lamp_id}/copy"


async def read_label(request: Request) -> Reply:
    return json_reply(200, Single(f"shelf {request.resource_id}"))


async def read_lamp(request: Request) -> Reply:
    return json_reply(200, Single(f"shelf {request.resource_id}, lamp {request.inner_id}"))


async def copy_lamp(request: Request) -> Reply:
    """Makes a product, so that there is an effect to be had once."""

    def reply(product: Product) -> Reply:
        return json_reply(201, Single(product.name))

    name = f"shelf {request.resource_id}, lamp {request.inner_id}"
    values = sent(CreateProduct(name=name, category="light", price=1))
    return reply(await create_product(request.environment, values, request.answering(reply)))


def _route(method: str, path: str, handler: Any, **more: Any) -> Route:
    return Route(
        method=method, path=path, handler=handler, access="read:products", summary="X", **more
    )


ROUTES = (
    _route("GET", "/shelves/{id}", read_label),
    _route("GET", "/shelves/{id}/label", read_label),
    _route("GET", "/shelves/{id}/lamps/{lamp_id}", read_lamp),
    _route("POST", COPY, copy_lamp, status=201, repeatable=True),
)


@pytest.fixture
def measure() -> Measure:
    """What the requests of a test cost."""
    return Measure(None)


@pytest.fixture
async def caller(api: Api, measure: Measure) -> Caller:
    """Somebody at a server that has shelves, at one host or another."""
    caller = await api.caller("admin")
    responder = ApiResponder(
        Authenticators({"live": Credentials(api.live)}, session_cookie(None), Origins((), "")),
        Origins((), ""),
        Representations(0),
        body_limit=api.settings.body_limit,
    )
    hosts = ("localhost:8443", "other.example")
    router = Router([Mount(host, "/v1", api.live, ROUTES, "v1", responder) for host in hosts])
    api.application = Pipeline(
        *(router, router, Peers(()), measure),
        clock=api.clock,
        random=api.portico.random,
    )
    return caller


@pytest.mark.parametrize("host", ["localhost:8443", "Other.example:443"])
async def test_every_id_of_a_path_reaches_the_handler(caller: Caller, host: str) -> None:
    async def said(path: str) -> Any:
        answer = await caller.get(path, headers={"host": host})
        assert answer.status_code == 200
        return answer.json()["data"]

    assert await said("/shelves/7") == "shelf 7"
    assert await said("/shelves/7/label") == "shelf 7"
    assert await said("/shelves/7/lamps/9223372036854775807") == "shelf 7, lamp 9223372036854775807"


async def test_what_is_no_id_and_no_path_is_not_found(caller: Caller) -> None:
    for path in (
        *("/shelves/07/label", "/shelves/x/label", "/shelves/0/label", "/shelves/{id}/label"),
        *("/shelves/1/lamps/-1", "/shelves/1/lamps/9223372036854775808", "/shelves/%31%20/label"),
        *("/shelves/1/lamps/2/copy/", "/shelves//label", "/shelves/1/label/", "/shelves/1/lamps/"),
        *("/shelves/1/lamps", "/shelves/1/nothing", "/shelves/1/lamps/2/copy/3", "/shelves/1/2"),
    ):
        refused(await caller.get(path), 404, "RESOURCE_NOT_FOUND")


async def test_another_method_names_those_that_are_possible(caller: Caller) -> None:
    answer = await caller.get("/shelves/1/lamps/2/copy")
    refused(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "POST"
    answer = await caller.delete("/shelves/1/label")
    refused(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == "GET, HEAD"


async def test_a_malformed_id_is_401_without_a_credential(api: Api, caller: Caller) -> None:
    assert caller.user.role == "admin"
    stranger = await api.stranger().get("/shelves/x/label")
    refused(stranger, 401, "AUTHENTICATION_REQUIRED")


async def test_a_key_for_repeats_belongs_to_the_resources_that_the_path_names(
    api: Api, caller: Caller
) -> None:
    async def copied(path: str, by: Caller = caller) -> httpx.Response:
        return await by.post(path, headers={"idempotency-key": "one"})

    first = await copied("/shelves/1/lamps/2/copy")
    assert first.json() == {"data": "shelf 1, lamp 2"}
    assert (await copied("/shelves/1/lamps/3/copy")).json() == {"data": "shelf 1, lamp 3"}
    assert (await copied("/shelves/12/lamps/3/copy")).json() == {"data": "shelf 12, lamp 3"}
    # Of the account, whatever the credential.
    another = await api.caller("admin", user=caller.user)
    for by in (caller, another):
        again = await copied("/shelves/1/lamps/2/copy", by)
        assert (again.content, again.headers["idempotent-replayed"]) == (first.content, "true")
    rows = await api.live.db.slow.all("SELECT name FROM products ORDER BY id")
    names = [name for (name,) in rows]
    assert names == ["shelf 1, lamp 2", "shelf 1, lamp 3", "shelf 12, lamp 3"]


async def test_metrics_know_the_pattern_and_not_the_ids(
    api: Api, caller: Caller, measure: Measure
) -> None:
    await caller.get("/shelves/7/lamps/8")
    await api.stranger().get("/shelves/9/lamps/10")
    found = {(endpoint.path, status) for endpoint, status in measure.series if endpoint}
    assert found == {
        ("/v1/shelves/{id}/lamps/{lamp_id}", 200),
        ("/v1/shelves/{id}/lamps/{lamp_id}", 401),
    }


def test_the_document_describes_each_id() -> None:
    part = Part("https://localhost:8443/v1", ROUTES)
    paths = document(
        part, Part("https://localhost:8443/auth", ()), DEFAULT_PLANS, site_name="Portico"
    )["paths"]
    operation = paths[COPY]["post"]
    inside = [parameter for parameter in operation["parameters"] if parameter["in"] == "path"]
    assert [parameter["name"] for parameter in inside] == ["id", "lamp_id"]
    assert all(parameter["required"] for parameter in inside)
    assert "404" in operation["responses"]


@pytest.mark.parametrize("path", ["/a/{id}/{b}/{c}", "/a/x{id}", "/a/{id", "/a/{B}"])
def test_an_id_is_a_whole_part_and_there_are_two_at_most(path: str) -> None:
    with pytest.raises(ValueError, match="at most 2 whole segments"):
        _route("GET", path, read_label)
