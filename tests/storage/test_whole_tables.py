"""Whole tables are read a few rows at a time, each time from where the last ended."""

from portico.data.database import Database
from portico.data.table import AT_ONCE
from portico.features.signin.storage import Sessions

MANY = 2 * AT_ONCE + 1
LATE = 4_000_000_000_000
_USER = """
INSERT INTO users (name, name_key, email, email_key, role, plan, theme, language, notifications,
    created_at, updated_at)
VALUES ('', '', '', '', 'viewer', '', '', '', 0, 1, 1)"""
_SESSION = """
INSERT INTO sessions (user_id, token_hash, address, user_agent, created_at, last_seen_at,
    expires_at)
VALUES (1, :key, '', '', 1, :seen_at, :expires_at)"""


async def fill(database: Database) -> None:
    rows = [{"key": b"%d" % number, "seen_at": LATE, "expires_at": LATE} for number in range(MANY)]
    rows[AT_ONCE + 1]["expires_at"] = 1
    async with database.transaction() as tx:
        await tx.run(_USER)
        await tx.run_many(_SESSION, rows)


async def test_rows_are_read_a_few_at_a_time_and_each_once(database: Database) -> None:
    await fill(database)
    batches = [batch async for batch in Sessions(database).batches(1_000)]
    assert [len(batch) for batch in batches] == [AT_ONCE, AT_ONCE]
    ids = [session.id for batch in batches for session in batch]
    assert ids == sorted(ids, reverse=True)
    assert len(set(ids)) == MANY - 1
