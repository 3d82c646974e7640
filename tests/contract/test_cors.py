"""Pages of other origins: who may call, what a preflight answers, and what of an answer they may
read (decisions §14)."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from busy_machine import within
from driving import TINY, Api, settings_for
from operating import eventually
from portico.core.audit import OPERATOR
from portico.core.oauth import Client, is_page_of, page_origin
from portico.data.table import AT_ONCE
from portico.features.access.clients import (
    PageOrigins,
    Registration,
    change_client,
    delete_client,
    register_client,
)
from portico.features.access.storage import Clients
from portico.web.routing import PUBLIC_BODY_LIMIT

APP = "https://app.example.com"
SHOP = "https://shop.example"
EXPOSED = (
    "ETag, Link, Location, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining,"
    " X-RateLimit-Reset, X-Request-Id, Idempotent-Replayed"
)
AUTH = "https://localhost:8443/auth"
DASHBOARD = "https://localhost:8443/dashboard"
CLIENT_PATHS = ("/token", "/revoke", "/userinfo")
A_SECOND = 2.5
"""In which what is kept of a database is read again."""

LAMP = {"name": "Lamp", "category": "light", "price": 1}


@pytest.fixture
async def listed(tmp_path: Path) -> AsyncIterator[Api]:
    """The application, which lists one origin."""
    async with Api(settings_for(tmp_path, {"PORTICO_CORS_ORIGINS": APP})) as api:
        yield api


async def preflight(
    api: Api, url: str, origin: str = APP, method: str = "POST", address: str = "192.0.2.1:50000"
) -> httpx.Response:
    """What a browser asks before a page's request."""
    headers = {
        "origin": origin,
        "access-control-request-method": method,
        "access-control-request-headers": "authorization,content-type",
    }
    return await api.stranger(address).options(url, headers=headers)


def cors_headers(answer: httpx.Response) -> set[str]:
    return {name for name in answer.headers if name.startswith("access-control-")}


def readable(answer: httpx.Response, status: int, origin: str = APP) -> None:
    """Sees that a page of this origin may read an answer, and no cache gives it to another."""
    assert answer.status_code == status, answer.text
    assert answer.headers.get_list("access-control-allow-origin") == [origin]
    assert answer.headers["access-control-expose-headers"] == EXPOSED
    assert answer.headers["vary"] == "Origin"
    assert "access-control-allow-credentials" not in answer.headers


TAKEN_SOMEWHERE = (
    "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID"
)
PREFLIGHTS = [
    (
        "/products",
        "GET, HEAD, POST",
        "Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match",
    ),
    (
        "/products/17",
        "DELETE, GET, HEAD, PATCH",
        "Authorization, Content-Type, If-Match, If-None-Match",
    ),
    (
        "/users/me",
        "GET, HEAD, PATCH",
        "Authorization, Content-Type, If-Match, If-None-Match",
    ),
    ("/api-keys/17", "DELETE, GET, HEAD", "Authorization, If-Match, If-None-Match"),
    ("/nowhere", "DELETE, GET, PATCH, POST, PUT", TAKEN_SOMEWHERE),
    ("/api-keys/rotate", "POST", "Authorization, Idempotency-Key"),
    ("/events/stream", "GET, HEAD", "Authorization, Last-Event-ID"),
    (f"{AUTH}/token", "POST", "Authorization, Content-Type"),
    (f"{AUTH}/login", "POST", "Content-Type"),
    (f"{AUTH}/logout", "POST", "Authorization, Content-Type"),
    (f"{AUTH}/userinfo", "GET, HEAD, POST", "Authorization"),
]


async def test_a_preflight_tells_the_methods_and_headers_of_its_path(listed: Api) -> None:
    for url, methods, headers in PREFLIGHTS:
        answer = await preflight(listed, url)
        assert (answer.status_code, answer.content) == (204, b""), url
        assert answer.headers["access-control-allow-origin"] == APP
        assert answer.headers["access-control-allow-methods"] == methods
        assert answer.headers["access-control-allow-headers"] == headers, url
        assert answer.headers["access-control-max-age"] == "7200"
        assert answer.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in answer.headers


async def test_every_path_of_the_sandbox_answers_preflights_too(listed: Api) -> None:
    for base in ("https://localhost:8443/sandbox/v1/products/1", f"{AUTH}/refresh"):
        assert (await preflight(listed, base)).status_code == 204


async def test_preflights_are_counted_nowhere(listed: Api) -> None:
    stranger = listed.stranger("192.0.2.1:50000")
    before = (await stranger.get("/products")).headers["x-ratelimit-remaining"]
    for url in ("/products", "/nowhere", f"{AUTH}/token"):
        for origin in (APP, "https://evil.example"):
            answer = await preflight(listed, url, origin)
            assert "x-ratelimit-limit" not in answer.headers
    after = (await stranger.get("/products")).headers["x-ratelimit-remaining"]
    assert int(after) == int(before) - 1


