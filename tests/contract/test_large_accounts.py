"""Accounts may have very much: whoever removes one holds up nobody."""

import pytest

from driving import Api
from operating import turns
from portico.core.users import User
from portico.data.table import ROWS_AT_ONCE
from portico.features.people.storage import Users
from portico.features.signin.storage import Sessions

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
    rows = []
    for number in range(MANY):
        text = f"{user.id}-{number}"
        row = {"user_id": user.id, "key": text.encode(), "text": text, "client": client}
        rows.append({name: value for name, value in row.items() if f":{name}" in _ROWS[table]})
    async with api.live.db.transaction() as tx:
        await tx.run_many(_ROWS[table], rows)


async def count(api: Api, table: str) -> int:
    row = await api.live.db.one(f"SELECT count(*) FROM {table}")  # noqa: S608 - of this file
    return int(row[0]) if row else 0


@pytest.mark.parametrize("table", _ROWS)
async def test_deleting_a_user_with_many_rows_leaves_turns_to_requests(
    api: Api, table: str
) -> None:
    user, other = await api.account(), await api.account()
    for owner in (user, other):
        await give(api, owner, table)
    async with api.live.db.transaction() as tx, turns() as seen:
        if table == "sessions":  # which a sign-out everywhere deletes alike
            assert await api.live[Sessions].delete_of_user(tx, user.id) == MANY
        else:
            await api.live[Users].delete(tx, user.id)
    assert seen.count >= 2
    assert await count(api, table) == MANY
