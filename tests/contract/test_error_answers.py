"""Refusals: one body, the right status, every fault, and nothing changed (decisions §6)."""

import inspect
import json
from typing import Any

import httpx
import pytest

from driving import BASE, Api, InProcess, challenge, refused
from portico.core import errors
from portico.core.errors import PorticoError
from portico.web.problems import STATUS, status_of
from signing_in import client_of, somewhere, tokens_of

pytestmark = pytest.mark.one_engine

JSON = {"content-type": "application/json"}
LAMP: dict[str, Any] = {"name": "Lamp", "category": "light", "price": 12.5}
HOOK = {"url": "https://hooks.example.com/in", "types": ["*"]}


def test_every_error_of_the_domain_has_a_status() -> None:
    kinds = {
        kind
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, PorticoError) and kind is not PorticoError
    }
    assert STATUS.keys() == {kind for kind in kinds if "code" in vars(kind)}
    assert all(kind.code and status_of(kind) == STATUS.get(kind, 503) for kind in kinds)


NO_JSON_OBJECTS = (
    *(b"", b"{", b'{"name": "Lamp",}', b"[]", b"null", b'"text"', b"1", b"{} {}"),
    *(b'{"a": 1, "a": 2}', b'{"name": NaN}', b'{"price": -Infinity}', b'{"price": 01}'),
    *(b'{"price": ' + b"9" * 5_000 + b"}", b'{"price": 1e' + b"9" * 30 + b"}"),
    *(b'{"name": "\xff"}', "{}".encode("utf-16"), b"\xef\xbb\xbf{}", b'{"name": "a\x00b"}'),
    *(b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000),
)
BAD_VALUES = [
    *(("name", raw) for raw in ("1", "null", "[]", r'"\u0000"', r'"a\ud800"')),
    *(("price", raw) for raw in ('"1"', "true", "null")),
    *(("stock_quantity", raw) for raw in ("1.5", "true", '"1"', "1e-9999999")),
    *(("images", "null"), ("metadata", "[]"), ("status", "null")),
    *(("images.0", "[1]"), ("images.0.url", "[{}]"), ("images.0.url", '[{"url": 1}]')),
    ("images.0.size", '[{"url": "https://a.de", "size": 1}]'),
    *(("metadata.a", '{"a": 1}'), ("metadata.a", r'{"a": "\u0000"}')),
]
"""Dotted paths of fields, and values of another type there."""


async def test_a_body_that_cannot_be_read_is_400_naming_the_field(api: Api) -> None:
    editor = await api.caller("editor")
    product = await api.product()
    bad = [({"body"}, body, body) for body in NO_JSON_OBJECTS]
    for path, raw in BAD_VALUES:
        field = path.partition(".")[0]
        changed = f'{{"{field}": {raw}}}'.encode()
        created = json.dumps({k: v for k, v in LAMP.items() if k != field})[:-1].encode()
        bad.append(({path}, created + b", " + changed[1:], changed))
    async with api.unchanged():
        for fields, created, changed in bad:
            answer = await editor.post("/products", content=created, headers=JSON)
            assert refused(answer, 400, "VALIDATION_ERROR").keys() == fields, created[:40]
            where = f"/products/{product.id}"
            answer = await editor.patch(where, content=changed, headers=JSON)
            assert refused(answer, 400, "VALIDATION_ERROR").keys() == fields, changed[:40]


WHOLE = ["1000000000000000000", "1e18", "-1E+18", "1e400", "-1e9999999"]
FRACTIONS = ["1.5", "15e-1", "1e-9999999"]


async def test_an_integer_out_of_range_is_422_in_any_notation(api: Api) -> None:
    admin = await api.caller("admin")
    key = {"name": "Till", "type": "live"}
    async with api.unchanged():
        for path, new, field in (
            ("/products", LAMP, "stock_quantity"),
            ("/api-keys", key, "user_id"),
        ):
            for number in WHOLE + FRACTIONS:
                sent = f'{json.dumps(new)[:-1]}, "{field}": {number}}}'
                answer = await admin.post(path, content=sent, headers=JSON)
                found = refused(answer, 422 if number in WHOLE else 400, "VALIDATION_ERROR")
                assert found.keys() == {field}, number
    sent = f'{json.dumps(LAMP)[:-1]}, "stock_quantity": 0.12e2}}'
    made = await admin.post("/products", content=sent, headers=JSON)
    assert made.json()["data"]["stock_quantity"] == 12


