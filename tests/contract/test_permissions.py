"""Every credential against every route: by its kind and scopes, its user's role, the environment,
and the access that the route declares (decisions §4, §5)."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from driving import BASE, Api, json_bytes, refused
from portico.core.audit import OPERATOR, Actor, Author
from portico.core.events import Published
from portico.core.resources import RESOURCES
from portico.core.scopes import READ_SCOPES, ROLE_SCOPES
from portico.core.users import User
from portico.environment import Environment
from portico.features.access.api_keys import create_key
from portico.features.access.rules import KeyType, NewKey
from portico.features.catalogue.products import PRODUCTS
from portico.features.events.storage import Deliveries, Events
from portico.features.events.webhooks import create_webhook
from portico.features.people.accounts import give_key, suspend
from portico.features.people.invitations import invite
from portico.features.people.storage import Users
from portico.features.signin.sessions import begin_second_step
from portico.mounts import AUTH as AUTH_ROUTES
from portico.mounts import V1
from portico.web.cookies import SECOND_STEP
from portico.web.routing import Access
from signing_in import (
    AUTH,
    COOKIE,
    PASSWORD,
    SCOPES,
    client_of,
    login_of,
    session_of,
    somewhere,
    tokens_of,
)

pytestmark = pytest.mark.one_engine

HAVE = {role: set(scopes) for role, scopes in ROLE_SCOPES.items()}  # tests/domain has the table
EVERYWHERE = "https://localhost:8443"

Body = Callable[[int, User], dict[str, Any] | None]
NOTHING: Body = lambda _number, _user: None  # noqa: E731 - a constant
SIGN_IN: Body = lambda _number, user: {"email": user.email, "password": PASSWORD}  # noqa: E731 - the same

PUBLIC = "anyone"
KEYS = "API keys alone"
COOKIES = "sessions alone"
CLIENTS = "OAuth clients alone"
LOGINS = "any bearer; it ends logins alone"
SEEING = "a scope that covers some events"
WHOLE = "all scopes of its user, and no OAuth token"


HOOK = {"url": "https://hooks.example.com/", "types": ["*"]}


CLIENT = {"name": "Shop", "redirect_uris": ["https://shop.example.com/"]}


class Case(NamedTuple):
    """What a route needs (a scope; None: any caller; or as above), what is sent to it, and how
    that is answered."""

    needs: str | None
    body: Body
    success: int

    def changes(self, method: str) -> bool:
        """Whether a success changes anything."""
        reading = method in ("GET", "HEAD") or self.needs in ("openid", "verify")
        return not reading and self.success < 300


# Written by hand, so that no declaration can become wider unnoticed.
CASES: dict[tuple[str, str], Case] = {
    ("GET", "/users"): Case("read:users", NOTHING, 200),
    ("GET", "/users/me"): Case(None, NOTHING, 200),
    ("PATCH", "/users/me"): Case(None, lambda n, _: {"name": f"Name {n}"}, 200),
    ("GET", "/users/{id}"): Case("read:users", NOTHING, 200),
    ("POST", "/users"): Case(
        "write:users",
        lambda n, _: {"name": "Ada", "email": f"ada{n}@x.com", "password": PASSWORD},
        201,
    ),
    ("PATCH", "/users/{id}"): Case("write:users", lambda n, _: {"name": f"Name {n}"}, 200),
    ("DELETE", "/users/{id}"): Case("write:users", NOTHING, 204),
    ("GET", "/users/{id}/account"): Case("admin", NOTHING, 200),
    ("PATCH", "/users/{id}/account"): Case("admin", lambda n, _: {"external_id": f"e{n}"}, 200),
    ("GET", "/plans"): Case("admin", NOTHING, 200),
    ("GET", "/products"): Case("read:products", NOTHING, 200),
    ("GET", "/products/{id}"): Case("read:products", NOTHING, 200),
    ("POST", "/products"): Case(
        "write:products",
        lambda n, _: {"name": f"Lamp {n}", "category": "light", "price": 1},
        201,
    ),
    ("POST", "/products/batch"): Case(
        "write:products",
        lambda n, _: {"items": [{"name": f"Lamp {n}", "category": "light", "price": 1}]},
        200,
    ),
    ("PATCH", "/products/{id}"): Case("write:products", lambda n, _: {"price": n + 2}, 200),
    ("DELETE", "/products/{id}"): Case("write:products", NOTHING, 204),
    ("GET", "/api-keys"): Case(WHOLE, NOTHING, 200),
    ("POST", "/api-keys"): Case(WHOLE, lambda n, _: {"name": f"Key {n}", "type": "live"}, 201),
    ("GET", "/api-keys/{id}"): Case(WHOLE, NOTHING, 200),
    ("DELETE", "/api-keys/{id}"): Case(WHOLE, NOTHING, 204),
    ("POST", "/api-keys/rotate"): Case(KEYS, NOTHING, 201),
    ("POST", "/sessions"): Case(PUBLIC, SIGN_IN, 201),
    ("DELETE", "/sessions"): Case(COOKIES, NOTHING, 204),
    ("GET", "/events"): Case(SEEING, NOTHING, 200),
    ("GET", "/events/stream"): Case(SEEING, NOTHING, 200),
    ("GET", "/webhooks"): Case("admin", NOTHING, 200),
    ("POST", "/webhooks"): Case("admin", lambda _n, _u: HOOK, 201),
    ("GET", "/webhooks/{id}"): Case("admin", NOTHING, 200),
    ("PATCH", "/webhooks/{id}"): Case("admin", lambda n, _: {"description": f"Number {n}"}, 200),
    ("DELETE", "/webhooks/{id}"): Case("admin", NOTHING, 204),
    ("POST", "/webhooks/{id}/rotate-secret"): Case("admin", NOTHING, 201),
    ("POST", "/webhooks/{id}/test"): Case("admin", NOTHING, 202),
    ("GET", "/webhooks/{id}/deliveries"): Case("admin", NOTHING, 200),
    ("POST", "/webhooks/{id}/deliveries/{delivery_id}/redeliver"): Case("admin", NOTHING, 202),
    ("GET", "/invitations"): Case("admin", NOTHING, 200),
    ("POST", "/invitations"): Case("admin", lambda n, _: {"email": f"invited{n}@x.com"}, 201),
    ("GET", "/invitations/{id}"): Case("admin", NOTHING, 200),
    ("DELETE", "/invitations/{id}"): Case("admin", NOTHING, 204),
    ("POST", "/invitations/{id}/renew"): Case("admin", NOTHING, 201),
    ("GET", "/clients"): Case("admin", NOTHING, 200),
    ("POST", "/clients"): Case("admin", lambda _n, _u: CLIENT, 201),
    ("GET", "/clients/{id}"): Case("admin", NOTHING, 200),
    ("PATCH", "/clients/{id}"): Case("admin", lambda n, _: {"name": f"Client {n}"}, 200),
    ("DELETE", "/clients/{id}"): Case("admin", NOTHING, 204),
    ("POST", "/clients/{id}/rotate-secret"): Case("admin", NOTHING, 201),
    ("GET", "/usage"): Case(None, NOTHING, 200),
    ("GET", "/audit"): Case("admin", NOTHING, 200),
    ("POST", "/verify"): Case("verify", lambda _n, _u: {"credential": "x"}, 200),
}
AUTH_CASES: dict[tuple[str, str], Case] = {
    ("POST", "/login"): Case(PUBLIC, SIGN_IN, 200),
    ("POST", "/refresh"): Case(PUBLIC, lambda _n, _u: {"refresh_token": "ort_x"}, 401),
    ("POST", "/logout"): Case(LOGINS, NOTHING, 204),
    ("GET", "/.well-known/jwks.json"): Case(PUBLIC, NOTHING, 200),
    ("GET", "/.well-known/openid-configuration"): Case(PUBLIC, NOTHING, 200),
    ("GET", "/.well-known/oauth-authorization-server"): Case(PUBLIC, NOTHING, 200),
    ("GET", "/userinfo"): Case("openid", NOTHING, 200),
    ("POST", "/userinfo"): Case("openid", NOTHING, 200),
    ("POST", "/token"): Case(CLIENTS, lambda _n, _u: {"grant_type": "refresh_token"}, 200),
    ("POST", "/device_authorization"): Case(CLIENTS, lambda _n, _u: {"scope": "x"}, 200),
    ("POST", "/revoke"): Case(CLIENTS, lambda _n, _u: {"token": "ort_x"}, 200),
    ("POST", "/register"): Case(PUBLIC, lambda _n, _u: {}, 403),  # it is off
    ("POST", "/introspect"): Case(CLIENTS, lambda _n, _u: {"token": "ort_x"}, 200),
}


def test_every_route_is_in_the_matrix_and_open_ones_declare_it() -> None:
    accesses = {PUBLIC: Access.ANYONE, LOGINS: Access.ANYONE, CLIENTS: Access.CLIENT}
    for routes, cases in ((V1, CASES), (AUTH_ROUTES, AUTH_CASES)):
        assert cases.keys() == {(route.method, route.path) for route in routes}
        for route in routes:
            needs = cases[route.method, route.path].needs
            open_to = {Access.ANYONE, Access.CLIENT} & {route.access}
            assert open_to == ({accesses[needs]} if needs in accesses else set()), route.path


class Kind(NamedTuple):
    """A kind of credential: how it is made for a user, and the scopes that it carries; None: all
    of its user's."""

    name: str
    home: str
    make: Callable[[Environment, User], Awaitable[str]]
    scopes: set[str] | None = None

    def has(self, role: str) -> set[str]:
        """What it may do for a user of this role."""
        carried = HAVE["admin"] if self.scopes is None or "admin" in self.scopes else self.scopes
        return HAVE[role] & carried | (self.scopes or set()) - HAVE["admin"]

    def may(self, role: str, method: str, needs: str | None) -> bool:
        """Whether the route of this method and these needs answers it."""
        if needs in (PUBLIC, LOGINS):
            return needs == PUBLIC or self.name != "session"
        if self.name == "read key" and method not in ("GET", "HEAD"):
            return False
        if needs == WHOLE:
            return self.name != "oauth" and self.has(role) >= HAVE[role]
        if needs is None and self.name in ("oauth", "narrow key"):
            # What has some scopes alone changes its user's profile only with the one for that: an
            # administrator's with admin alone.
            api_scopes = self.has(role) & HAVE["admin"]
            needed = "admin" if role == "admin" else "write:users"
            return needed in api_scopes if method == "PATCH" else bool(api_scopes)
        if needs is None:
            return True
        if needs == SEEING:
            return bool(self.has(role) & {"read:products", "read:users", "admin"})
        if needs in (KEYS, COOKIES):
            return self.name.endswith("key") if needs == KEYS else self.name == "session"
        return needs in self.has(role)


