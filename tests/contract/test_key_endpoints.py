"""API keys over the API: made, listed, read, revoked, and by whom (decisions §13)."""

import asyncio
from typing import Any

import httpx
import pytest

from driving import NOON, Api, Caller, InProcess, json_bytes, refused
from owned import keys_of
from portico.core.audit import OPERATOR
from portico.core.times import DAY
from portico.features.access.api_keys import renew_key, revoke_key
from portico.features.people.accounts import give_key
from signing_in import SCOPES, client_of, login_of, tokens_of

KEY = {"name": "Shop", "type": "live"}
TOMORROW = "2026-03-16T12:00:00.000Z"


async def made(caller: httpx.AsyncClient, **values: Any) -> dict[str, Any]:
    answer = await caller.post("/api-keys", json={**KEY, **values})
    assert answer.status_code == 201, answer.text
    data: dict[str, Any] = answer.json()["data"]
    return data


async def faults(caller: httpx.AsyncClient, **values: Any) -> dict[str, str]:
    answer = await caller.post("/api-keys", json={**KEY, **values})
    return refused(answer, 422, "VALIDATION_ERROR")


async def bearer(api: Api, token: str) -> httpx.AsyncClient:
    return api.stranger(authorization=f"Bearer {token}")


async def test_a_key_is_made_shown_once_and_works(api: Api) -> None:
    caller = await api.caller("editor")
    answer = await caller.post("/api-keys", json={**KEY, "name": " Shop "})
    assert answer.status_code == 201
    body = answer.json()
    assert body.keys() == {"data", "message"}
    key = body["data"].pop("key")
    assert key.startswith("sk_live_")
    shape = {
        "id": body["data"]["id"],
        "name": "Shop",
        "type": "live",
        "hint": f"sk_live_…{key[-4:]}",
        "scopes": None,
        "networks": None,
        "created_at": "2026-03-15T12:00:00.000Z",
        "expires_at": None,
        "last_used_at": None,
        "status": "active",
    }
    assert body["data"] == shape
    assert answer.headers["location"].endswith(f"/v1/api-keys/{shape['id']}")
    assert answer.headers["cache-control"] == "no-store"
    read = await caller.get(f"/api-keys/{shape['id']}")
    assert read.json() == {"data": shape}
    assert (await (await bearer(api, key)).get("/users/me")).status_code == 200


async def test_a_key_has_the_scopes_networks_and_expiry_of_its_creation(api: Api) -> None:
    caller = await api.caller("admin")
    bounds = {
        "scopes": ["write:products", "read:users", "read:users"],
        "networks": ["127.0.0.1", "2001:DB8::/32"],
        "expires_at": "2026-03-16T13:00:00+01:00",
    }
    data = await made(caller, **bounds)
    assert data["scopes"] == ["read:users", "write:products"]
    assert data["networks"] == ["127.0.0.1", "2001:db8::/32"]
    assert data["expires_at"] == TOMORROW
    narrow = await bearer(api, data["key"])
    assert (await narrow.get("/users")).status_code == 200
    assert (await narrow.get("/products")).status_code == 403
    api.clock.advance(days=1)
    assert (await narrow.get("/users")).status_code == 401


@pytest.mark.one_engine
async def test_faults_of_a_new_key_are_answered_at_once_and_create_none(api: Api) -> None:
    caller = await api.caller("viewer")
    async with api.unchanged():
        found = await faults(
            caller,
            name=" ",
            type="test",
            scopes=["read:users", "fly"],
            networks=["10.0.0.1/8", "here", "10.0.0.0/8"],
            expires_at="2026-03-15T12:00:00Z",
        )
        assert found.keys() == {
            *("name", "type", "scopes.1", "networks.0", "networks.1", "expires_at")
        }
        assert "https://localhost:8443/sandbox/v1" in found["type"]
        assert "without bits set beyond its prefix" in found["networks.0"]
        assert (await faults(caller, scopes=[], networks=[])).keys() == {"scopes", "networks"}
        assert (await faults(caller, scopes=["write:products"])).keys() == {"scopes"}
        assert (await faults(caller, type="read", scopes=["admin"])).keys() == {"scopes"}
        for values in ({"type": 1}, {"scopes": "read:users"}, {"networks": [1]}, {"user_id": "1"},
                       {"expires_at": 5}, {"role": "admin"}):  # fmt: skip
            answer = await caller.post("/api-keys", json={**KEY, **values})
            refused(answer, 400, "VALIDATION_ERROR")
        answer = await caller.post("/api-keys", json={"name": "Shop"})
        assert refused(answer, 400).keys() == {"type"}


