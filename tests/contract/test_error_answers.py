"""Refusals: one body, the right status, every fault, and nothing changed (decisions §6)."""

import inspect
import json
from typing import Any

import httpx
import pytest

from driving import BASE, Api, InProcess, refused
from portico.core import errors
from portico.core.errors import PorticoError
from portico.web.problems import STATUS, status_of
from signing_in import client_of, somewhere, tokens_of

pytestmark = pytest.mark.one_engine

JSON = {"content-type": "application/json"}
LAMP: dict[str, Any] = {"name": "Lamp", "category": "light", "price": 12.5}


def test_every_error_of_the_domain_has_a_status() -> None:
    kinds = {
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, PorticoError) and kind is not PorticoError
    }
    assert STATUS.keys() == {kind for kind in kinds if "code" in vars(kind)}
    assert all(kind.code and status_of(kind) == STATUS.get(kind, 503) for kind in kinds)


NO_JSON_OBJECTS = [
    b"",
    b"{",
    b'{"name": "Lamp",}',
    b"[]",
    b"null",
    b'"text"',
    b"1",
    b"{} {}",
    b'{"a": 1, "a": 2}',
    b'{"name": NaN}',
    b'{"price": Infinity}',
    b'{"price": -Infinity}',
    b'{"price": 1e}',
    b'{"price": 01}',
    b'{"price": ' + b"9" * 5_000 + b"}",
    b'{"price": 1e' + b"9" * 30 + b"}",
    b"\xff\xfe",
    b'{"name": "\xff"}',
    "{}".encode("utf-16"),
    b"\xef\xbb\xbf{}",
    b'{"name": "a\x00b"}',
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
]


async def test_a_body_that_is_no_json_object_is_400(api: Api) -> None:
    editor = await api.caller("editor")
    product = await api.product()
    async with api.unchanged():
        for body in NO_JSON_OBJECTS:
            for method, where in (("POST", "/products"), ("PATCH", f"/products/{product.id}")):
                answer = await editor.request(method, where, content=body, headers=JSON)
                assert refused(answer, 400, "VALIDATION_ERROR").keys() == {"body"}, body[:20]


async def test_a_byte_order_mark_before_a_body_is_named(api: Api) -> None:
    editor = await api.caller("editor")
    async with api.unchanged():
        body = b"\xef\xbb\xbf" + json.dumps(LAMP).encode()
        answer = await editor.post("/products", content=body, headers=JSON)
    fault = {"body": "The JSON begins with a byte order mark: send it without."}
    assert refused(answer, 400, "VALIDATION_ERROR") == fault


OTHER_TYPES = [
    ("name", "1"),
    ("name", "null"),
    ("name", "[]"),
    ("name", r'"\u0000"'),
    ("name", r'"a\ud800"'),
    ("name", r'"\udc00\ud800"'),
    ("price", '"1"'),
    ("price", "true"),
    ("price", "null"),
    ("stock_quantity", "1.5"),
    ("stock_quantity", "true"),
    ("stock_quantity", '"1"'),
    ("stock_quantity", "1e-9999999"),
    ("images", "{}"),
    ("images", "null"),
    ("metadata", "[]"),
    ("status", "null"),
]


async def test_a_value_of_another_type_is_400(api: Api) -> None:
    editor = await api.caller("editor")
    product = await api.product()
    async with api.unchanged():
        for field, raw in OTHER_TYPES:
            body = json.dumps(LAMP | {field: None}).replace("null", raw)
            created = await editor.post("/products", content=body, headers=JSON)
            assert refused(created, 400, "VALIDATION_ERROR").keys() == {field}, raw
            body = f'{{"{field}": {raw}}}'
            changed = await editor.patch(f"/products/{product.id}", content=body, headers=JSON)
            assert refused(changed, 400, "VALIDATION_ERROR").keys() == {field}, raw


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ('{"images": [1]}', "images.0"),
        ('{"images": [{}]}', "images.0.url"),
        ('{"images": [{"url": 1}]}', "images.0.url"),
        ('{"images": [{"url": "https://a.de", "size": 1}]}', "images.0.size"),
        ('{"metadata": {"a": 1}}', "metadata.a"),
        ('{"metadata": {"a": {"b": "c"}}}', "metadata.a"),
        ('{"metadata": {"a": "\\u0000"}}', "metadata.a"),
    ],
)
async def test_a_fault_of_form_inside_a_value_has_a_dotted_path(
    api: Api, raw: str, field: str
) -> None:
    editor = await api.caller("editor")
    product = await api.product()
    async with api.unchanged():
        answer = await editor.patch(f"/products/{product.id}", content=raw, headers=JSON)
        assert refused(answer, 400, "VALIDATION_ERROR").keys() == {field}


