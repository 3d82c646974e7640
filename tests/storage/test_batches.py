"""Rows of PostgreSQL that many ask for at one time: one statement answers them, and none is older
than the question."""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import asyncpg
import pytest

from operating import eventually
from portico.domain.errors import Unavailable
from portico.storage.postgres import POINT_CONNECTIONS, PostgresDatabase
from servers import PostgresServer

LOCK = "SELECT pg_advisory_lock(7)"
UNLOCK = "SELECT pg_advisory_unlock(7)"


class Numbers(NamedTuple):
    """The rows of a table, and which statement found them, once nobody holds the lock."""

    by_id: str = ""
    by_ids: str = """
SELECT number, name, pg_backend_pid() || ' ' || statement_timestamp()
FROM (SELECT pg_advisory_xact_lock_shared(7)) AS waited, numbers WHERE number = ANY($1)"""


NUMBERS = Numbers()


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.fresh_database()


@pytest.fixture
async def other(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Another's connection to the same database, which has a table of a hundred numbers."""
    connection = await asyncpg.connect(url)
    await connection.execute(
        "CREATE TABLE numbers AS"
        " SELECT number, 'first' AS name FROM generate_series(1, 100) AS number"
    )
    yield connection
    await connection.close()


@pytest.fixture
async def database(url: str, other: asyncpg.Connection) -> AsyncIterator[PostgresDatabase]:  # noqa: ARG001 - which makes the table
    database = PostgresDatabase(url, "public")
    await database.open()
    yield database
    await database.close()


async def waiting(other: asyncpg.Connection, count: int) -> None:
    """Until so many statements wait for the lock."""
    sql = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"

    async def wait() -> bool:
        return bool(await other.fetchval(sql) == count)

    await eventually(wait, "statements that wait")


async def test_those_who_ask_at_one_time_are_answered_by_one_statement(
    database: PostgresDatabase,
) -> None:
    asked = [*range(90, 111), 90]
    rows = await asyncio.gather(*(database.row(NUMBERS, number) for number in asked))
    assert [row and row[0] for row in rows] == [*range(90, 101), *[None] * 10, 90]
    assert len({row[2] for row in rows if row}) == 1


async def test_who_asks_while_others_wait_is_told_what_was_stored_since(
    database: PostgresDatabase, other: asyncpg.Connection
) -> None:
    await other.execute(LOCK)
    first = asyncio.create_task(database.row(NUMBERS, 1))
    await waiting(other, 1)
    await other.execute("UPDATE numbers SET name = 'second'")
    second = asyncio.create_task(database.row(NUMBERS, 1))
    await waiting(other, 2)
    await other.execute(UNLOCK)
    rows = await asyncio.gather(first, second)
    assert [row[1] for row in rows if row] == ["first", "second"]


async def test_where_no_connection_is_free_all_who_wait_are_answered_together(
    database: PostgresDatabase, other: asyncpg.Connection
) -> None:
    await other.execute(LOCK)
    early = []
    for number in range(POINT_CONNECTIONS):
        early.append(asyncio.create_task(database.row(NUMBERS, number)))
        await waiting(other, number + 1)
    late = [asyncio.create_task(database.row(NUMBERS, 50))]
    await eventually(lambda: database.pools()["point"].waiting == 1, "one that waits")
    late += [asyncio.create_task(database.row(NUMBERS, number)) for number in (51, 52)]
    await other.execute(UNLOCK)
    rows = await asyncio.gather(*late)
    assert len({row[2] for row in rows if row}) == 1
    await asyncio.gather(*early)


async def test_who_goes_away_takes_nobody_along(
    database: PostgresDatabase, other: asyncpg.Connection
) -> None:
    await other.execute(LOCK)
    tasks = [asyncio.create_task(database.row(NUMBERS, number)) for number in (1, 1, 2)]
    await waiting(other, 1)
    tasks[0].cancel()
    await other.execute(UNLOCK)
    rows = await asyncio.gather(*tasks[1:])
    assert [row and row[0] for row in rows] == [1, 2]
    with pytest.raises(asyncio.CancelledError):
        await tasks[0]


async def test_where_the_connection_is_lost_all_are_told_and_the_next_are_answered(
    database: PostgresDatabase, other: asyncpg.Connection
) -> None:
    await other.execute(LOCK)
    tasks = [asyncio.create_task(database.row(NUMBERS, number)) for number in (1, 2)]
    await waiting(other, 1)
    await other.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    )
    await other.execute(UNLOCK)
    told = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in told] == [Unavailable] * 2
    row = await database.row(NUMBERS, 1)
    assert row is not None
    assert row[1] == "first"
