"""Accounts may have very much: whoever removes one holds up nobody."""

from typing import Any

import pytest

from driving import Api
from operating import turns
from owned import grants_of
from portico.core.users import User
from portico.data.database import Row
from portico.data.table import ROWS_AT_ONCE
from portico.features.access.storage import Clients, Grants
from portico.features.people.storage import Users
from portico.features.signin.storage import Sessions
from signing_in import client_of, login_of

_TOKEN = """
INSERT INTO tokens (grant_id, refresh_hash, access_hash, scopes, created_at, access_expires_at,
    refresh_expires_at)
VALUES (:grant_id, :refresh, :access, '', 1, 1, 1)"""
_COUNT = "SELECT count(*) FROM tokens"
MANY = 3 * ROWS_AT_ONCE["sqlite"]
_ROWS = {
    "sessions": """
INSERT INTO sessions (user_id, token_hash, address, user_agent, created_at, last_seen_at,
    expires_at, proved_at)
VALUES (:user_id, :key, '', '', 1, 1, 1, 1)""",
    "grants": """
INSERT INTO grants (user_id, client_row_id, scopes, address, user_agent, created_at, last_used_at,
    expires_at, proved_at)
VALUES (:user_id, :client, '', '', '', 1, 1, 1, 1)""",
    "api_keys": """
INSERT INTO api_keys (user_id, name, type, hint, key_hash, created_at)
VALUES (:user_id, '', 'live', '', :key, 1)""",
    "idempotency_keys": """
INSERT INTO idempotency_keys (user_id, route, key_hash, body_hash, status, headers, body,
    created_at)
VALUES (:user_id, '', :key, :key, 201, '', :key, 1)""",
    "known_addresses": """
INSERT INTO known_addresses (user_id, address, last_at) VALUES (:user_id, :text, 1)""",
    "known_devices": """
INSERT INTO known_devices (user_id, token_hash, last_at) VALUES (:user_id, :key, 1)""",
}


async def give(api: Api, user: User, table: str, client: int | None = None) -> None:
    """Gives a user very many rows of a table."""
    keys = [f"{user.id}-{number}" for number in range(MANY)]
    values = [{"user_id": user.id, "key": key.encode(), "text": key} for key in keys]
    wanted = {name for name in ("user_id", "key", "text") if f":{name}" in _ROWS[table]}
    rows: list[dict[str, object]] = [
        {name: value for name, value in row.items() if name in wanted} for row in values
    ]
    if table == "grants":
        rows = [{**row, "client": client} for row in rows]
    async with api.live.db.transaction() as tx:
        await tx.run_many(_ROWS[table], rows)


async def count(api: Api, table: str) -> int:
    row = await api.live.db.one(f"SELECT count(*) FROM {table}")  # noqa: S608 - of this file
    return int(row[0]) if row else 0


async def test_deleting_a_user_with_many_tokens_leaves_turns_to_requests(api: Api) -> None:
    user, other = await api.account(), await api.account()
    for owner in (user, other):
        await login_of(api.live, owner)
    (grant,) = await grants_of(api.live, user.id, api.clock())
    tokens = [
        {"grant_id": grant.id, "refresh": b"r%d" % number, "access": b"a%d" % number}
        for number in range(5_000)
    ]
    async with api.live.db.transaction() as tx:
        await tx.run_many(_TOKEN, tokens)
    async with api.live.db.transaction() as tx, turns() as seen:
        await api.live[Users].delete(tx, user.id)
    assert seen.count > 2
    assert await api.live[Users].get(user.id) is None
    assert await api.live.db.one(_COUNT) == (1,)


@pytest.mark.parametrize("table", _ROWS)
async def test_deleting_a_user_with_many_rows_leaves_turns_to_requests(
    api: Api, table: str
) -> None:
    user, other = await api.account(), await api.account()
    for owner in (user, other):
        await give(api, owner, table)
    async with api.live.db.transaction() as tx, turns() as seen:
        await api.live[Users].delete(tx, user.id)
    assert seen.count > 2
    assert await count(api, table) == MANY


async def test_ending_many_sign_ins_leaves_turns_to_requests(api: Api) -> None:
    user, other = await api.account(), await api.account()
    for owner in (user, other):
        await give(api, owner, "sessions")
        await give(api, owner, "grants")
    own = "SELECT max(id) FROM sessions WHERE user_id = :id"
    (kept,) = await api.live.db.all(own, {"id": user.id})
    sessions, grants = api.live[Sessions], api.live[Grants]
    async with api.live.db.transaction() as tx:
        async with turns() as seen:
            assert await sessions.delete_of_user(tx, user.id, but=kept[0]) == MANY - 1
        assert seen.count >= 2
        async with turns() as seen:
            assert await grants.revoke_of_user(tx, user.id, api.clock()) == MANY
        assert seen.count >= 2
    assert await count(api, "sessions") == MANY + 1
    assert await count(api, "grants WHERE revoked_at IS NULL") == MANY


async def test_deleting_a_client_of_many_grants_leaves_turns_to_requests(api: Api) -> None:
    user = await api.account()
    shop, kept = await client_of(api.live), await client_of(api.live)
    for each in (shop, kept):
        await give(api, user, "grants", each.client.id)
    async with api.live.db.transaction() as tx, turns() as seen:
        await api.live[Clients].delete(tx, shop.client.id)
    assert seen.count > 2
    assert await count(api, "grants") == MANY


async def test_a_sandbox_of_many_users_is_emptied_a_few_at_a_time(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = api.sandbox
    monkeypatch.setattr("portico.features.people.storage.USERS_AT_ONCE", 3)
    account = await api.account()
    mirror = await api.account(env=sandbox, account_id=account.id)
    for _ in range(10):
        await api.account(env=sandbox)
    sizes: list[int] = []
    async with sandbox.db.transaction() as tx:
        asked = tx.all

        async def noted(*statement: Any) -> list[Row]:
            rows = await asked(*statement)
            sizes.append(len(rows))
            return rows

        monkeypatch.setattr(tx, "all", noted)
        await sandbox[Users].delete_all_but_mirrors(tx)
        monkeypatch.setattr(tx, "all", asked)
    assert sizes == [3, 3, 3, 1]
    assert await sandbox.db.all("SELECT id FROM users") == [(mirror.id,)]
