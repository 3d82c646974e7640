"""Whatever comes in: a 4xx that names the fault, and nothing changed (decisions §6)."""

import json
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from driving import EXAMPLES, Api, Caller, InProcess, refused
from kinds import create
from portico.mounts import AUTH, V1
from portico.web.reading import fields
from signing_in import client_of, somewhere

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
NUMBERS = "1e400 -1e400 1e-400 1E9999999 0E999999999 -0 1.0 1e99999999999 5e-9999999 NaN -Infinity"
PARAMETERS = "page limit sort order role category min_price max_price in_stock status search x"
HEADERS = (
    "authorization accept content-type content-encoding host if-match if-none-match"
    " x-forwarded-for x-forwarded-proto idempotency-key cookie"
)
JSON_VALUE: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(-(10**25), 10**25), st.floats(), ANY_TEXT),
        st.sampled_from(["", " ", "a@b.co", "admin", "USD", "https://a.de", "Passw0rdd", "draft"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(ANY_TEXT, st.sampled_from(["url", "alt", "theme"])), inner),
    ),
    max_leaves=8,
)
BODY_ROUTES = [
    (base, route)
    for base, routes in (("/v1", V1), ("/auth", AUTH))
    for route in routes
    if route.body is not None
]


async def target(api: Api, caller: Caller, path: str) -> str:
    if path.startswith("/users"):
        return path.replace("{id}", str(caller.user.id))
    if path.startswith("/webhooks/"):
        for held in (await caller.get("/webhooks")).json()["data"]:  # of which there may be few
            return path.replace("{id}", str(held["id"]))
        return path.replace("/webhooks/{id}", await create(caller, "/webhooks"))
    if path.startswith("/clients/"):
        for held in (await caller.get("/clients")).json()["data"]:
            return path.replace("{id}", held["client_id"])
        return path.replace("{id}", (await client_of(api.live)).client.client_id)
    return path.replace("{id}", str((await api.product()).id))


async def send(api: Api, caller: Caller, method: str, path: str, body: bytes) -> None:
    """Sends a body, and sees that a refusal names its reason and has changed nothing."""
    before = await api.state()
    headers = [("authorization", f"Bearer {caller.key}"), ("content-type", "application/json")]
    answer = await somewhere(api).exchange(method, path, headers, body)
    if answer.status_code < 400:
        return
    assert answer.status_code in (400, 401, 409, 422), answer.text
    assert refused(answer, answer.status_code) or answer.status_code in (401, 409)
    after = await api.state()
    if answer.status_code == 401:  # of which the audit log tells
        assert before.pop("live audit") != after.pop("live audit") or path == "/auth/refresh"
    assert after == before


@pytest.mark.parametrize("environ", ["sqlite+memory"], indirect=True)  # no row is read
@settings(EXAMPLES, max_examples=60)
@given(
    body=st.one_of(
        st.binary(),
        ANY_TEXT.map(lambda text: text.encode("utf-8", "surrogatepass")),
        JSON_VALUE.map(lambda value: json.dumps(value).encode()),
    ),
    to=st.sampled_from(BODY_ROUTES),
)
async def test_any_body_is_answered_or_refused_safely(
    api: Api, body: bytes, to: tuple[str, Any]
) -> None:
    caller = await api.caller("admin")
    base, route = to
    await send(api, caller, route.method, base + await target(api, caller, route.path), body)


@pytest.mark.parametrize(
    ("base", "route"),
    [
        pytest.param(
            *(base, route),
            id=f"{route.method} {base}{route.path}",
            marks=() if route in V1 else pytest.mark.one_engine,  # which store nothing of it
        )
        for base, route in BODY_ROUTES
    ],
)
@settings(EXAMPLES, max_examples=6)  # of each route, on two engines
@given(data=st.data())
async def test_any_value_in_a_declared_field_is_answered_or_refused_safely(
    api: Api, base: str, route: Any, data: st.DataObject
) -> None:
    caller = await api.caller("admin")
    names = st.sampled_from(sorted(fields(route.body)))
    drawn = st.dictionaries(st.one_of(names, names, ANY_TEXT), JSON_VALUE, max_size=6)
    values = json.dumps(data.draw(drawn))
    path = base + await target(api, caller, route.path)
    await send(api, caller, route.method, path, values.encode())
    number = f'{{"{data.draw(names)}": {data.draw(st.sampled_from(NUMBERS.split()))}}}'
    await send(api, caller, route.method, path, number.encode())


ASCII = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=20)
VALUES = st.one_of(ANY_TEXT, st.sampled_from(["1", "0", "asc", "1e9", "NaN"]))
QUERIES = st.one_of(
    ASCII,
    st.binary(max_size=20).map(quote),
    st.lists(st.tuples(st.sampled_from(PARAMETERS.split()), VALUES), max_size=4).map(
        lambda pairs: "&".join(
            f"{name}={quote(value.encode('utf-8', 'surrogatepass'))}" for name, value in pairs
        )
    ),
)


@pytest.mark.parametrize("path", ["/users", "/products"])
@EXAMPLES
@given(query=QUERIES)
async def test_any_string_as_a_query_is_answered_or_400(api: Api, path: str, query: str) -> None:
    caller = await api.caller("viewer")
    headers = [("authorization", f"Bearer {caller.key}")]
    query = query.replace("#", "%23")
    answer = await InProcess(api).exchange("GET", f"/v1{path}?{query}", headers)
    assert answer.status_code == 200 or refused(answer, 400), answer.text


@pytest.mark.one_engine
@EXAMPLES
@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "M-SEARCH"]),
    start=st.sampled_from(["/", "/v1", "/v1/", "/v1/users/", "/v1/products/", "/sandbox/v1/users"]),
    rest=st.one_of(ASCII, ANY_TEXT.map(lambda text: quote(text.encode("utf-8", "surrogatepass")))),
)
async def test_any_string_as_a_path_is_answered_and_changes_nothing(
    api: Api, method: str, start: str, rest: str
) -> None:
    assume(not unquote(rest).strip("/").isdecimal())  # which may be somebody's id
    caller = await api.caller("admin")
    rest = rest.replace("?", "%3f").replace("#", "%23")
    headers = [("authorization", f"Bearer {caller.key}"), ("content-type", "application/json")]
    async with api.unchanged():
        answer = await InProcess(api).exchange(method, f"{start}{rest}", headers, b"[]")
        assert answer.status_code in (200, 400, 401, 404, 405, 412), answer.text
        if answer.status_code >= 400 and method != "HEAD":
            refused(answer, answer.status_code)


@pytest.mark.one_engine
@EXAMPLES
@given(
    name=st.sampled_from(HEADERS.split()),
    value=st.one_of(
        st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF), max_size=40),
        st.sampled_from(["Bearer", "Bearer ", "*", "W/", ",", ";q=", "a;q=nan", '"', "a/b;c="]),
    ),
)
async def test_any_string_in_a_header_is_answered(api: Api, name: str, value: str) -> None:
    caller = await api.caller("admin")
    product = await api.product()
    headers = {"authorization": f"Bearer {caller.key}", "content-type": "application/json"}
    for method in ("GET", "PATCH"):
        answer = await InProcess(api).exchange(
            method, f"/v1/products/{product.id}", [*(headers | {name: value}).items()], b"{}"
        )
        if answer.status_code >= 400:
            refused(answer, answer.status_code)
        known = (400,) if name == "host" else (200, 304, 401, 406, 412, 415)
        assert answer.status_code in {200, *known}, answer.text