@pytest.mark.one_engine
async def test_each_environment_makes_its_own_types(api: Api) -> None:
    trial = await api.caller("viewer", "test")
    for key_type in ("live", "read"):
        async with api.unchanged():
            found = await faults(trial, type=key_type)
        assert "https://localhost:8443/v1" in found["type"]
    assert (await made(trial, type="test"))["key"].startswith("sk_test_")


async def test_keys_are_listed_newest_first_ended_ones_too(api: Api) -> None:
    caller = await api.caller("viewer")
    other = await api.caller("viewer")
    ids = [(await made(caller, name=f"Key {n}"))["id"] for n in range(3)]
    await made(caller, name="Short", expires_at="2026-03-15T12:00:01Z")
    await caller.delete(f"/api-keys/{ids[0]}")
    api.clock.advance(seconds=2)
    first = (await caller.get("/api-keys?limit=2")).json()
    assert [key["name"] for key in first["data"]] == ["Short", "Key 2"]
    assert [key["status"] for key in first["data"]] == ["expired", "active"]
    assert first["pagination"] == {"page": 1, "limit": 2, "total_items": 5, "total_pages": 3}
    rest = (await caller.get("/api-keys?limit=2&page=2")).json()["data"]
    assert [(key["name"], key["status"]) for key in rest] == [
        ("Key 1", "active"), ("Key 0", "revoked")
    ]  # fmt: skip
    far = (await caller.get(f"/api-keys?page={2**63 - 1}")).json()
    assert (far["data"], far["pagination"]["total_items"]) == ([], 5)
    assert len((await other.get("/api-keys")).json()["data"]) == 1


async def test_others_keys_are_for_admins(api: Api) -> None:
    admin, viewer = await api.caller("admin"), await api.caller("viewer")
    theirs = f"/api-keys/{admin.record.id}"
    async with api.unchanged():
        for answer in (
            await viewer.get(f"/api-keys?user_id={admin.user.id}"),
            await viewer.get(theirs),
            await viewer.delete(theirs),
            await viewer.post("/api-keys", json={**KEY, "user_id": admin.user.id}),
        ):
            refused(answer, 403, "PERMISSION_DENIED")
        for answer in (await viewer.get("/api-keys/999"), await viewer.delete("/api-keys/999")):
            refused(answer, 404, "RESOURCE_NOT_FOUND")
        assert (await faults(admin, user_id=999)).keys() == {"user_id"}
    data = await made(admin, user_id=viewer.user.id)
    assert (await faults(admin, user_id=viewer.user.id, scopes=["write:products"])).keys() == {
        "scopes"
    }
    for caller in (admin, viewer):
        listed = (await caller.get(f"/api-keys?user_id={viewer.user.id}")).json()["data"]
        assert [key["id"] for key in listed] == [data["id"], viewer.record.id]
    assert (await admin.delete(f"/api-keys/{viewer.record.id}")).status_code == 204
    assert (await viewer.get("/users/me")).status_code == 401


async def test_a_revoked_key_ends_at_once_and_stays_in_the_list(api: Api) -> None:
    caller = await api.caller("viewer")
    data = await made(caller)
    for _ in range(2):
        answer = await caller.delete(f"/api-keys/{data['id']}")
        assert (answer.status_code, answer.content) == (204, b"")
    assert (await (await bearer(api, data["key"])).get("/users/me")).status_code == 401
    assert (await caller.get(f"/api-keys/{data['id']}")).json()["data"]["status"] == "revoked"
    assert (await caller.delete(f"/api-keys/{caller.record.id}")).status_code == 204
    assert (await caller.get("/users/me")).status_code == 401