async def test_names_of_fields_that_cannot_be_stored_are_answered_safely(api: Api) -> None:
    editor = await api.caller("editor")
    for name in (r"\u0000", r"\ud800", "x" * 10_000, r"\u202e"):
        for body in (f'{{"{name}": 1}}', f'{{"metadata": {{"{name}": 1}}}}'):
            answer = await editor.post("/products", content=body, headers=JSON)
            assert all(len(field) < 200 for field in refused(answer, 400, "VALIDATION_ERROR"))


INSIDE = "https://127.0.0.1/in"
LONG = "x" * 201
SEVERAL: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("POST", "/users", {"name": "x", "email": "nobody", "password": "weak", "role": "owner"}, 422,
     "name email password role"),
    ("POST", "/users", {"name": "x", "email": 1, "plan": "free"}, 400, "name email plan password"),
    ("POST", "/webhooks", {"url": INSIDE, "types": ["nope"], "description": LONG}, 422,
     "url types.0 description"),
    ("POST", "/webhooks", {"url": INSIDE, "types": "*"}, 400, "url types"),
    ("PATCH", "/webhooks/{webhook}", {"url": INSIDE, "description": LONG}, 422, "url description"),
    ("PATCH", "/products/{product}", {"status": "draft", "price": -1, "currency": "X"}, 422,
     "status price currency"),
    ("PATCH", "/products/{product}", {"status": "draft", "price": "1"}, 400, "status price"),
    ("PATCH", "/users/me", {"password": "weak", "name": "x"}, 422,
     "password name current_password"),
    ("PATCH", "/users/{admin}", {"email": "nobody", "name": 1}, 400,
     "email name current_password"),
    ("PATCH", "/users/{other}", {"password": "weak", "name": "x"}, 422, "password name"),
    ("POST", "/api-keys", {"name": "", "type": "x", "user_id": 0, "scopes": ["no"]}, 422,
     "name type user_id scopes.0"),
    ("POST", "/api-keys", {"name": 1, "type": "x", "networks": ["no"], "expires_at": "no"}, 400,
     "name type networks.0 expires_at"),
    *(("POST", "/users", {"name": "Ada", "email": "a@x.com", "password": "Passw0rdd", field: "1"},
       400, field) for field in ("id", "plan", "created_at", "last_login_at")),
    *(("PATCH", "/users/me", {field: "1"}, 400, field) for field in ("id", "plan", "updated_at")),
]  # fmt: skip
"""Bodies that break rules of form, of values, and of what is stored, and all faults of each."""


async def test_all_faults_are_answered_at_once_with_400_if_any_is_of_form(api: Api) -> None:
    admin, other = await api.caller("admin"), await api.caller("viewer")
    ids = {
        "webhook": (await admin.post("/webhooks", json=HOOK)).json()["data"]["id"],
        "product": (await api.product(status="active")).id,
        "admin": admin.user.id,
        "other": other.user.id,
    }
    async with api.unchanged():
        for method, path, body, status, fields in SEVERAL:
            answer = await admin.request(method, path.format(**ids), json=body)
            found = refused(answer, status, "VALIDATION_ERROR").keys()
            assert found == set(fields.split()), (path, body)


async def test_missing_fields_are_answered_in_declared_order(api: Api) -> None:
    admin = await api.caller("admin")
    for path, names in {
        "/users": ["name", "email", "password"],
        "/products": ["name", "category", "price"],
        "/webhooks": ["url", "types"],
        "/api-keys": ["name", "type"],
        "/sessions": ["email", "password"],
    }.items():
        assert [*refused(await admin.post(path, json={}), 400)] == names


NO_IDS = (
    *("0", "-1", "01", "+1", "1.0", "1e3", str(2**63), "9" * 40, "x", "%20", "1%20", "%D9%A1"),
    *("%00", "%ff", "me2", "1%2F2", "..%2F1", "", str(2**63 - 1)),
)
"""Malformed ids, and the largest, which nothing has."""


async def test_a_malformed_or_unknown_id_is_404(api: Api) -> None:
    admin = await api.caller("admin")
    await api.product()
    headers = [("authorization", f"Bearer {admin.key}"), *JSON.items()]
    async with api.unchanged():
        for number in NO_IDS:
            for method in ("GET", "PATCH", "DELETE"):
                for kind in ("users", "products"):
                    target = f"/v1/{kind}/{number}"
                    answer = await InProcess(api).exchange(method, target, headers, b"{}")
                    refused(answer, 404, "RESOURCE_NOT_FOUND")
            target = f"/v1/webhooks/1/deliveries/{number}/redeliver"
            refused(await InProcess(api).exchange("POST", target, headers), 404)