def key(key_type: KeyType, *scopes: str) -> Callable[[Environment, User], Awaitable[str]]:
    async def make(env: Environment, user: User) -> str:
        given = [scope for scope in scopes if scope in HAVE[user.role]] or None
        made = await give_key(
            env, user, name="K", key_type=key_type, expires_at=None, scopes=given, by=OPERATOR
        )
        return made.secret

    return make


async def jwt(env: Environment, user: User) -> str:
    return (await login_of(env, user)).access_token


def oauth(scopes: str) -> Callable[[Environment, User], Awaitable[str]]:
    async def make(env: Environment, user: User) -> str:
        client = (await client_of(env)).client
        return (await tokens_of(env, client, user, scopes)).access_token

    return make


SCOPE_SETS = ["", "openid profile email", *SCOPES.split(), f"openid {SCOPES}"]
KINDS = [
    Kind("live key", "live", key("live")),
    Kind("read key", "live", key("read"), set(READ_SCOPES)),
    Kind("test key", "sandbox", key("test")),
    *(
        Kind("narrow key", "live", key("live", *scopes), set(scopes))
        for scopes in (["read:products"], ["read:users", "write:products"])
    ),
    *(Kind("session", home, session_of) for home in ("live", "sandbox")),
    *(Kind("jwt", home, jwt) for home in ("live", "sandbox")),
    *(Kind("oauth", "live", oauth(scopes), set(scopes.split())) for scopes in SCOPE_SETS),
    Kind("oauth", "sandbox", oauth("read:users"), {"read:users"}),
]
PAIRS = [
    pytest.param(
        *(kind, role),
        id=f"{kind.name}, {kind.home}, {role}, {' '.join(sorted(kind.scopes or ['all']))}",
    )
    for kind in KINDS
    for role in HAVE
    if (role == "admin" and (kind.name, kind.home) != ("jwt", "sandbox"))
    or (kind.name == "narrow key" and role == "editor")
    or (kind.home == "live" and (kind.scopes is None or kind.scopes >= HAVE["admin"]))
]
"""Each kind of an administrator, whose role narrows nothing; with each role what has all scopes.
`test_narrow_keys.py` has every role beside every set of scopes."""

