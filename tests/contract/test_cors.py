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
from portico.core.oauth import is_page_of, page_origin
from portico.features.access.clients import Registration, delete_client, register_client

APP = "https://app.example.com"
SHOP = "https://shop.example"
EXPOSED = (
    "ETag, Link, Location, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining,"
    " X-RateLimit-Reset, X-Request-Id, Idempotent-Replayed"
)
AUTH = "https://localhost:8443/auth"
SANDBOX = "https://localhost:8443/sandbox/v1"
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


CONDITIONS = "If-Match, If-None-Match"
ANYWHERE = f"Authorization, Content-Type, Idempotency-Key, {CONDITIONS}, Last-Event-ID"
PREFLIGHTS = [
    ("/products", "GET, HEAD, POST", f"Authorization, Content-Type, Idempotency-Key, {CONDITIONS}"),
    ("/products/17", "DELETE, GET, HEAD, PATCH", f"Authorization, Content-Type, {CONDITIONS}"),
    ("/api-keys/17", "DELETE, GET, HEAD", f"Authorization, {CONDITIONS}"),
    ("/api-keys/rotate", "POST", "Authorization, Idempotency-Key"),
    ("/events/stream", "GET, HEAD", "Authorization, Last-Event-ID"),
    (f"{SANDBOX}/users/me", "GET, HEAD, PATCH", f"Authorization, Content-Type, {CONDITIONS}"),
    (f"{AUTH}/token", "POST", "Authorization, Content-Type"),
    (f"{AUTH}/login", "POST", "Content-Type"),
    ("/nowhere", "DELETE, GET, PATCH, POST, PUT", ANYWHERE),
]


async def test_a_preflight_tells_methods_and_headers_of_its_path_and_is_not_counted(
    listed: Api,
) -> None:
    for url, methods, headers in PREFLIGHTS:
        answer = await preflight(listed, url)
        assert (answer.status_code, answer.content) == (204, b""), url
        assert answer.headers["access-control-allow-origin"] == APP
        assert answer.headers["access-control-allow-methods"] == methods
        assert answer.headers["access-control-allow-headers"] == headers, url
        assert answer.headers["access-control-max-age"] == "7200"
        assert answer.headers["vary"] == "Origin"
        assert "access-control-allow-credentials" not in answer.headers
    after = await listed.stranger("192.0.2.1:50000").get("/products")
    assert after.headers["x-ratelimit-remaining"] == "29"


async def test_a_page_that_is_not_listed_reads_nothing(listed: Api) -> None:
    for origin in ("https://evil.example", "null", f"{APP}.evil.example", f"{APP}:8443", ""):
        for url in ("/products", "/nowhere"):
            answer = await preflight(listed, url, origin)
            assert (answer.status_code, cors_headers(answer)) == (403, set()), origin
    caller = await listed.caller()
    for headers in ({"origin": "https://evil.example"}, {}):
        answer = await caller.get("/products", headers=headers)
        assert (answer.status_code, cors_headers(answer)) == (200, set())
        assert answer.headers["vary"] == "Origin"
    for url in (f"{DASHBOARD}/sign-in", f"{AUTH}/authorize", "/docs"):
        answer = await listed.stranger(origin=APP).get(url)
        assert cors_headers(answer) == set(), url
        assert cors_headers(await preflight(listed, url, method="GET")) == set(), url


async def test_a_listed_page_reads_every_answer_but_uses_no_cookie(listed: Api) -> None:
    caller, viewer = await listed.caller("admin"), await listed.caller("viewer", plan=TINY)
    caller.headers["origin"] = viewer.headers["origin"] = APP
    stranger = listed.stranger(origin=APP)
    once = {"idempotency-key": "once"}
    made = await caller.post("/products", json=LAMP, headers=once)
    readable(made, 201)
    readable(await caller.post("/products", json=LAMP, headers=once), 201)
    path = f"/products/{made.json()['data']['id']}"
    read = await caller.get(path)
    readable(read, 200)
    readable(await caller.get(path, headers={"if-none-match": read.headers["etag"]}), 304)
    readable(await caller.get("/products?limit=0"), 400)
    readable(await stranger.get("/products"), 401)
    readable(await viewer.post("/products", json=LAMP), 403)
    readable(await caller.get("/nowhere"), 404)
    readable(await caller.put("/products", json=LAMP), 405)
    readable(await caller.options("/products"), 405)
    readable(await caller.patch(path, json=LAMP, headers={"if-match": '"0"'}), 412)
    readable(await caller.delete(path), 204)
    async with viewer.stream("GET", "/events/stream") as stream:
        assert stream.headers["access-control-allow-origin"] == APP
    for _ in range(2):
        last = await viewer.get("/products")
    readable(last, 429)
    body = {"email": "nobody@example.com", "password": "Aa1-nobody"}
    for url in (f"{AUTH}/login", "/sessions"):
        readable(await stranger.post(url, json=body), 403)


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
    strange = ("https://server.example", "http://localhost.evil.example", "https://localhost")
    for path in CLIENT_PATHS:
        url = f"{AUTH}{path}"
        for origin in (SHOP, "http://localhost:5173"):
            asked = await preflight(api, url, origin)
            assert asked.status_code == 204
            assert asked.headers["access-control-allow-origin"] == origin
            status = 401 if path == "/userinfo" else 415
            readable(await api.stranger(origin=origin).post(url), status, origin)
        for origin in strange:
            assert (await preflight(api, url, origin)).status_code == 403
    elsewhere = "https://localhost:8443/sandbox/auth/token"
    for url in ("/products", f"{AUTH}/introspect", f"{AUTH}/login", elsewhere):
        assert cors_headers(await preflight(api, url, SHOP)) == set()
    await delete_client(api.live, shop, by=OPERATOR)

    async def is_refused() -> bool:
        return (await preflight(api, f"{AUTH}/token", SHOP)).status_code == 403

    with within(A_SECOND):
        await eventually(is_refused, "the end of the client")


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
