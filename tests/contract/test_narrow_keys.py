"""Keys of some scopes and some networks alone (decisions §13)."""

from itertools import combinations
from typing import Any

import pytest

from driving import Api, InProcess, refused
from portico.core.audit import OPERATOR
from portico.core.caller import Principal, require
from portico.core.errors import PermissionDenied
from portico.core.scopes import READ_SCOPES, ROLE_SCOPES, SCOPES
from portico.core.secrets import digest
from portico.features.access.api_keys import renew_key
from portico.features.access.credentials import Credentials
from portico.features.access.rules import ApiKey, KeyType, hint, mint
from portico.features.access.storage import ApiKeys
from portico.features.people.accounts import give_key
from portico.mounts import V1

PROXY = "10.0.0.1:4711"


@pytest.fixture
def environ() -> dict[str, str]:
    """Behind trusted proxies; that anything is asked of a key is decided before storage."""
    return {"PORTICO_TRUSTED_PROXIES": "10.0.0.0/30"}


async def key_of(api: Api, role: str = "editor", key_type: KeyType = "live", **values: Any) -> str:
    """A new key of a new account."""
    facts: dict[str, Any] = {"name": "Narrow", "expires_at": None, "by": OPERATOR, **values}
    made = await give_key(api.live, await api.account(role), key_type=key_type, **facts)
    return made.secret


async def ask(
    api: Api, key: str, address: str, path: str = "/v1/users/me", method: str = "GET", **more: str
) -> Any:
    headers = {"authorization": f"Bearer {key}", "x-forwarded-proto": "https"}
    headers |= {name.replace("_", "-"): value for name, value in more.items()}
    return await InProcess(api, address).exchange(method, path, [*headers.items()])


@pytest.mark.parametrize(
    ("networks", "address", "forwarded", "status"),
    [
        (["192.0.2.0/24"], "192.0.2.7:1", None, 200),
        (["192.0.2.0/24"], "192.0.3.7:1", None, 403),
        (["198.51.100.1", "192.0.2.7"], "192.0.2.7:1", None, 200),
        (["192.0.2.7"], "192.0.2.8:1", None, 403),
        (["192.0.2.0/24"], "[::ffff:192.0.2.7]:1", None, 200),
        (["::ffff:192.0.2.0/120"], "192.0.2.7:1", None, 200),
        (["2001:db8::/64"], "[2001:db8::9]:1", None, 200),
        (["2001:db8::7"], "[2001:db8::9]:1", None, 403),
        (["0.0.0.0/0"], "192.0.2.7:1", None, 200),
        (["0.0.0.0/0"], "[2001:db8::9]:1", None, 403),
        (["::/0"], "[2001:db8::9]:1", None, 200),
        (["::/0"], "192.0.2.7:1", None, 403),
        # Who poses as another is whom the proxy has seen.
        (["192.0.2.0/24"], "198.51.100.1:1", "192.0.2.7", 403),
        (["192.0.2.0/24"], PROXY, "192.0.2.7", 200),
        (["192.0.2.0/24"], PROXY, "::ffff:192.0.2.7", 200),
        (["192.0.2.0/24"], PROXY, "192.0.2.7, 198.51.100.1", 403),
        (["192.0.2.0/24"], PROXY, "198.51.100.1, 192.0.2.7, 10.0.0.2", 200),
        # A proxy that tells of nobody is not whoever comes through it.
        (["10.0.0.0/8"], PROXY, None, 403),
        (["10.0.0.0/8"], PROXY, "", 403),
        (["10.0.0.0/8"], PROXY, "10.0.0.2", 403),
        (["10.0.0.0/8"], PROXY, "unknown", 403),
        (["10.0.0.0/8", "192.0.2.7"], PROXY, "192.0.2.7, unknown", 403),
    ],
)
async def test_a_key_is_403_outside_its_networks(
    api: Api, networks: list[str], address: str, forwarded: str | None, status: int
) -> None:
    key = await key_of(api, networks=networks)
    more = {} if forwarded is None else {"x_forwarded_for": forwarded}
    for _ in range(2):  # read first, and remembered then
        answer = await ask(api, key, address, **more)
        assert answer.status_code == status, answer.text