CELLS = [
    (bases, method, path, case)
    for bases, cases in ((BASE, CASES), (AUTH, AUTH_CASES))
    for (declared, path), case in cases.items()
    for method in ((declared, "HEAD") if declared == "GET" else (declared,))
]


async def targets_of(api: Api, env: Environment, owner: User | None = None) -> dict[str, int | str]:
    """Somebody else, a product, a webhook with a delivery, and another key of the owner, by the
    names that paths have."""
    async with env.db.transaction() as tx:
        await tx.run("DELETE FROM webhooks")  # there may be 20
    values = {"url": HOOK["url"], "types": ("*",), "description": ""}
    hook = (await create_webhook(env, values, OPERATOR)).webhook.id
    async with env.db.transaction() as tx:
        await env[Events].add(tx, env.clock(), Published("product.created", "{}"))
        last = await env[Events].numbered_in(tx)
        await env[Deliveries].add(tx, env.clock(), [(hook, last, "product.created")])
        delivery = await env[Deliveries].last_of(tx, hook)
    user, product = await api.account(env=env), await api.product(env)
    email, by = f"invited.{user.email}", OPERATOR
    asked = await invite(env, email=email, role="viewer", plan="free", handed_over=True, by=by)
    made: dict[str, int | str] = {
        "users": user.id,
        "products": product.id,
        "webhooks": hook,
        "delivery": delivery,
        "invitations": asked.invitation.id,
        "clients": (await client_of(env)).client.client_id,
    }
    if owner:
        mirror = await env[Users].by_account(owner.id)
        new = NewKey(name="Another", type="test" if "live" in env.foreign else "live")
        named = await create_key(env, mirror.id if mirror else owner.id, new, OPERATOR)
        made["api-keys"] = named.key.id
    return made