async def test_a_preflight_of_an_unlisted_origin_has_no_cors_headers(listed: Api) -> None:
    for origin in ("https://evil.example", "null", f"{APP}.evil.example", f"{APP}:8443", ""):
        answer = await preflight(listed, "/products", origin)
        assert (answer.status_code, cors_headers(answer)) == (403, set()), origin
        nowhere = await preflight(listed, "/nowhere", origin)
        assert (nowhere.status_code, cors_headers(nowhere)) == (403, set()), origin


async def test_a_listed_page_that_is_wrong_about_a_path_can_read_so(listed: Api) -> None:
    caller = await listed.caller()
    caller.headers["origin"] = APP
    for url in ("/nowhere", f"{AUTH}/nowhere", "https://localhost:8443/sandbox/v1/nowhere"):
        answer = await preflight(listed, url)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == APP
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert "Authorization" in answer.headers["access-control-allow-headers"]
    readable(await caller.post("/nowhere", json=LAMP), 404)


async def test_options_that_is_no_preflight_is_no_method_here(listed: Api) -> None:
    caller = await listed.caller()
    readable(await caller.options("/products", headers={"origin": APP}), 405)


async def test_a_listed_page_reads_every_answer(listed: Api) -> None:
    caller = await listed.caller("admin")
    viewer = await listed.caller("viewer")
    caller.headers["origin"] = viewer.headers["origin"] = APP
    made = await caller.post("/products", json=LAMP, headers={"idempotency-key": "once"})
    readable(made, 201)
    again = await caller.post("/products", json=LAMP, headers={"idempotency-key": "once"})
    readable(again, 201)
    assert again.headers["idempotent-replayed"] == "true"
    path = f"/products/{made.json()['data']['id']}"
    read = await caller.get(path)
    readable(read, 200)
    readable(await caller.get(path, headers={"if-none-match": read.headers["etag"]}), 304)
    readable(await caller.get("/products?limit=0"), 400)
    readable(await listed.stranger(origin=APP).get("/products"), 401)
    readable(await viewer.post("/products", json=LAMP), 403)
    readable(await caller.get("/nowhere"), 404)
    readable(await caller.put("/products", json=LAMP), 405)
    readable(await caller.patch(path, json=LAMP, headers={"if-match": '"0"'}), 412)
    long = {"email": "a@example.com", "password": "x" * PUBLIC_BODY_LIMIT}
    readable(await listed.stranger(origin=APP).post(f"{AUTH}/refresh", json=long), 413)
    readable(await caller.delete(path), 204)


async def test_a_listed_page_reads_streams_and_refusals_of_limits(listed: Api) -> None:
    caller = await listed.caller(plan=TINY)
    caller.headers["origin"] = APP
    async with caller.stream("GET", "/events/stream") as stream:
        assert stream.headers["access-control-allow-origin"] == APP
        assert stream.headers["vary"] == "Origin"
    for _ in range(3):
        last = await caller.get("/products")
    readable(last, 429)
    assert last.headers["retry-after"]


async def test_a_page_that_is_not_listed_reads_nothing(listed: Api) -> None:
    caller = await listed.caller()
    for origin in ({"origin": "https://evil.example"}, {}):
        answer = await caller.get("/products", headers=origin)
        assert (answer.status_code, cors_headers(answer)) == (200, set())
        assert answer.headers["vary"] == "Origin"


async def test_no_page_gets_anywhere_with_a_cookie(listed: Api) -> None:
    body = {"email": "nobody@example.com", "password": "Aa1-nobody"}
    stranger = listed.stranger(origin=APP)
    readable(await stranger.post(f"{AUTH}/login", json=body), 403)
    readable(await stranger.post("/sessions", json=body), 403)


async def test_pages_are_read_by_none(listed: Api) -> None:
    for url in (f"{DASHBOARD}/sign-in", f"{AUTH}/authorize", "/docs", f"{DASHBOARD}/nowhere"):
        answer = await listed.stranger(origin=APP).get(url)
        assert cors_headers(answer) == set(), url
        assert cors_headers(await preflight(listed, url, method="GET")) == set(), url


async def test_with_a_star_every_page_may_call(tmp_path: Path) -> None:
    async with Api(settings_for(tmp_path, {"PORTICO_CORS_ORIGINS": "*"})) as api:
        caller = await api.caller()
        asked = await preflight(api, "/products", "null")
        assert asked.headers["access-control-allow-origin"] == "*"
        for headers in ({"origin": "https://any.example"}, {}):
            answer = await caller.get("/products", headers=headers)
            assert answer.headers["access-control-allow-origin"] == "*"
            assert "vary" not in answer.headers