async def test_a_key_outside_its_networks_is_403_on_every_path_and_counted(api: Api) -> None:
    key = await key_of(api, "admin", networks=["192.0.2.7"])
    left = (await ask(api, key, "192.0.2.7:1")).headers["x-ratelimit-remaining"]
    targets = [(route.method, f"/v1{route.path}") for route in V1 if route.scope]
    targets += [("GET", "/v1/users/me"), ("POST", "/v1/api-keys/rotate"), ("FOO", "/v1/users")]
    targets += [("GET", "/v1/nothing"), ("GET", "/v1/"), ("DELETE", "/v1/products/none")]
    async with api.unchanged():
        for number, (method, path) in enumerate(targets, 1):
            answer = await ask(api, key, "198.51.100.1:1", path, method)
            faults = refused(answer, 403, "PERMISSION_DENIED")
            assert "198.51.100.1" in answer.json()["error"]["message"]
            assert faults == {}
            assert int(answer.headers["x-ratelimit-remaining"]) == int(left) - number


async def test_a_rotated_key_keeps_scopes_networks_and_expiry(api: Api) -> None:
    end = api.clock() + 1_000_000
    made = await give_key(
        api.live,
        await api.account("editor"),
        name="Narrow",
        key_type="live",
        expires_at=end,
        scopes=["read:users", "write:products"],
        networks=["192.0.2.0/24", "2001:db8::/32"],
        by=OPERATOR,
    )
    rotation = await renew_key(api.live, made.key.id, OPERATOR)
    stored = await api.live[ApiKeys].get(rotation.successor.id)
    assert stored == rotation.successor
    assert stored.scopes == frozenset({"read:users", "write:products"})
    assert stored.networks == ("192.0.2.0/24", "2001:db8::/32")
    assert stored.expires_at == end
    assert (await ask(api, rotation.key, "192.0.2.7:1", "/v1/products")).status_code == 403
    assert (await ask(api, rotation.key, "192.0.2.7:1", "/v1/users")).status_code == 200
    assert (await ask(api, rotation.key, "192.0.3.7:1", "/v1/users")).status_code == 403


SUBSETS = [frozenset(some) for size in range(1, 6) for some in combinations(SCOPES, size)]
NEEDS = sorted({(route.scope or "", route.method) for route in V1 if route.scope})


async def principal_of(
    api: Api, user_id: int, key_type: KeyType, scopes: frozenset[str] | None
) -> Principal:
    """Whoever comes with a key of these scopes, which its owner may have lost since."""
    secret = mint(key_type, api.live.random)
    async with api.live.db.transaction() as tx:
        key = ApiKey(
            id=0,
            user_id=user_id,
            name="Narrow",
            type=key_type,
            hint=hint(secret),
            created_at=api.clock(),
            expires_at=None,
            last_used_at=None,
            revoked_at=None,
            rotated_at=None,
            scopes=scopes,
        )
        await api.live[ApiKeys].insert(tx, key, digest(secret))
    return await Credentials(api.live).look_up(secret, api.clock())


@pytest.mark.parametrize("role", ROLE_SCOPES)
async def test_a_key_has_the_scopes_of_both_role_and_key(api: Api, role: str) -> None:
    user = await api.account(role)
    for key_type in ("live", "read"):
        for subset in (None, *SUBSETS):
            caller = await principal_of(api, user.id, key_type, subset)
            given = frozenset(SCOPES) if subset is None or "admin" in subset else subset
            if key_type == "read":
                given = frozenset(READ_SCOPES) if subset is None else subset & READ_SCOPES
            assert caller.scopes == ROLE_SCOPES[role] & given
            for scope, method in NEEDS:
                allowed = scope in ROLE_SCOPES[role] & given
                if key_type == "read" and method != "GET":
                    allowed = False
                try:
                    require(caller, scope, method)
                    passed = True
                except PermissionDenied:
                    passed = False
                assert passed == allowed, (subset, scope, method)


async def test_a_narrow_key_changes_its_owner_by_scope_alone(api: Api) -> None:
    for scopes, status in ((["read:users"], 403), (["read:users", "write:users"], 403)):
        user = await api.account("admin")
        made = await give_key(
            api.live, user, name="N", key_type="live", expires_at=None, scopes=scopes, by=OPERATOR
        )
        headers = [("authorization", f"Bearer {made.secret}"), ("content-type", "application/json")]
        answer = await InProcess(api).exchange("PATCH", "/v1/users/me", headers, b'{"name":"Eve"}')
        assert answer.status_code == status, answer.text
    plain = await api.caller("viewer")
    assert (await plain.patch("/users/me", json={"name": "Eve"})).status_code == 200