def filled(path: str, targets: dict[str, int | str]) -> str:
    """A route's path with the ids of what it is about."""
    path = path.replace("{id}", str(targets.get(path.split("/")[1])))
    return path.replace("{delivery_id}", str(targets["delivery"]))


async def send(
    api: Api,
    header: tuple[str, str],
    method: str,
    url: str,
    body: dict[str, Any] | bytes | None,
    *others: tuple[str, str],
) -> Any:
    headers = [header, *(others or [("content-type", "application/json")])]
    content = [] if body is None else [body if isinstance(body, bytes) else json_bytes(body)]
    return await somewhere(api).exchange(method, url.removeprefix(EVERYWHERE), headers, *content)


def header_of(kind: Kind, credential: str) -> tuple[str, str]:
    if kind.name == "session":
        return "cookie", f"{COOKIE}={credential}"
    return "authorization", f"Bearer {credential}"


WRONG = (("accept", "image/png"), ("content-type", "text/plain"))


@pytest.mark.parametrize(("kind", "role"), PAIRS)
async def test_a_credential_may_do_exactly_what_kind_scopes_and_role_allow(
    api: Api, kind: Kind, role: str
) -> None:
    env = api.live if kind.home == "live" else api.sandbox
    owner_env = api.live if kind.name == "test key" else env
    await api.account("admin")  # so that nobody is the last
    person = await api.account(env=env, password=PASSWORD)
    header = None
    since: list[tuple[str, str]] = []
    for number, (bases, method, path, case) in enumerate(CELLS):
        if header is None:
            owner = await api.account(role, env=owner_env)
            header = header_of(kind, await kind.make(owner_env, owner))
            targets = await targets_of(api, env, owner)
            before = await api.state()
        url = bases[kind.home] + filled(path, targets)
        allowed = kind.may(role, method, case.needs)
        body = case.body(number, person)
        if path == "/api-keys" and body is not None and env is api.sandbox:
            body["type"] = "test"
        refusal = 401 if case.needs in (CLIENTS, LOGINS) else 403
        is_live_only = (method, path.split("/")[1]) == ("POST", "invitations")
        success = 409 if is_live_only and env is api.sandbox else case.success
        ends_logins_alone = case.needs == LOGINS and kind.name != "jwt"
        changes = allowed and case.changes(method) and success != 409 and not ends_logins_alone
        if changes:
            assert await api.state() == before, since
        answer = await send(api, header, method, url, body)
        cell = (kind.name, kind.scopes, role, method, path)
        assert answer.status_code == (success if allowed else refusal), (cell, answer.text)
        if not allowed and refusal == 403:  # before any fault of the request
            junk = await send(api, header, method, f"{url}?nonsense=1", b"{", *WRONG)
            assert junk.status_code == 403, cell
            if method != "HEAD":
                refused(answer, 403, "PERMISSION_DENIED")
        since.append((method, path))
        if changes:
            assert await api.state() != before, cell
            header = None
            since.clear()
    assert header is None or await api.state() == before, since


ONE_OF_EACH = {f"{kind.name}, {kind.home}": kind for kind in KINDS}


