"""Whatever comes in: a 4xx that names the fault, and nothing changed (decisions §6)."""

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

import httpx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from driving import EXAMPLES, Api, Caller, InProcess, refused
from portico.mounts import AUTH, V1
from portico.web.reading import fields
from signing_in import somewhere

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
JSON_VALUE: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(-(10**25), 10**25),
        st.floats(),
        ANY_TEXT,
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
NUMBERS = ["1e400", "-1e400", "1e-400", "1E9999999", "0E999999999", "9" * 400, "-0", "1.0", "0.1e1"]
NUMBERS += ["1e" + "9" * 25, "5e-9999999", "NaN", "Infinity", "-Infinity", "0.00001", "1.00000"]


async def target(api: Api, caller: Caller, path: str) -> str:
    if path.startswith("/users"):
        return path.replace("{id}", str(caller.user.id))
    if path.startswith("/webhooks/"):
        held = await caller.get("/webhooks")  # of which there may be few
        made = held.json()["data"] or [await hook(caller)]
        return path.replace("{id}", str(made[0]["id"]))
    return path.replace("{id}", str((await api.product()).id))


async def hook(caller: Caller) -> dict[str, Any]:
    body = {"url": "https://hooks.example.com/in", "types": ["*"]}
    made: dict[str, Any] = (await caller.post("/webhooks", json=body)).json()["data"]
    return made


def answered_safely(answer: httpx.Response) -> bool:
    """Whether the request was refused, for a reason that its answer names."""
    if answer.status_code < 400:
        return False
    faults = refused(answer, answer.status_code)
    assert answer.status_code in (400, 401, 409, 422), answer.text
    assert faults or answer.status_code in (401, 409)
    return True


@dataclass
class Sender:
    """Sends bodies, and sees that what is refused has changed nothing."""

    api: Api
    caller: Caller
    known: dict[str, Any] | None = None
    """What both databases hold, where nothing has changed since a look at them."""

    async def send(self, method: str, path: str, body: bytes) -> None:
        before = self.known or await self.api.state()
        self.known = None
        key = ("authorization", f"Bearer {self.caller.key}")
        headers = [key, ("content-type", "application/json")]
        answer = await somewhere(self.api).exchange(method, path, headers, body)
        if not answered_safely(answer):
            return
        after = await self.api.state()
        if answer.status_code == 401:  # of which the audit log tells
            assert before.pop("live audit") != after.pop("live audit") or path == "/auth/refresh"
        else:
            self.known = after
        assert after == before


ROUTES = pytest.mark.parametrize(
    ("base", "route"), BODY_ROUTES, ids=[f"{r.method} {base}{r.path}" for base, r in BODY_ROUTES]
)
UNREAD = pytest.mark.parametrize("environ", ["sqlite+memory"], indirect=True)
"""On one engine: what is no object of declared fields is refused before any row is read, by what
all routes share."""


@UNREAD
@settings(EXAMPLES, max_examples=200)
@given(
    body=st.one_of(
        st.binary(),
        ANY_TEXT.map(lambda text: text.encode("utf-8", "surrogatepass")),
        JSON_VALUE.map(lambda value: json.dumps(value).encode()),
    ),
    to=st.sampled_from(BODY_ROUTES),
)
async def test_any_body(api: Api, body: bytes, to: tuple[str, Any]) -> None:
    caller = await api.caller("admin")
    base, route = to
    path = base + await target(api, caller, route.path)
    await Sender(api, caller).send(route.method, path, body)


@ROUTES
@settings(EXAMPLES, max_examples=10)  # of each route, on two engines
@given(data=st.data())
async def test_any_value_in_a_declared_field(
    api: Api, base: str, route: Any, data: st.DataObject
) -> None:
    caller = await api.caller("admin")
    names = st.sampled_from(sorted(fields(route.body)))
    values = data.draw(st.dictionaries(st.one_of(names, names, ANY_TEXT), JSON_VALUE, max_size=6))
    path = base + await target(api, caller, route.path)
    await Sender(api, caller).send(route.method, path, json.dumps(values).encode())


