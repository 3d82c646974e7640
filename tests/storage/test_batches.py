"""Rows of PostgreSQL that many ask for at one time: one statement answers them, and none is older
than the question."""

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import asyncpg
import pytest

from portico.core.errors import Unavailable
from portico.data.postgres.engine import PostgresDatabase
from servers import PostgresServer
from storage.held import (
    LOCK,
    STATEMENT,
    UNLOCK,
    WAITED,
    another,
    end_those_who_wait,
    opened,
    waiting,
)


class Numbers(NamedTuple):
    """The rows of a table, and which statement found them, once nobody holds the lock."""

    by_id: str = ""
    by_ids: str = f"SELECT number, name, {STATEMENT} FROM {WAITED}, numbers WHERE number = ANY($1)"  # noqa: S608 - constants


NUMBERS = Numbers()


@pytest.fixture(scope="module")
def url(postgres: PostgresServer) -> str:
    return postgres.fresh_database()


@pytest.fixture
async def other(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Another's connection to the same database, which has a table of a hundred numbers."""
    table = "SELECT number, 'first' AS name FROM generate_series(1, 100) AS number"
    made = f"DROP TABLE IF EXISTS numbers; CREATE TABLE numbers AS {table}"
    async with another(url, made) as connection:
        yield connection


@pytest.fixture
async def database(url: str, other: asyncpg.Connection) -> AsyncIterator[PostgresDatabase]:  # noqa: ARG001 - which makes the table
    async with opened(url) as database:
        yield database


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
    await end_those_who_wait(other)
    told = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(one) for one in told] == [Unavailable] * 2
    row = await database.row(NUMBERS, 1)
    assert row is not None
    assert row[1] == "first"