@pytest.mark.parametrize("how", ["suspended", "of the other environment"])
@pytest.mark.parametrize("kind", ONE_OF_EACH.values(), ids=ONE_OF_EACH)
async def test_a_credential_without_its_account_here_is_401_everywhere(
    api: Api, kind: Kind, how: str
) -> None:
    home = api.live if kind.home == "live" else api.sandbox
    owner_env = api.live if kind.name == "test key" else home
    await api.account("admin", env=owner_env)  # so that nobody is the last
    owner = await api.account("admin", env=owner_env)
    header = header_of(kind, await kind.make(owner_env, owner))
    answer = await send(api, header, "GET", BASE[kind.home], None)
    assert answer.status_code == 404
    at = kind.home
    if how == "suspended":
        await suspend(owner_env, owner.id, OPERATOR)
    else:
        at = "sandbox" if kind.home == "live" else "live"
    await assert_401_everywhere(api, header, at)


async def assert_401_everywhere(api: Api, header: tuple[str, str], at: str) -> None:
    targets = await targets_of(api, api.live if at == "live" else api.sandbox)
    user = await api.account()
    async with api.unchanged(but="audit"):
        for number, (bases, method, path, case) in enumerate(CELLS):
            if case.needs in (PUBLIC, LOGINS):
                continue
            url = bases[at] + filled(path, targets)
            answer = await send(api, header, method, url, case.body(number, user))
            assert answer.status_code == 401, (path, answer.text)
            if case.needs != CLIENTS and method != "HEAD":
                refused(answer, 401, "AUTHENTICATION_REQUIRED")


@pytest.mark.parametrize("place", ["bearer", "session", "second step"])
async def test_a_pending_second_step_is_401_everywhere(api: Api, place: str) -> None:
    waits = await begin_second_step(api.live, await api.account("admin"), Author(Actor()))
    header = {
        "bearer": ("authorization", f"Bearer {waits}"),
        "session": ("cookie", f"{COOKIE}={waits}"),
        "second step": ("cookie", f"{SECOND_STEP.name}={waits}"),
    }[place]
    await assert_401_everywhere(api, header, "live")


async def test_a_read_key_is_refused_all_but_get_and_head_wherever_it_calls(api: Api) -> None:
    header = ("authorization", f"Bearer {(await api.caller('admin', 'read')).key}")
    async with api.unchanged():
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "FOO"):
            for path in ("/users", "/users/me", "/products/1", "/nowhere", "/"):
                answer = await send(api, header, method, BASE["live"] + path, {})
                refused(answer, 403, "PERMISSION_DENIED")


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "/users/{id}": (
        {"name": " Ada King ", "preferences": {"theme": "dark"}, "password": "Analytical2"},
        {"name": "Ada King", "preferences": {"theme": "dark"}},
    ),
    "/products/{id}": (
        {"price": 19.5, "images": [{"url": "https://example.com/a.png"}], "metadata": {"a": "b"}},
        {
            "price": 19.5,
            "images": [{"url": "https://example.com/a.png", "alt": ""}],
            "metadata": {"a": "b"},
        },
    ),
}
"""For each kind with a scope for reading, a change and what of it comes back."""


@pytest.mark.parametrize("path", CHANGES)
async def test_a_change_without_the_scope_for_reading_answers_only_what_was_sent(
    api: Api, path: str
) -> None:
    assert CHANGES.keys() == {route.path for route in V1 if route.reads}
    noun, (change, back) = path.split("/")[1], CHANGES[path]
    admin = await api.caller("admin")
    path = filled(path, await targets_of(api, api.live))
    whole = (await admin.get(path)).json()["data"]
    secret = await key("live", f"write:{noun}")(api.live, await api.account("admin"))
    writer = api.stranger(authorization=f"Bearer {secret}")
    for body, told in (({}, {}), (change, back)):
        answer = await writer.patch(path, json=body)
        assert (answer.status_code, answer.json()) == (200, {"data": {"id": whole["id"], **told}})
        assert "etag" not in answer.headers
    answer = await admin.patch(path, json=change)
    assert answer.json()["data"].keys() == whole.keys()
    assert answer.headers["etag"] == (await admin.get(path)).headers["etag"]


def test_products_declare_the_roles_that_have_their_scopes() -> None:
    [scoped] = [one for one in RESOURCES if one.path == "products"]
    declared = PRODUCTS.resource
    assert (declared.readers, declared.writers) == (scoped.readers, scoped.writers)