WHOLE = ["1000000000000000000", "1e18", "-1E+18", "1.0e18", "1e30", "1e400", "-1e9999999"]
FRACTIONS = ["1.5", "15e-1", "1e-9999999", "9" * 50 + ".5"]


@pytest.mark.parametrize(
    ("path", "field"), [("/products", "stock_quantity"), ("/api-keys", "user_id")]
)
async def test_an_integer_out_of_range_is_422_in_any_notation(
    api: Api, path: str, field: str
) -> None:
    admin = await api.caller("admin")
    body = json.dumps(LAMP if path == "/products" else {"name": "Till", "type": "live"})[:-1]
    async with api.unchanged():
        for numbers, status in ((WHOLE, 422), (FRACTIONS, 400)):
            for number in numbers:
                sent = f'{body}, "{field}": {number}}}'
                answer = await admin.post(path, content=sent, headers=JSON)
                assert refused(answer, status, "VALIDATION_ERROR").keys() == {field}, number
    sent = f'{json.dumps(LAMP)[:-1]}, "stock_quantity": 0.12e2}}'
    made = await admin.post("/products", content=sent, headers=JSON)
    assert made.json()["data"]["stock_quantity"] == 12


async def test_names_of_fields_that_cannot_be_stored_are_answered_safely(api: Api) -> None:
    editor = await api.caller("editor")
    for name in (r"\u0000", r"\ud800", "x" * 10_000, r"\u202e"):
        for body in (f'{{"{name}": 1}}', f'{{"metadata": {{"{name}": 1}}}}'):
            answer = await editor.post("/products", content=body, headers=JSON)
            assert all(len(field) < 200 for field in refused(answer, 400, "VALIDATION_ERROR"))


async def test_all_faults_are_answered_at_once_with_400_if_any_is_of_form(api: Api) -> None:
    admin = await api.caller("admin")
    async with api.unchanged():
        broken = {"name": "x", "email": "nobody", "password": "weak", "role": "owner"}
        answer = await admin.post("/users", json=broken)
        assert refused(answer, 422, "VALIDATION_ERROR").keys() == broken.keys()
        mixed = {"name": "x", "email": 1, "plan": "enterprise"}
        answer = await admin.post("/users", json=mixed)
        found = refused(answer, 400, "VALIDATION_ERROR")
        assert found.keys() == {"name", "email", "plan", "password"}


INSIDE = "https://127.0.0.1/in"
LONG = "x" * 201
LATER_RULES: list[tuple[str, str, dict[str, Any], int, set[str]]] = [
    ("POST", "/webhooks", {"url": INSIDE, "types": ["nope"], "description": LONG}, 422,
     {"url", "types.0", "description"}),
    ("POST", "/webhooks", {"url": INSIDE, "types": "*"}, 400, {"url", "types"}),
    ("POST", "/webhooks", {"url": "no", "types": ["nope"]}, 422, {"url", "types.0"}),
    ("PATCH", "/webhooks/{webhook}", {"url": INSIDE, "description": LONG}, 422,
     {"url", "description"}),
    ("PATCH", "/products/{product}", {"status": "draft", "price": -1, "currency": "X"}, 422,
     {"status", "price", "currency"}),
    ("PATCH", "/products/{product}", {"status": "draft", "price": "1"}, 400, {"status", "price"}),
    ("PATCH", "/users/me", {"password": "weak", "name": "x"}, 422,
     {"password", "name", "current_password"}),
    ("PATCH", "/users/{admin}", {"email": "nobody", "name": 1}, 400,
     {"email", "name", "current_password"}),
    ("PATCH", "/users/{other}", {"password": "weak", "name": "x"}, 422, {"password", "name"}),
    ("POST", "/api-keys", {"name": "", "type": "x", "user_id": 0, "scopes": ["no"]}, 422,
     {"name", "type", "user_id", "scopes.0"}),
    ("POST", "/api-keys", {"name": 1, "type": "x", "networks": ["no"], "expires_at": "no"}, 400,
     {"name", "type", "networks.0", "expires_at"}),
]  # fmt: skip
"""Bodies that break rules which depend on settings, on the caller or on what is stored, too."""


