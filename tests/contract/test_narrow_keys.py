"""Keys of some scopes and some networks alone (decisions §13)."""

from itertools import combinations
from typing import Any

import pytest

from driving import Api, InProcess, refused
from portico.core.audit import OPERATOR
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


NETWORKS: list[tuple[str, str, str | None, int]] = [
    ("192.0.2.0/24", "192.0.2.7:1", None, 200),
    ("192.0.2.0/24", "192.0.3.7:1", None, 403),
    ("198.51.100.1 192.0.2.7", "192.0.2.7:1", None, 200),
    ("192.0.2.7", "192.0.2.8:1", None, 403),
    ("192.0.2.0/24", "[::ffff:192.0.2.7]:1", None, 200),
    ("::ffff:192.0.2.0/120", "192.0.2.7:1", None, 200),
    ("2001:db8::/64", "[2001:db8::9]:1", None, 200),
    ("2001:db8::7", "[2001:db8::9]:1", None, 403),
    ("0.0.0.0/0", "[2001:db8::9]:1", None, 403),
    ("::/0", "192.0.2.7:1", None, 403),
    # Who poses as another is whom the proxy has seen.
    ("192.0.2.0/24", "198.51.100.1:1", "192.0.2.7", 403),
    ("192.0.2.0/24", PROXY, "192.0.2.7", 200),
    ("192.0.2.0/24", PROXY, "192.0.2.7, 198.51.100.1", 403),
    ("192.0.2.0/24", PROXY, "198.51.100.1, 192.0.2.7, 10.0.0.2", 200),
    # A proxy that tells of nobody is not whoever comes through it.
    *(("10.0.0.0/8", PROXY, told, 403) for told in (None, "", "10.0.0.2", "unknown")),
    ("10.0.0.0/8 192.0.2.7", PROXY, "192.0.2.7, unknown", 403),
]


async def test_a_key_is_403_outside_its_networks(api: Api) -> None:
    for networks, address, forwarded, status in NETWORKS:
        key = await key_of(api, networks=networks.split())
        more = {} if forwarded is None else {"x_forwarded_for": forwarded}
        for _ in range(2):  # read first, and remembered then
            answer = await ask(api, key, address, **more)
            assert answer.status_code == status, (networks, address, forwarded)


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
    user, end = await api.account("editor"), api.clock() + 1_000_000
    made = await give_key(
        api.live, user, name="Narrow", key_type="live", expires_at=end, by=OPERATOR,
        scopes=["read:users", "write:products"], networks=["192.0.2.0/24", "2001:db8::/32"],
    )  # fmt: skip
    rotation = await renew_key(api.live, made.key.id, OPERATOR)
    stored = await api.live[ApiKeys].get(rotation.successor.id)
    assert stored == rotation.successor
    assert stored.scopes == frozenset({"read:users", "write:products"})
    assert stored.networks == ("192.0.2.0/24", "2001:db8::/32")
    assert stored.expires_at == end
    for address, path, status in (
        ("192.0.2.7:1", "/v1/products", 403),
        ("192.0.2.7:1", "/v1/users", 200),
        ("192.0.3.7:1", "/v1/users", 403),
    ):
        assert (await ask(api, rotation.key, address, path)).status_code == status


@pytest.mark.parametrize("role", ROLE_SCOPES)
async def test_a_key_has_the_scopes_of_both_role_and_key(api: Api, role: str) -> None:
    user = await api.account(role)
    some = (combinations(SCOPES, size) for size in range(1, 6))
    for subset in (None, *(frozenset(chosen) for sized in some for chosen in sized)):
        for key_type in ("live", "read"):
            given = frozenset(SCOPES) if subset is None or "admin" in subset else subset
            if key_type == "read":
                given = frozenset(READ_SCOPES) if subset is None else subset & READ_SCOPES
            secret = mint(key_type, api.live.random)
            key = ApiKey(
                **dict.fromkeys(("expires_at", "last_used_at", "revoked_at", "rotated_at")),
                id=0,
                user_id=user.id,
                name="Narrow",
                type=key_type,
                hint=hint(secret),
                created_at=api.clock(),
                scopes=subset,  # which its owner may have lost since
            )
            async with api.live.db.transaction() as tx:
                await api.live[ApiKeys].insert(tx, key, digest(secret))
            caller = await Credentials(api.live).look_up(secret, api.clock())
            assert caller.scopes == ROLE_SCOPES[role] & given, subset
