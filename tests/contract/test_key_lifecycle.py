"""API keys: how they are kept, how long they hold, rotation (specification §5.1; decisions §5)."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driving import NOON, Api, Caller, InProcess, refused
from operating import bytes_in
from owned import keys_of
from portico.data.database import NOTHING, Params, Row
from portico.features.access.rules import KEY_TYPES, mint
from portico.features.access.storage import ApiKeys

DAY = 86_400_000


async def says(caller: Caller) -> int:
    return (await caller.get("/users/me")).status_code


async def test_a_key_has_its_types_prefix_and_is_never_stored_in_the_open(
    api: Api, tmp_path: Path
) -> None:
    keys = []
    for kind in KEY_TYPES:
        caller = await api.caller("admin", kind)
        assert caller.key.startswith(f"sk_{kind}_")
        assert caller.record.hint == f"sk_{kind}_…{caller.key[-4:]}"
        keys.append(caller.key)
        if kind != "read":
            keys.append((await caller.post("/api-keys/rotate")).json()["data"]["key"])
    held, files = str(await api.state()), bytes_in(tmp_path)
    for key in keys:
        assert key[8:-4] not in held
        assert key[8:-4].encode() not in files


class EmptyDatabase:
    """Holds nothing, and counts how often it is asked."""

    asked = 0

    async def one(self, _sql: str, _params: Params = NOTHING) -> Row | None:
        self.asked += 1
        return None


@pytest.mark.one_engine
async def test_junk_and_typos_cost_no_look_up(api: Api) -> None:
    caller = await api.caller("viewer")
    database: Any = EmptyDatabase()
    api.live[ApiKeys] = ApiKeys(database)
    key = caller.key
    other = "B" if key[20] == "A" else "A"
    junk = [key[:20] + other + key[21:], key[:-1], key + "0", key.swapcase(), key[8:], "sk_live_"]
    for token in [*junk, "x" * len(key), key.replace("live", "owns"), "sk_live_" + "_" * 49]:
        answer = await caller.get("/users/me", headers={"authorization": f"Bearer {token}"})
        refused(answer, 401, "AUTHENTICATION_REQUIRED")
        assert "typo" in answer.json()["error"]["message"]
    assert database.asked == 0
    unknown = mint("live", bytes)
    answer = await caller.get("/users/me", headers={"authorization": f"Bearer {unknown}"})
    assert "not valid" in answer.json()["error"]["message"]
    assert database.asked == 1


@pytest.mark.one_engine
async def test_a_key_of_the_other_environment_is_401_with_its_address(api: Api) -> None:
    transport = InProcess(api)
    for kind, path, address in [
        ("test", "/v1/users/me", "https://localhost:8443/sandbox/v1"),
        ("live", "/sandbox/v1/users/me", "https://localhost:8443/v1"),
        ("read", "/sandbox/v1/users/me", "https://localhost:8443/v1"),
    ]:
        caller = await api.caller("admin", kind)  # type: ignore[arg-type]  # one of KEY_TYPES
        answer = await transport.exchange("GET", path, [("authorization", f"Bearer {caller.key}")])
        refused(answer, 401, "AUTHENTICATION_REQUIRED")
        assert address in answer.json()["error"]["message"]
        assert await says(caller) == 200


@pytest.mark.one_engine
async def test_a_key_holds_to_the_last_millisecond_before_its_expiry(api: Api) -> None:
    used, unused = [await api.caller("viewer", expires_at=NOON + 1000) for _ in range(2)]
    api.clock.now = NOON + 999
    assert await says(used) == 200
    api.clock.now = NOON + 1000
    for key in (used, unused):
        answer = await key.get("/users/me")
        refused(answer, 401, "AUTHENTICATION_REQUIRED")
        assert "expired" in answer.json()["error"]["message"]


async def test_the_last_use_of_a_key_is_stored_and_never_set_back(api: Api) -> None:
    caller = await api.caller("viewer")
    for now in (NOON + 3000, NOON):
        api.clock.now = now
        assert await says(caller) == 200
        await api.stop()
        await api.start()
        stored = await api.live[ApiKeys].get(caller.record.id)
        assert stored is not None
        assert stored.last_used_at == NOON + 3000


async def test_a_rotated_key_works_for_exactly_a_day_beside_its_successor(api: Api) -> None:
    caller = await api.caller("editor", name="Ed")
    answer = await caller.post("/api-keys/rotate")
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    where = answer.headers["location"]
    body = answer.json()
    assert body.keys() == {"data", "message"}
    assert where == f"https://localhost:8443/v1/api-keys/{body['data']['id']}"
    assert (await caller.get(where)).json()["data"]["id"] == body["data"]["id"]
    data = body["data"]
    key = data.pop("key")
    assert data == {
        "id": data["id"],
        "name": "A key",
        "type": "live",
        "hint": f"sk_live_…{key[-4:]}",
        "created_at": "2026-03-15T12:00:00.000Z",
        "expires_at": None,
        "previous_key": {"id": caller.record.id, "expires_at": "2026-03-16T12:00:00.000Z"},
    }
    successor = Caller(api, caller.user, caller.record, key, "live")
    for now, old in ((NOON, 200), (NOON + DAY - 1, 200), (NOON + DAY, 401)):
        api.clock.now = now
        assert (await says(caller), await says(successor)) == (old, 200)
    mine = (await successor.get("/users/me")).json()["data"]
    assert mine["id"] == caller.user.id


async def test_of_concurrent_rotations_of_one_key_one_makes_a_successor(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.leave_turns(monkeypatch)
    caller = await api.caller("viewer")
    answers = await asyncio.gather(*(caller.post("/api-keys/rotate") for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 19
    assert len(await keys_of(api.live, caller.user.id)) == 2
    async with api.unchanged():
        refused(await caller.post("/api-keys/rotate"), 409, "CONFLICT")
    assert await says(caller) == 200


LASTING: list[tuple[int | None, int | None, int]] = [
    *((left, None, left) for left in (1, DAY, 30 * DAY)),
    *((left, 7, stays * DAY) for left, stays in ((None, 7), (30 * DAY, 7), (2 * DAY, 2))),
]
"""How long a key still holds, `max_key_days`, and how long its successor does."""


@pytest.mark.one_engine
async def test_a_successor_keeps_the_expiry_within_max_key_days_and_the_old_key_ends_by_its_own(
    api: Api,
) -> None:
    unbounded = api.live.settings
    for left, longest, stays in LASTING:
        api.live.settings = unbounded
        caller = await api.caller("viewer", expires_at=None if left is None else NOON + left)
        api.live.settings = replace(unbounded, max_key_days=longest)  # since it was made
        body = (await caller.post("/api-keys/rotate")).json()
        data = body["data"]
        assert f"the old one works until {data['previous_key']['expires_at']}." in body["message"]
        successor = await api.live[ApiKeys].get(data["id"])
        old = await api.live[ApiKeys].get(caller.record.id)
        assert successor is not None
        assert old is not None
        assert successor.expires_at == NOON + stays
        assert old.expires_at == NOON + min(left or DAY, DAY)