async def test_faults_of_stored_state_are_answered_beside_those_of_values(
    api: Api,
) -> None:
    admin, other = await api.caller("admin"), await api.caller("viewer")
    hook = {"url": "https://hooks.example.com/in", "types": ["*"]}
    ids = {
        "webhook": (await admin.post("/webhooks", json=hook)).json()["data"]["id"],
        "product": (await api.product(status="active")).id,
        "admin": admin.user.id,
        "other": other.user.id,
    }
    async with api.unchanged():
        for method, path, body, status, fields in LATER_RULES:
            answer = await admin.request(method, path.format(**ids), json=body)
            assert refused(answer, status, "VALIDATION_ERROR").keys() == fields, (path, body)


REQUIRED = {
    "/users": ["name", "email", "password"],
    "/products": ["name", "category", "price"],
    "/webhooks": ["url", "types"],
    "/api-keys": ["name", "type"],
    "/sessions": ["email", "password"],
}


async def test_missing_fields_are_answered_in_declared_order(
    api: Api,
) -> None:
    admin = await api.caller("admin")
    for path, names in REQUIRED.items():
        faults = (await admin.post(path, json={})).json()["error"]["details"]
        assert [fault["field"] for fault in faults] == names


@pytest.mark.parametrize("field", ["id", "plan", "created_at", "updated_at", "last_login_at"])
async def test_a_field_that_is_not_the_callers_to_set_is_unknown(api: Api, field: str) -> None:
    admin = await api.caller("admin")
    new = {"name": "Ada", "email": "ada@example.com", "password": "Passw0rdd", field: "1"}
    async with api.unchanged():
        assert refused(await admin.post("/users", json=new), 400).keys() == {field}
        assert refused(await admin.patch("/users/me", json={field: "1"}), 400).keys() == {field}


NO_IDS = [
    "0",
    "-1",
    "01",
    "+1",
    "1.0",
    "1e3",
    str(2**63),
    "9" * 40,
    "x",
    "%20",
    "1%20",
    "%D9%A1",
    "%00",
    "%ff",
    "me2",
    "1%2F2",
    "..%2F1",
    "",
]


async def test_a_malformed_id_is_404(api: Api) -> None:
    admin = await api.caller("admin")
    await api.product()
    transport = InProcess(api)
    headers = [("authorization", f"Bearer {admin.key}"), ("content-type", "application/json")]
    async with api.unchanged():
        for number in NO_IDS:
            for method in ("GET", "HEAD", "PATCH", "DELETE"):
                for kind in ("users", "products"):
                    target = f"/v1/{kind}/{number}"
                    answer = await transport.exchange(method, target, headers, b"{}")
                    assert answer.status_code == 404, target
                    if method != "HEAD":
                        refused(answer, 404, "RESOURCE_NOT_FOUND")


async def test_the_largest_id_is_an_id(api: Api) -> None:
    admin = await api.caller("admin")
    for kind in ("users", "products"):
        where = f"/{kind}/{2**63 - 1}"
        refused(await admin.get(where), 404, "RESOURCE_NOT_FOUND")
        refused(await admin.patch(where, json={"name": "Name"}), 404, "RESOURCE_NOT_FOUND")
        refused(await admin.delete(where), 404, "RESOURCE_NOT_FOUND")