@pytest.mark.one_engine
async def test_keys_are_managed_with_all_scopes_of_ones_user_and_never_by_applications(
    api: Api,
) -> None:
    user = await api.account("editor")
    narrow = await give_key(
        api.live, user, name="N", key_type="live", expires_at=None, by=OPERATOR,
        scopes=["read:users", "read:products"],
    )  # fmt: skip
    reading = await give_key(
        api.live, user, name="R", key_type="read", expires_at=None, by=OPERATOR
    )
    client = (await client_of(api.live)).client
    granted = [
        (await tokens_of(api.live, client, user, scopes)).access_token
        for scopes in ("read:users write:products", SCOPES)
    ]
    async with api.unchanged():
        for token in (narrow.secret, reading.secret, *granted):
            somebody = await bearer(api, token)
            for answer in (
                await somebody.get("/api-keys"),
                await somebody.get(f"/api-keys/{narrow.key.id}"),
                await somebody.delete(f"/api-keys/{narrow.key.id}"),
                await somebody.post("/api-keys", json=KEY),
            ):
                refused(answer, 403, "PERMISSION_DENIED")
    login = await bearer(api, (await login_of(api.live, user)).access_token)
    assert (await made(login))["scopes"] is None


@pytest.mark.one_engine
async def test_a_key_makes_none_that_is_wider_or_lives_longer(api: Api) -> None:
    user = await api.account("viewer")
    maker = await give_key(
        api.live, user, name="Maker", key_type="live", expires_at=NOON + 2 * DAY, by=OPERATOR,
        scopes=["read:users", "read:products"], networks=["127.0.0.0/8"],
    )  # fmt: skip
    caller = await bearer(api, maker.secret)
    data = await made(caller)
    assert data["scopes"] == ["read:users", "read:products"]
    assert data["networks"] == ["127.0.0.0/8"]
    assert data["expires_at"] == "2026-03-17T12:00:00.000Z"
    inner = await made(caller, networks=["127.0.0.1"], expires_at=TOMORROW, scopes=["read:users"])
    assert (inner["networks"], inner["expires_at"]) == (["127.0.0.1"], TOMORROW)
    found = await faults(
        caller,
        scopes=["read:users", "write:users"],
        networks=["127.0.0.1", "0.0.0.0/0"],
        expires_at="2026-03-17T12:00:00.001Z",
    )
    assert found.keys() == {"scopes", "networks.1", "expires_at"}


@pytest.mark.parametrize("how", ["revoked", "expired", "rotated"])
async def test_a_key_that_ends_while_its_request_comes_in_makes_none_beyond_it(
    api: Api, how: str
) -> None:
    user = await api.account("viewer")
    maker = await give_key(
        api.live, user, name="Maker", key_type="live", expires_at=NOON + 5_000, by=OPERATOR
    )
    if how == "rotated":
        maker = await give_key(
            api.live, user, name="Maker", key_type="live", expires_at=None, by=OPERATOR
        )

    async def meanwhile() -> None:
        if how == "revoked":
            await revoke_key(api.live, maker.key.id, OPERATOR)
        elif how == "rotated":
            await renew_key(api.live, maker.key.id, OPERATOR)
        else:
            api.clock.advance(seconds=5)

    headers = [("authorization", f"Bearer {maker.secret}"), ("content-type", "application/json")]
    body = json_bytes(KEY)
    answer = await InProcess(api).exchange(
        "POST", "/v1/api-keys", headers, body[:5], meanwhile, body[5:]
    )
    if how == "rotated":
        assert answer.json()["data"]["expires_at"] == TOMORROW
    else:
        refused(answer, 401, "AUTHENTICATION_REQUIRED")
        names = [one.id for one in await keys_of(api.live, user.id)]
        assert names == [maker.key.id]


async def test_of_many_makers_each_makes_its_own(api: Api) -> None:
    caller: Caller = await api.caller("viewer")
    keys = await asyncio.gather(*(made(caller, name=f"Key {n}") for n in range(8)))
    assert len({key["key"] for key in keys}) == len({key["id"] for key in keys}) == 8
