"""API keys over the API: made, listed, read, revoked, and by whom (decisions §13)."""

from dataclasses import replace
from typing import Any

import httpx
import pytest

from driving import NOON, Api, InProcess, json_bytes, refused
from portico.core.audit import OPERATOR
from portico.core.times import DAY
from portico.features.access.api_keys import renew_key
from portico.features.people.accounts import give_key

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


def bearer(api: Api, token: str) -> httpx.AsyncClient:
    return api.stranger(authorization=f"Bearer {token}")


async def test_a_key_is_made_shown_once_works_and_is_revoked_at_once(api: Api) -> None:
    caller = await api.caller("editor")
    answer = await caller.post("/api-keys", json={**KEY, "name": " Shop "})
    assert answer.status_code == 201
    body = answer.json()
    assert body.keys() == {"data", "message"}
    key = body["data"].pop("key")
    assert body["data"] == {
        **dict.fromkeys(("scopes", "networks", "expires_at", "last_used_at")),
        "id": body["data"]["id"],
        "name": "Shop",
        "type": "live",
        "hint": f"sk_live_…{key[-4:]}",
        "created_at": "2026-03-15T12:00:00.000Z",
        "status": "active",
    }
    path = f"/api-keys/{body['data']['id']}"
    assert answer.headers["location"].endswith(f"/v1{path}")
    assert answer.headers["cache-control"] == "no-store"
    assert (await caller.get(path)).json() == {"data": body["data"]}
    assert (await bearer(api, key).get("/users/me")).status_code == 200
    for _ in range(2):
        answer = await caller.delete(path)
        assert (answer.status_code, answer.content) == (204, b"")
    refused(await bearer(api, key).get("/users/me"), 401)
    assert (await caller.get(path)).json()["data"]["status"] == "revoked"


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
    narrow = bearer(api, data["key"])
    assert (await narrow.get("/users")).status_code == 200
    assert (await narrow.get("/products")).status_code == 403
    api.clock.advance(days=1)
    assert (await narrow.get("/users")).status_code == 401


@pytest.mark.one_engine
async def test_faults_of_a_new_key_are_answered_at_once_and_create_none(api: Api) -> None:
    caller, trial = await api.caller("viewer"), await api.caller("viewer", "test")
    async with api.unchanged():
        found = await faults(
            caller,
            name=" ",
            type="test",
            scopes=["read:users", "fly"],
            networks=["10.0.0.1/8", "here", "10.0.0.0/8"],
            expires_at="2026-03-15T12:00:00Z",
        )
        assert " ".join(found) == "name type scopes.1 networks.0 networks.1 expires_at"
        assert "https://localhost:8443/sandbox/v1" in found["type"]
        assert "without bits set beyond its prefix" in found["networks.0"]
        assert (await faults(caller, scopes=[], networks=[])).keys() == {"scopes", "networks"}
        assert (await faults(caller, scopes=["write:products"])).keys() == {"scopes"}
        assert (await faults(caller, type="read", scopes=["admin"])).keys() == {"scopes"}
        for key_type in ("live", "read"):
            found = await faults(trial, type=key_type)
            assert "https://localhost:8443/v1" in found["type"]
        for values in ({"type": 1}, {"scopes": "read:users"}, {"networks": [1]}, {"user_id": "1"},
                       {"expires_at": 5}, {"role": "admin"}):  # fmt: skip
            answer = await caller.post("/api-keys", json={**KEY, **values})
            refused(answer, 400, "VALIDATION_ERROR")
    assert (await made(trial, type="test"))["key"].startswith("sk_test_")


async def test_keys_are_listed_newest_first_ended_ones_too(api: Api) -> None:
    caller, other = await api.caller("viewer"), await api.caller("viewer")
    gone = (await made(caller, name="Gone"))["id"]
    await made(caller, name="Short", expires_at="2026-03-15T12:00:01Z")
    await caller.delete(f"/api-keys/{gone}")
    api.clock.advance(seconds=2)
    listed = (await caller.get("/api-keys?limit=2")).json()
    assert [(key["name"], key["status"]) for key in listed["data"]] == [
        ("Short", "expired"), ("Gone", "revoked")
    ]  # fmt: skip
    assert listed["pagination"] == {"page": 1, "limit": 2, "total_items": 3, "total_pages": 2}
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


@pytest.mark.one_engine
async def test_a_key_makes_none_that_is_wider_or_lives_longer(api: Api) -> None:
    user = await api.account("viewer")
    maker = await give_key(
        api.live, user, name="Maker", key_type="live", expires_at=NOON + 2 * DAY, by=OPERATOR,
        scopes=["read:users", "read:products"], networks=["127.0.0.0/8"],
    )  # fmt: skip
    caller = bearer(api, maker.secret)
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


@pytest.mark.one_engine
async def test_no_key_lives_longer_than_max_key_days(api: Api) -> None:
    caller = await api.caller("viewer")
    api.live.settings = replace(api.live.settings, max_key_days=1)
    assert (await made(caller))["expires_at"] == TOMORROW
    assert (await made(caller, expires_at=TOMORROW))["expires_at"] == TOMORROW
    async with api.unchanged():
        found = await faults(caller, expires_at="2026-03-16T12:00:00.001Z")
    assert found == {"expires_at": "must be at most 1 day from now"}


async def test_a_key_rotated_while_its_request_comes_in_makes_none_beyond_it(api: Api) -> None:
    maker = await api.caller("viewer")

    async def rotated() -> None:
        await renew_key(api.live, maker.record.id, OPERATOR)

    headers = [("authorization", f"Bearer {maker.key}"), ("content-type", "application/json")]
    body = json_bytes(KEY)
    answer = await InProcess(api).exchange("POST", "/v1/api-keys", headers, rotated, body)
    assert answer.json()["data"]["expires_at"] == TOMORROW
