"""Every credential against every route: by key type, role and environment (decisions §4, §5)."""

from collections.abc import Callable
from typing import Any

import pytest

from driving import BASE, Api, Caller, InProcess, json_bytes, refused
from portico.app import V1
from portico.domain.api_keys import KeyType

SCOPES = {
    "viewer": {"read:users", "read:products"},
    "editor": {"read:users", "read:products", "write:products"},
    "admin": {"read:users", "write:users", "read:products", "write:products", "admin"},
}
ROLES = list(SCOPES)
KINDS: list[KeyType] = ["live", "test", "read"]
ENVIRONMENT = {"live": "live", "read": "live", "test": "sandbox"}

Body = Callable[[int], dict[str, Any] | None]
NOBODY: Body = lambda _number: None  # noqa: E731 - a constant

# What each route needs, what is sent to it, and how a success is answered. None: any caller.
CASES: dict[tuple[str, str], tuple[str | None, Body, int]] = {
    ("GET", "/users"): ("read:users", NOBODY, 200),
    ("GET", "/users/me"): (None, NOBODY, 200),
    ("PATCH", "/users/me"): (None, lambda number: {"name": f"Name {number}"}, 200),
    ("GET", "/users/{id}"): ("read:users", NOBODY, 200),
    ("POST", "/users"): (
        "write:users",
        lambda number: {"name": "Ada", "email": f"ada{number}@x.com", "password": "Passw0rdd"},
        201,
    ),
    ("PATCH", "/users/{id}"): ("write:users", lambda number: {"name": f"Name {number}"}, 200),
    ("DELETE", "/users/{id}"): ("write:users", NOBODY, 204),
    ("GET", "/products"): ("read:products", NOBODY, 200),
    ("GET", "/products/{id}"): ("read:products", NOBODY, 200),
    ("POST", "/products"): (
        "write:products",
        lambda number: {"name": f"Lamp {number}", "category": "light", "price": 1},
        201,
    ),
    ("PATCH", "/products/{id}"): ("write:products", lambda number: {"price": number + 2}, 200),
    ("DELETE", "/products/{id}"): ("write:products", NOBODY, 204),
    ("POST", "/api-keys/rotate"): (None, NOBODY, 201),
}
HEADS = {("HEAD", path): case for (method, path), case in CASES.items() if method == "GET"}


def test_every_route_is_in_the_matrix() -> None:
    assert CASES.keys() == {(route.method, route.path) for route in V1}


def expected(kind: str, role: str, method: str, scope: str | None, success: int) -> int:
    if kind == "read" and method not in ("GET", "HEAD"):
        return 403
    return success if scope is None or scope in SCOPES[role] else 403


async def send(
    api: Api, caller: Caller, environment: str, method: str, path: str, body: dict[str, Any] | None
) -> Any:
    headers = [("authorization", f"Bearer {caller.key}"), ("content-type", "application/json")]
    target = BASE[environment].removeprefix("https://localhost:8443") + path
    content = [] if body is None else [json_bytes(body)]
    return await InProcess(api).exchange(method, target, headers, *content)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_credential_may_do_what_its_type_and_role_allow_and_no_more(
    api: Api, kind: KeyType, role: str
) -> None:
    home = ENVIRONMENT[kind]
    env = api.live if home == "live" else api.sandbox
    await api.account("admin")  # so that nobody is the last
    for number, ((method, path), (scope, body, success)) in enumerate((CASES | HEADS).items()):
        caller = await api.caller(role, kind)
        target = await (api.account(env=env) if path.startswith("/users") else api.product(env))
        where = path.replace("{id}", str(target.id))
        wanted = expected(kind, role, method, scope, success)
        before = await api.state()
        answer = await send(api, caller, home, method, where, body(number))
        cell = (kind, role, method, path)
        assert answer.status_code == wanted, (cell, answer.text)
        changed = await api.state() != before
        assert changed == (wanted < 300 and method not in ("GET", "HEAD")), cell
        if wanted == 403:
            refused(answer, 403, "PERMISSION_DENIED")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_credential_of_one_environment_is_unknown_to_the_other(
    api: Api, kind: KeyType
) -> None:
    away = "sandbox" if ENVIRONMENT[kind] == "live" else "live"
    env = api.live if away == "live" else api.sandbox
    caller = await api.caller("admin", kind)
    user, product = await api.account(env=env), await api.product(env)
    async with api.unchanged():
        for number, ((method, path), (_, body, _)) in enumerate(CASES.items()):
            target = user.id if path.startswith("/users") else product.id
            where = path.replace("{id}", str(target))
            answer = await send(api, caller, away, method, where, body(number))
            refused(answer, 401, "AUTHENTICATION_REQUIRED")


async def test_a_read_key_is_refused_all_but_get_and_head_wherever_it_calls(api: Api) -> None:
    caller = await api.caller("admin", "read")
    async with api.unchanged():
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "FOO"):
            for path in ("/users", "/users/me", "/products/1", "/nowhere", "/"):
                answer = await send(api, caller, "live", method, path, {})
                refused(answer, 403, "PERMISSION_DENIED")


@pytest.mark.parametrize("role", ["viewer", "editor"])
async def test_everyone_changes_themselves_by_their_id_too(api: Api, role: str) -> None:
    caller = await api.caller(role)
    answer = await caller.patch(f"/users/{caller.user.id}", json={"name": "Changed"})
    assert answer.json()["data"]["name"] == "Changed"


async def test_a_user_whose_plan_is_no_longer_configured_is_on_free(api: Api) -> None:
    caller = await api.caller("viewer", plan="gone")
    answer = await caller.get("/users/me")
    assert answer.status_code == 200
    assert answer.headers["x-ratelimit-limit"] == "30"