NOT_ALLOWED = [
    ("PUT", "/users", "GET, HEAD, POST"),
    ("DELETE", "/users", "GET, HEAD, POST"),
    ("PATCH", "/products", "GET, HEAD, POST"),
    ("PUT", "/users/1", "DELETE, GET, HEAD, PATCH"),
    ("POST", "/users/1", "DELETE, GET, HEAD, PATCH"),
    ("POST", "/products/1", "DELETE, GET, HEAD, PATCH"),
    ("POST", "/users/me", "GET, HEAD, PATCH"),
    ("DELETE", "/users/me", "GET, HEAD, PATCH"),
    ("GET", "/api-keys/rotate", "POST"),
    ("OPTIONS", "/users", "GET, HEAD, POST"),
    ("TRACE", "/users", "GET, HEAD, POST"),
    ("get", "/users", "GET, HEAD, POST"),
    ("FOO", "/users", "GET, HEAD, POST"),
]


async def test_a_method_that_a_path_does_not_take_is_405(api: Api) -> None:
    admin = await api.caller("admin")
    headers = [("authorization", f"Bearer {admin.key}")]
    async with api.unchanged():
        for method, path, allow in NOT_ALLOWED:
            answer = await InProcess(api).exchange(method, f"/v1{path}", headers)
            refused(answer, 405, "METHOD_NOT_ALLOWED")
            assert answer.headers["allow"] == allow, (method, path)


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/auth/login", "POST"),
        ("GET", "/auth/refresh", "POST"),
        ("PATCH", "/auth/logout", "POST"),
        ("PUT", "/auth/.well-known/jwks.json", "GET, HEAD"),
    ],
)
async def test_a_wrong_method_of_a_public_path_is_405_without_a_credential(
    api: Api, method: str, path: str, allow: str
) -> None:
    answer = await InProcess(api).exchange(method, path, [])
    refused(answer, 405, "METHOD_NOT_ALLOWED")
    assert answer.headers["allow"] == allow
    assert "x-ratelimit-limit" in answer.headers


@pytest.mark.parametrize(
    "path",
    ["/", "/users/", "/users/1/keys", "/products/1/", "/api-keys/", "/api-keys/1/x", "/v1/users"],
)
async def test_an_unknown_path_is_404_after_authentication(api: Api, path: str) -> None:
    admin = await api.caller("admin")
    for method in ("GET", "POST", "DELETE"):
        refused(await admin.request(method, path), 404, "RESOURCE_NOT_FOUND")
        refused(await api.stranger().request(method, path), 401, "AUTHENTICATION_REQUIRED")


async def test_the_answer_to_an_unknown_path_says_where_the_api_is(api: Api) -> None:
    """Such as to a client whose base address lacks the version."""
    live, test = await api.caller("admin"), await api.caller("admin", "test")
    for caller, url, base in (
        (live, "https://localhost:8443/users/me", BASE["live"]),
        (live, "/prodcts", BASE["live"]),
        (test, "/prodcts", BASE["sandbox"]),
    ):
        answer = await caller.get(url)
        refused(answer, 404, "RESOURCE_NOT_FOUND")
        told = f"The API begins at {base}; {base}/docs describes it."
        assert answer.json()["error"]["message"] == f"There is nothing at this path. {told}"


NO_JSON_ACCEPTED = [
    "text/html",
    "application/xml, text/*",
    "application/json;q=0",
    "*/*;q=0",
    "application/*;q=0",
    "application/json;q=0, */*",
    "image/png, application/json;q=0.0",
]


async def test_a_caller_who_accepts_no_json_gets_406(api: Api) -> None:
    editor = await api.caller("editor")
    async with api.unchanged():
        for accept in NO_JSON_ACCEPTED:
            headers = {"accept": accept}
            refused(await editor.get("/users/me", headers=headers), 406, "NOT_ACCEPTABLE")
            answer = await editor.post("/products", json=LAMP, headers=headers)
            refused(answer, 406, "NOT_ACCEPTABLE")