NOT_ALLOWED = [
    *((method, "/v1/users", "GET, HEAD, POST") for method in ("PUT", "DELETE", "OPTIONS", "get")),
    *((method, "/v1/users/1", "DELETE, GET, HEAD, PATCH") for method in ("PUT", "POST")),
    ("DELETE", "/v1/users/me", "GET, HEAD, PATCH"),
    ("GET", "/v1/api-keys/rotate", "POST"),
    ("GET", "/auth/login", "POST"),
    ("PATCH", "/auth/logout", "POST"),
    ("PUT", "/auth/.well-known/jwks.json", "GET, HEAD"),
]


async def test_a_method_that_a_path_does_not_take_is_405(api: Api) -> None:
    admin = await api.caller("admin")
    async with api.unchanged():
        for method, path, allow in NOT_ALLOWED:
            # Paths that need no credential answer so without one.
            headers = [("authorization", f"Bearer {admin.key}")] if path.startswith("/v1") else []
            answer = await InProcess(api).exchange(method, path, headers)
            refused(answer, 405, "METHOD_NOT_ALLOWED")
            assert answer.headers["allow"] == allow, (method, path)
            assert "x-ratelimit-limit" in answer.headers


async def test_an_unknown_path_is_404_after_authentication(api: Api) -> None:
    admin = await api.caller("admin")
    for path in ("/", "/users/", "/users/1/keys", "/products/1/", "/api-keys/1/x", "/v1/users"):
        for method in ("GET", "POST"):
            refused(await admin.request(method, path), 404, "RESOURCE_NOT_FOUND")
            refused(await api.stranger().request(method, path), 401, "AUTHENTICATION_REQUIRED")


async def test_the_answer_to_an_unknown_path_says_where_the_api_is(api: Api) -> None:
    live, test = await api.caller("admin"), await api.caller("admin", "test")
    for caller, url, base in (
        (live, "https://localhost:8443/users/me", BASE["live"]),
        (test, "/prodcts", BASE["sandbox"]),
    ):
        answer = await caller.get(url)
        refused(answer, 404, "RESOURCE_NOT_FOUND")
        told = f"The API begins at {base}; {base}/docs describes it."
        assert answer.json()["error"]["message"] == f"There is nothing at this path. {told}"


ACCEPT = {
    "text/html": 406,
    "application/xml, text/*": 406,
    "application/json;q=0": 406,
    "application/json;q=0, */*": 406,
    "image/png, application/json;q=0.0": 406,
    "*/*;q=0": 406,
    "*/*": 200,
    "application/*": 200,
    "text/html;level=1, Application/JSON;q=0.5": 200,
    "text/html, */*;q=0.1": 200,
    "": 200,
}


async def test_a_caller_gets_json_or_406_as_it_accepts(api: Api) -> None:
    editor = await api.caller("editor")
    async with api.unchanged():
        for accept, status in ACCEPT.items():
            headers = {"accept": accept}
            assert (await editor.get("/users/me", headers=headers)).status_code == status, accept
            if status == 406:
                answer = await editor.post("/products", json=LAMP, headers=headers)
                refused(answer, 406, "NOT_ACCEPTABLE")
    lines = [("accept", "text/html"), ("accept", "application/json")]
    request = editor.build_request("GET", "/users/me")
    request.headers = httpx.Headers([("authorization", f"Bearer {editor.key}"), *lines])
    assert (await editor.send(request)).status_code == 200


OTHER_CONTENT: list[dict[str, str]] = [
    {"content-type": "text/plain"},
    {"content-type": "application/x-www-form-urlencoded"},
    {"content-type": ""},
    {"content-type": "application/json; charset=latin-1"},
    {"content-type": "application/jsonx"},
    JSON | {"content-encoding": "gzip"},
    JSON | {"content-encoding": "identity, gzip"},
]
JSON_CONTENT: list[dict[str, str]] = [
    {"content-type": "application/json; charset=utf-8"},
    {"content-type": 'Application/JSON;charset="UTF-8"'},
    JSON | {"content-encoding": "Identity"},
]


