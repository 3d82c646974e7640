"""Statements of PostgreSQL that wait for somebody."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

from operating import eventually
from portico.data.postgres.engine import PostgresDatabase

LOCK = "SELECT pg_advisory_lock(7)"
UNLOCK = "SELECT pg_advisory_unlock(7)"
WAITED = "(SELECT pg_advisory_xact_lock_shared(7)) AS waited"
"""What a statement reads from that is to wait while somebody has the lock."""

STATEMENT = "pg_backend_pid() || ' ' || statement_timestamp()"
"""Another value for each statement."""

_WAITING = "SELECT {} FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


async def waiting(other: asyncpg.Connection, count: int) -> None:
    """Until so many statements wait for the lock."""

    async def wait() -> bool:
        return bool(await other.fetchval(_WAITING.format("count(*)")) == count)

    await eventually(wait, "statements that wait")


async def end_those_who_wait(other: asyncpg.Connection) -> None:
    """Ends the connections of statements that wait for the lock, and gives it back."""
    await other.execute(_WAITING.format("pg_terminate_backend(pid)"))
    await other.execute(UNLOCK)


@asynccontextmanager
async def another(url: str, *statements: str) -> AsyncIterator[asyncpg.Connection]:
    """Somebody else's connection, which has run these."""
    connection = await asyncpg.connect(url)
    for statement in statements:
        await connection.execute(statement)
    yield connection
    await connection.close()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresDatabase]:
    """An open database of another's tables."""
    database = PostgresDatabase(url, "public")
    await database.open()
    yield database
    await database.close()