JSON_ACCEPTED = [
    "*/*",
    "application/json",
    "application/*",
    "text/html, */*;q=0.1",
    "Application/JSON",
    "",
    "text/html;level=1, application/json;q=0.5",
    "application/json; charset=utf-8",
]


async def test_a_caller_who_accepts_json_gets_it(api: Api) -> None:
    caller = await api.caller("viewer")
    for accept in JSON_ACCEPTED:
        answer = await caller.get("/users/me", headers={"accept": accept})
        assert answer.status_code == 200, accept


async def test_accept_in_several_header_lines_is_one_list(api: Api) -> None:
    caller = await api.caller("viewer")
    lines = [("accept", "text/html"), ("accept", "application/json")]
    request = caller.build_request("GET", "/users/me")
    request.headers = httpx.Headers([("authorization", f"Bearer {caller.key}"), *lines])
    assert (await caller.send(request)).status_code == 200


OTHER_CONTENT = [
    "text/plain",
    "application/x-www-form-urlencoded",
    "",
    "application/json; charset=latin-1",
    "multipart/form-data; boundary=x",
    "application/jsonx",
    "application/merge-patch+json",
]


async def test_a_body_of_another_type_is_415(api: Api) -> None:
    editor = await api.caller("editor")
    product = await api.product()
    body = json.dumps(LAMP)
    async with api.unchanged():
        for content in OTHER_CONTENT:
            headers = {"content-type": content}
            answer = await editor.post("/products", content=body, headers=headers)
            refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")
            answer = await editor.patch(f"/products/{product.id}", content=body, headers=headers)
            refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")


async def test_an_encoded_body_is_415(api: Api) -> None:
    editor = await api.caller("editor")
    async with api.unchanged():
        for codings in (["gzip"], ["identity, gzip"], ["identity", "gzip"]):
            headers = [*JSON.items(), *(("content-encoding", coding) for coding in codings)]
            answer = await editor.post("/products", json=LAMP, headers=headers)
            refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")
    plain = JSON | {"content-encoding": "Identity"}
    answer = await editor.post("/products", content=json.dumps(LAMP), headers=plain)
    assert answer.status_code == 201


@pytest.mark.parametrize(
    "content",
    ["application/json", "application/json; charset=utf-8", 'Application/JSON;charset="UTF-8"'],
)
async def test_json_in_utf_8_is_read(api: Api, content: str) -> None:
    editor = await api.caller("editor")
    headers = {"content-type": content}
    answer = await editor.post("/products", content=json.dumps(LAMP), headers=headers)
    assert answer.status_code == 201


async def test_a_body_beyond_the_limit_is_413_with_or_without_a_length(api: Api) -> None:
    editor = await api.caller("editor")
    transport = InProcess(api)
    limit = api.settings.body_limit
    headers = [("authorization", f"Bearer {editor.key}"), ("content-type", "application/json")]
    padding = b" " * (limit - len(json.dumps(LAMP)))
    body = json.dumps(LAMP).encode() + padding
    fits = await transport.exchange("POST", "/v1/products", headers, body)
    assert fits.status_code == 201
    async with api.unchanged():
        for chunks in ([body + b" "], [body, b" "], [b" "] * 10 + [body]):
            answer = await transport.exchange("POST", "/v1/products", headers, *chunks)
            refused(answer, 413, "PAYLOAD_TOO_LARGE")
        length = ("content-length", str(limit + 1))
        answer = await transport.exchange("POST", "/v1/products", [*headers, length], b"{}")
        refused(answer, 413, "PAYLOAD_TOO_LARGE")


NO_BODIES = [
    (b'{"expires_at": "2026-06-01T00:00:00.000Z", "typo": 1}', {"expires_at", "typo"}),
    (b"null", {"body"}),
    (b"name=value", {"body"}),
]
"""What a route that takes no body refuses, and the fields that it names."""