async def test_a_body_of_another_type_or_encoding_is_415(api: Api) -> None:
    editor = await api.caller("editor")
    product = await api.product()
    async with api.unchanged():
        for headers in OTHER_CONTENT:
            for method, path in (("POST", "/products"), ("PATCH", f"/products/{product.id}")):
                answer = await editor.request(method, path, content="{}", headers=headers)
                refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")
    for headers in JSON_CONTENT:
        answer = await editor.post("/products", content=json.dumps(LAMP), headers=headers)
        assert answer.status_code == 201, headers


async def test_a_body_beyond_the_limit_is_413_with_or_without_a_length(api: Api) -> None:
    editor = await api.caller("editor")
    limit = api.settings.body_limit
    headers = [("authorization", f"Bearer {editor.key}"), *JSON.items()]
    body = json.dumps(LAMP).encode().ljust(limit)
    fits = await InProcess(api).exchange("POST", "/v1/products", headers, body)
    assert fits.status_code == 201
    length = ("content-length", str(limit + 1))
    async with api.unchanged():
        for more, chunks in (([], [body + b" "]), ([], [body, b" "]), ([length], [b"{}"])):
            sent = [*headers, *more]
            answer = await InProcess(api).exchange("POST", "/v1/products", sent, *chunks)
            refused(answer, 413, "PAYLOAD_TOO_LARGE")


async def test_a_body_where_none_is_taken_is_refused_unless_it_is_empty(api: Api) -> None:
    admin = await api.caller("admin")
    made = (await admin.post("/webhooks", json=HOOK)).json()["data"]["id"]
    hook = f"/webhooks/{made}"
    paths = ("/rotate-secret", "/test", "/deliveries/1/redeliver")
    async with api.unchanged():
        for path in ("/api-keys/rotate", *(hook + path for path in paths)):
            for body, fields in ((b'{"a": "b", "typo": 1}', {"a", "typo"}), (b"null", {"body"})):
                answer = await admin.post(path, content=body, headers=JSON)
                assert refused(answer, 400, "VALIDATION_ERROR").keys() == fields
            for headers in OTHER_CONTENT:
                answer = await admin.post(path, content=b"{}", headers=headers)
                refused(answer, 415, "UNSUPPORTED_MEDIA_TYPE")
            huge = b" " * (api.settings.body_limit + 1)
            refused(await admin.post(path, content=huge), 413, "PAYLOAD_TOO_LARGE")
    assert (await admin.post(f"{hook}/test", json={})).status_code == 202
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
        refused(await viewer.post("/products", content=huge), 403, "PERMISSION_DENIED")
        refused(await api.stranger().post("/products", content=huge), 401)


UNKNOWN = 'Bearer error="invalid_token"'
NO_CREDENTIALS = {
    "": "Bearer",
    "Basic YTpi": "Bearer",
    "Token x": "Bearer",
    "Bearer": UNKNOWN,
    "Bearer \t": UNKNOWN,
    "bearer x": UNKNOWN,
    "Bearer x y": UNKNOWN,
    "Bearer \u00e9": 'Bearer error="invalid_request"',
    "Bearer " + "x" * 10_000: UNKNOWN,
}
"""Headers that authenticate nobody, and the challenges that answer them."""


async def test_a_missing_or_malformed_credential_is_401(api: Api) -> None:
    async with api.unchanged():
        for number, (header, wanted) in enumerate(NO_CREDENTIALS.items()):
            transport = InProcess(api, f"192.0.2.{number}:1")
            headers = [("authorization", header)] if header else []
            for method, path in (("GET", "/users/me"), ("POST", "/users"), ("GET", "/nowhere")):
                answer = await transport.exchange(method, f"/v1{path}", headers, b"{}")
                refused(answer, 401, "AUTHENTICATION_REQUIRED")
                assert challenge(answer) == wanted, header
    caller = await api.caller("viewer")
    for scheme in ("bEARER ", "Bearer" + " " * 100):
        headers = [("authorization", scheme + caller.key)]
        answer = await InProcess(api).exchange("GET", "/v1/users/me", headers)
        assert answer.status_code == 200, scheme


async def test_plain_http_is_403_with_the_https_address(api: Api) -> None:
    caller = await api.caller("viewer")
    headers = [("authorization", f"Bearer {caller.key}")]
    answer = await InProcess(api).exchange("GET", "/v1/users/me", headers, scheme="http")
    refused(answer, 403, "PERMISSION_DENIED")
    assert "https://localhost:8443/v1" in answer.json()["error"]["message"]