@ROUTES
async def test_any_number_in_any_declared_field(api: Api, base: str, route: Any) -> None:
    caller = await api.caller("admin")
    path = base + await target(api, caller, route.path)
    sender = Sender(api, caller)
    for number in NUMBERS:
        for name in fields(route.body):
            await sender.send(route.method, path, f'{{"{name}": {number}}}'.encode())


ASCII = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=20)
PARAMETERS = st.sampled_from(
    [
        "page",
        "limit",
        "sort",
        "order",
        "role",
        "category",
        "min_price",
        "max_price",
        "in_stock",
        "status",
        "search",
        "x",
    ]
)
QUERIES = st.one_of(
    ASCII,
    st.binary(max_size=20).map(quote),
    st.lists(
        st.tuples(
            PARAMETERS, st.one_of(ANY_TEXT, st.sampled_from(["1", "0", "asc", "1e9", "NaN"]))
        ),
        max_size=4,
    ).map(
        lambda pairs: "&".join(
            f"{name}={quote(value.encode('utf-8', 'surrogatepass'))}" for name, value in pairs
        )
    ),
)


@pytest.mark.parametrize("path", ["/users", "/products", "/users/me"])
@EXAMPLES
@given(query=QUERIES)
async def test_any_string_as_a_query(api: Api, path: str, query: str) -> None:
    caller = await api.caller("viewer")
    headers = [("authorization", f"Bearer {caller.key}")]
    query = query.replace("#", "%23")
    answer = await InProcess(api).exchange("GET", f"/v1{path}?{query}", headers)
    assert answer.status_code in (200, 400), answer.text
    answered_safely(answer)


@EXAMPLES
@given(
    method=st.sampled_from(
        ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "M-SEARCH"]
    ),
    start=st.sampled_from(["/", "/v1", "/v1/", "/v1/users/", "/v1/products/", "/sandbox/v1/users"]),
    rest=st.one_of(ASCII, ANY_TEXT.map(lambda text: quote(text.encode("utf-8", "surrogatepass")))),
)
async def test_any_string_as_a_path(api: Api, method: str, start: str, rest: str) -> None:
    assume(not unquote(rest).strip("/").isdecimal())  # which may be somebody's id
    caller = await api.caller("admin")
    rest = rest.replace("?", "%3f").replace("#", "%23")
    headers = [("authorization", f"Bearer {caller.key}"), ("content-type", "application/json")]
    async with api.unchanged():
        answer = await InProcess(api).exchange(method, f"{start}{rest}", headers, b"[]")
        if answer.status_code != 200:
            assert answer.status_code in (400, 401, 404, 405, 412), answer.text
        if answer.status_code >= 400 and method != "HEAD":
            refused(answer, answer.status_code)


@EXAMPLES
@given(
    name=st.sampled_from(
        [
            "authorization",
            "accept",
            "content-type",
            "content-encoding",
            "host",
            "if-match",
            "if-none-match",
            "x-forwarded-for",
            "x-forwarded-proto",
            "idempotency-key",
            "cookie",
        ]
    ),
    value=st.one_of(
        st.text(st.characters(min_codepoint=0x20, max_codepoint=0xFF), max_size=40),
        st.sampled_from(
            ["Bearer", "Bearer ", "*", "W/", ",", ";q=", "a;q=nan", '"', "a/b;charset="]
        ),
    ),
)
async def test_any_string_in_a_header(api: Api, name: str, value: str) -> None:
    caller = await api.caller("admin")
    product = await api.product()
    headers = {
        "authorization": f"Bearer {caller.key}",
        "content-type": "application/json",
        name: value,
    }
    transport = InProcess(api)
    for method in ("GET", "PATCH"):
        target = f"/v1/products/{product.id}"
        answer = await transport.exchange(method, target, list(headers.items()), b"{}")
        if answer.status_code >= 400:
            refused(answer, answer.status_code)
        known = (400,) if name == "host" else (200, 304, 401, 406, 412, 415)
        assert answer.status_code in {200, *known}, answer.text