async def test_without_cors_origins_pages_read_public_documents_only(api: Api) -> None:
    caller = await api.caller()
    answer = await caller.get("/products", headers={"origin": APP})
    assert cors_headers(answer) == set()
    assert "vary" not in answer.headers
    assert cors_headers(await preflight(api, "/products")) == set()
    for url in (
        f"{AUTH}/.well-known/jwks.json",
        f"{AUTH}/.well-known/openid-configuration",
        "https://localhost:8443/.well-known/oauth-authorization-server/auth",
        "/openapi.json",
    ):
        published = await api.stranger(origin=APP).get(url)
        assert published.headers.get_list("access-control-allow-origin") == ["*"], url
        assert (await preflight(api, url, method="GET")).status_code == 204


async def test_public_clients_pages_get_and_end_tokens(api: Api) -> None:
    async def client(uri: str, *, public: bool) -> int:
        wanted = Registration("An app", [uri, "com.example.app:/back"], "read:products")
        made = await register_client(api.live, None, wanted, public=public, by=OPERATOR)
        return made.client.id

    shop = await client(f"{SHOP}/callback", public=True)
    await client("http://localhost/callback", public=True)
    await client("https://server.example/callback", public=False)
    for path in CLIENT_PATHS:
        for origin in (SHOP, "http://localhost:5173"):
            asked = await preflight(api, f"{AUTH}{path}", origin)
            assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (
                204,
                origin,
            )
            readable(
                await api.stranger(origin=origin).post(f"{AUTH}{path}"),
                401 if path == "/userinfo" else 415,
                origin,
            )
        for origin in (
            "https://server.example",
            "http://localhost.evil.example",
            "https://localhost",
        ):
            assert (await preflight(api, f"{AUTH}{path}", origin)).status_code == 403
        assert (await api.stranger().post(f"{AUTH}{path}")).headers["vary"] == "Origin"
    for url in ("/products", f"{AUTH}/introspect", f"{AUTH}/login"):
        assert cors_headers(await preflight(api, url, SHOP)) == set()
    sandbox = "https://localhost:8443/sandbox/auth/token"
    assert (await preflight(api, sandbox, SHOP)).status_code == 403
    await delete_client(api.live, shop, by=OPERATOR)

    async def is_refused() -> bool:
        return (await preflight(api, f"{AUTH}/token", SHOP)).status_code == 403

    with within(A_SECOND):
        await eventually(is_refused, "the end of the client")


async def test_the_origins_of_clients_are_read_again_only_after_changes_of_clients(
    listed: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, public = 0, listed.live[Clients].public

    def sending_to(uri: str) -> Registration:
        return Registration("An app", [uri], "read:products")

    async def register(uri: str) -> int:
        made = await register_client(listed.live, None, sending_to(uri), public=True, by=OPERATOR)
        return made.client.id

    def counted() -> AsyncIterator[list[Client]]:
        nonlocal reads
        reads += 1
        return public()

    monkeypatch.setattr(listed.live[Clients], "public", counted)
    origins = PageOrigins(listed.live)
    for number in range(AT_ONCE):
        await register(f"https://shop{number}.example/callback")
    shop = await register(f"{SHOP}/callback")
    assert await origins.has(SHOP), "it is in the second batch"
    for _ in range(3):
        await listed.product()
        assert await origins.has(SHOP)
        assert not await origins.has(APP)
    assert reads == 1

    app = await register(f"{APP}/callback")
    assert await origins.has(APP)
    moved = sending_to("https://moved.example/callback")
    await change_client(listed.live, app, moved, lambda _: None, by=OPERATOR)
    assert not await origins.has(APP)
    await delete_client(listed.live, shop, by=OPERATOR)
    assert not await origins.has(SHOP)
    assert reads == 4


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("https://App.example:443/cb?x=1", "https://app.example"),
        ("https://app.example:8443", "https://app.example:8443"),
        ("https://[2001:DB8::1]:8443/cb", "https://[2001:db8::1]:8443"),
        ("http://127.0.0.1:9/cb", "http://127.0.0.1"),
        ("http://[::1]/cb", "http://[::1]"),
        ("https://localhost:5173/cb", "https://localhost:5173"),
        ("com.example.app:/cb", None),
    ],
)
def test_a_redirect_address_has_the_origin_of_its_pages(uri: str, expected: str | None) -> None:
    assert page_origin(uri) == expected
    assert expected is None or is_page_of({expected}, expected)