async def test_a_body_where_none_is_taken_is_refused_unless_it_is_empty(api: Api) -> None:
    admin = await api.caller("admin")
    hook = {"url": "https://hooks.example.com/in", "types": ["*"]}
    made = (await admin.post("/webhooks", json=hook)).json()["data"]["id"]
    paths = (
        "/api-keys/rotate",
        f"/webhooks/{made}/rotate-secret",
        f"/webhooks/{made}/test",
        f"/webhooks/{made}/deliveries/1/redeliver",
    )
    async with api.unchanged():
        for path in paths:
            for body, fields in NO_BODIES:
                answer = await admin.post(path, content=body, headers=JSON)
                assert refused(answer, 400, "VALIDATION_ERROR").keys() == fields
            for content in OTHER_CONTENT:
                answer = await admin.post(path, content=b"{}", headers={"content-type": content})
                refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")
            encoded = JSON | {"content-encoding": "gzip"}
            answer = await admin.post(path, content=b"x", headers=encoded)
            refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")
            huge = b" " * (api.settings.body_limit + 1)
            refused(await admin.post(path, content=huge), 413, "PAYLOAD_TOO_LARGE")
    assert (await admin.post(f"/webhooks/{made}/test", json={})).status_code == 202
    assert (await admin.post("/api-keys/rotate", json={})).status_code == 201


async def test_userinfo_ignores_its_body(api: Api) -> None:
    shop = await client_of(api.live)
    pair = await tokens_of(api.live, shop.client, await api.account(), "openid")
    headers = [("authorization", f"Bearer {pair.access_token}")]
    answer = await somewhere(api).exchange("POST", "/auth/userinfo", headers, b"unknown=1")
    assert answer.status_code == 200


async def test_permission_is_refused_before_the_body_is_looked_at(api: Api) -> None:
    viewer = await api.caller("viewer")
    huge = b"x" * (api.settings.body_limit + 1)
    async with api.unchanged():
        answer = await viewer.post("/products", content=huge)
        refused(answer, 403, "PERMISSION_DENIED")
        refused(await api.stranger().post("/products", content=huge), 401)


UNKNOWN = 'Bearer error="invalid_token"'
NO_CREDENTIALS = {
    "": "Bearer",
    "Bearer": UNKNOWN,
    "Bearer ": UNKNOWN,
    "Bearer  ": UNKNOWN,
    "Bearer \t": UNKNOWN,
    "Basic YTpi": "Bearer",
    "bearer x": UNKNOWN,
    "Bearer x y": UNKNOWN,
    "Token x": "Bearer",
    "Bearer \u00e9": 'Bearer error="invalid_request"',
    "Bearer " + "x" * 10_000: UNKNOWN,
}
"""Headers that authenticate nobody, and the challenges that answer them."""


async def test_a_missing_or_malformed_credential_is_401(api: Api) -> None:
    async with api.unchanged():
        for number, (header, challenge) in enumerate(NO_CREDENTIALS.items()):
            transport = InProcess(api, f"192.0.2.{number}:1")
            headers = [("authorization", header)] if header else []
            for method, path in (("GET", "/users/me"), ("POST", "/users"), ("GET", "/nowhere")):
                answer = await transport.exchange(method, f"/v1{path}", headers, b"{}")
                refused(answer, 401, "AUTHENTICATION_REQUIRED")
                assert answer.headers["www-authenticate"] == challenge, header


@pytest.mark.parametrize("scheme", ["bEARER ", "Bearer  ", "Bearer" + " " * 100])
async def test_the_scheme_of_a_credential_is_read_in_any_case_and_before_any_spaces(
    api: Api, scheme: str
) -> None:
    caller = await api.caller("viewer")
    headers = [("authorization", scheme + caller.key)]
    answer = await InProcess(api).exchange("GET", "/v1/users/me", headers)
    assert answer.status_code == 200


async def test_plain_http_is_403_with_the_https_address(api: Api) -> None:
    caller = await api.caller("viewer")
    headers = [("authorization", f"Bearer {caller.key}")]
    answer = await InProcess(api).exchange("GET", "/v1/users/me", headers, scheme="http")
    refused(answer, 403, "PERMISSION_DENIED")
    assert "https://localhost:8443/v1" in answer.json()["error"]["message"]
