"""An address that leads to a standby, as a balancer's may until that is promoted: what a standby
cannot do is refused as an outage."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import NamedTuple

import asyncpg
import pytest

from busy_machine import within
from operating import eventually
from portico.core.errors import Unavailable
from portico.data.database import Row
from portico.data.postgres.engine import PostgresDatabase
from portico.data.postgres.replicas import POSITION
from servers import PostgresServer, postgres_server

pytestmark = pytest.mark.xdist_group("standby as database")  # they share their servers

LONG = "SELECT number FROM numbers, pg_sleep(60)"
PROMPT_SECONDS = 9.0
"""Less than a statement may take."""


class Long(NamedTuple):
    """Rows that are long in coming."""

    by_id: str = f"{LONG} WHERE number = :id"
    by_ids: str = f"{LONG} WHERE number = ANY($1)"


@pytest.fixture(scope="module")
def primary() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def standby(primary: PostgresServer) -> Iterator[PostgresServer]:
    with postgres_server(primary=primary) as server:
        yield server


@pytest.fixture
async def writer(primary: PostgresServer) -> AsyncIterator[asyncpg.Connection]:
    """A connection to the primary's database, which has a table with one number."""
    connection = await asyncpg.connect(primary.fresh_database())
    await connection.execute("CREATE TABLE numbers AS SELECT 1 AS number")
    yield connection
    await connection.close()


@pytest.fixture
async def database(
    writer: asyncpg.Connection, standby: PostgresServer
) -> AsyncIterator[PostgresDatabase]:
    """The same database at the standby, which puts off nothing that readers are in the way of."""
    connection = await asyncpg.connect(standby.url)
    await connection.execute("ALTER SYSTEM SET max_standby_streaming_delay = 0")
    await connection.execute("SELECT pg_reload_conf()")
    there = "SELECT count(*) FROM pg_database WHERE datname = $1"
    name = await writer.fetchval("SELECT current_database()")
    await eventually(lambda: connection.fetchval(there, name), "the database")
    await connection.close()
    opened = PostgresDatabase(standby.url.removesuffix("postgres") + name, "public")
    await opened.open()
    is_there = "SELECT 1 WHERE to_regclass('numbers') IS NOT NULL"
    await eventually(lambda: opened.one(is_there), "the table")
    yield opened
    await opened.close()


READS: dict[str, Callable[[PostgresDatabase], Awaitable[object]]] = {
    "a read": lambda database: database.one(LONG),
    "a slow read": lambda database: database.slow.all(LONG),
    "a read of one state": lambda database: database.snapshot(lambda reader: reader.one(LONG)),
    "a read of a row": lambda database: database.row(Long(), 1),
}


@pytest.mark.parametrize("read", READS)
async def test_read_that_is_in_the_way_of_what_a_standby_replays_is_refused(
    database: PostgresDatabase, writer: asyncpg.Connection, read: str
) -> None:
    async def busy() -> Row | None:
        return await database.one("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'")

    reading = asyncio.ensure_future(READS[read](database))
    await eventually(busy, "the read")
    with within(PROMPT_SECONDS):
        await writer.execute("DROP TABLE numbers")
        with pytest.raises(Unavailable) as refusal:
            await reading
    assert refusal.value.message == "The database is busy or unreachable."


async def test_what_only_a_primary_can_do_is_refused_as_a_write_is(
    database: PostgresDatabase,
) -> None:
    async def lock() -> None:
        async with database.transaction() as tx:
            await tx.run("LOCK TABLE numbers IN EXCLUSIVE MODE")

    async def write() -> None:
        async with database.transaction() as tx:
            await tx.run("INSERT INTO numbers VALUES (2)")

    for attempt in (write(), lock(), database.one(POSITION)):
        with pytest.raises(Unavailable) as refusal:
            await attempt
        assert refusal.value.why == "read_only"
