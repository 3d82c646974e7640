"""A second version beside the first (specification §9, decisions §9)."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from driving import UNMETERED, Api, Caller, InProcess, refused
from portico.features.access.credentials import Credentials
from portico.mounts import V1
from portico.web.api_responder import ApiResponder
from portico.web.authenticate import Authenticators
from portico.web.cookies import Origins, session_cookie
from portico.web.envelope import Single
from portico.web.measure import Measure
from portico.web.messages import Reply, Request, json_reply
from portico.web.peers import Peers
from portico.web.pipeline import Pipeline
from portico.web.representations import Representations
from portico.web.router import Router
from portico.web.routing import SUPERSEDED_FOR, Access, Mount, Route, superseded

pytestmark = pytest.mark.one_engine

SINCE = datetime(2026, 3, 1, tzinfo=UTC)
UNTIL = datetime(2027, 3, 31, 12, 30, tzinfo=UTC)
NEWS = {
    "deprecation": "@1772323200",
    "sunset": "Wed, 31 Mar 2027 12:30:00 GMT",
    "link": '<https://localhost:8443/v2>; rel="successor-version"',
}


async def greet(request: Request) -> Reply:
    return json_reply(200, Single(f"Hello, {request.caller.name}"))


V2 = (
    Route(
        method="GET",
        path="/users/me",
        handler=greet,
        access=Access.ANY_CALLER,
        summary="What v1 has too, in another shape",
        answer=Single[str],
    ),
)


def both_versions(api: Api) -> Pipeline:
    """The live environment with v1 and its made-up successor."""
    news = superseded(SINCE, UNTIL, "https://localhost:8443/v2")
    way = ApiResponder(
        Authenticators({"live": Credentials(api.live)}, session_cookie(None), Origins((), "")),
        Origins((), ""),
        Representations(0),
        body_limit=api.settings.body_limit,
    )
    router = Router(
        [
            Mount("localhost:8443", "/v1", api.live, V1, "v1", way, news),
            Mount("localhost:8443", "/v2", api.live, V2, "v2", way),
        ]
    )
    random = api.portico.random
    return Pipeline(router, router, Peers(()), Measure(None), clock=api.clock, random=random)


async def ask(api: Api, method: str, target: str, caller: Caller | None = None) -> httpx.Response:
    headers = [("authorization", f"Bearer {caller.key}")] if caller else []
    return await InProcess(api).exchange(method, target, headers, b"")


async def test_every_answer_of_a_superseded_version_tells_of_its_end_and_is_else_the_same(
    api: Api,
) -> None:
    caller = await api.caller("editor")
    poor = await api.caller("viewer", plan="tiny")
    product = await api.product()
    reads = ("/v1/users/me", "/v1/users", "/v1/products")
    before = [await ask(api, "GET", target, caller) for target in reads]
    api.application = both_versions(api)
    for target, old in zip(reads, before, strict=True):
        new = await ask(api, "GET", target, caller)
        assert (old.status_code, old.content) == (new.status_code, new.content)
        assert new.headers.keys() - old.headers.keys() == NEWS.keys()
    requests: list[tuple[int, str, str, Caller | None]] = [
        (200, "HEAD", "/v1/products", caller),
        (201, "POST", "/v1/api-keys/rotate", caller),
        (400, "GET", "/v1/users?page=0", caller),
        (401, "GET", "/v1/users/me", None),
        (403, "POST", "/v1/users", caller),
        (404, "GET", "/v1/nowhere", caller),
        (404, "GET", "/v1", caller),
        (405, "PUT", "/v1/users", caller),
        (415, "PATCH", f"/v1/products/{product.id}", caller),
        (204, "DELETE", f"/v1/products/{product.id}", caller),
        *((200, "GET", "/v1/users/me", poor) for _ in range(3)),
        (429, "GET", "/v1/users/me", poor),
    ]
    for status, method, target, who in requests:
        answer = await ask(api, method, target, who)
        assert answer.status_code == status, (method, target)
        assert NEWS.items() <= answer.headers.items(), (method, target)
        assert len(answer.headers.get_list("deprecation")) == 1


async def test_the_successor_and_what_is_in_no_version_say_nothing_of_an_end(api: Api) -> None:
    caller = await api.caller("viewer", plan=UNMETERED, name="Ada")
    api.application = both_versions(api)
    answer = await ask(api, "GET", "/v2/users/me", caller)
    assert answer.json() == {"data": "Hello, Ada"}
    silent = [answer]
    for target in ("/v2/products", "/v2", "/v3/users/me", "/v10/users", "/"):
        answer = await ask(api, "GET", target, caller)
        refused(answer, 404, "RESOURCE_NOT_FOUND")
        silent.append(answer)
    silent.append(await ask(api, "GET", "/v2/users/me"))
    assert not any(NEWS.keys() & answer.headers.keys() for answer in silent)


def test_a_superseded_version_is_kept_for_twelve_months() -> None:
    superseded(SINCE, SINCE + SUPERSEDED_FOR, "https://localhost:8443/v2")
    with pytest.raises(ValueError, match="366 days"):
        superseded(
            SINCE, SINCE + SUPERSEDED_FOR - timedelta(seconds=1), "https://localhost:8443/v2"
        )
