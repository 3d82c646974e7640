"""What was counted or cached of a PostgreSQL database is not told of another state of it, which
takes its place: that may have been changed as often since, and otherwise."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from decimal import Decimal
from functools import partial

import pytest

from driving import FakeClock
from operating import eventually
from portico.core.errors import Unavailable
from portico.data.database import Dependency
from portico.data.migrate import migrate
from portico.data.postgres.engine import PostgresDatabase
from portico.features.catalogue.products import PRODUCTS
from portico.features.catalogue.storage import Products
from servers import PostgresServer, postgres_server
from storage.lamp import LAMP

CHEAP = partial(PRODUCTS.query, min_price=Decimal(0), max_price=Decimal("0.0009"))
OTHERWISE = """
SET LOCAL session_replication_role = replica;
DELETE FROM product_words;
DELETE FROM products"""
"""Nothing tells of it, as if it had been so at this version."""

RESTORED = """
CREATE TABLE restored (LIKE list_counts INCLUDING ALL);
INSERT INTO restored SELECT * FROM list_counts;
DROP TABLE list_counts;
ALTER TABLE restored RENAME TO list_counts"""

NOTICES_RESTORED = RESTORED.replace("list_counts", "notices")
ANN: Dependency = ("users", 1)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One that is started anew."""
    with postgres_server() as server:
        yield server


@pytest.fixture
async def database(server: PostgresServer) -> AsyncIterator[PostgresDatabase]:
    """One with this program's tables."""
    database = PostgresDatabase(server.fresh_database(), "test")
    await database.open()
    await migrate(database, FakeClock())
    yield database
    await database.close()


async def restore(database: PostgresDatabase, _server: PostgresServer) -> None:
    async with database.transaction() as tx:
        await tx.script(OTHERWISE)
        await tx.script(RESTORED)


async def fail_over(database: PostgresDatabase, server: PostgresServer) -> None:
    await asyncio.to_thread(server.stop, signal.SIGINT)
    await asyncio.to_thread(server.start)

    async def changed() -> bool:
        with suppress(Unavailable):
            async with database.transaction() as tx:
                await tx.script(OTHERWISE)
            return True
        return False

    await eventually(changed, "a change on the successor")


Replace = Callable[[PostgresDatabase, PostgresServer], Awaitable[None]]


@pytest.mark.parametrize(
    ("replace", "count_limit", "search"), [(restore, None, ""), (fail_over, 1_000, "lamp")]
)
async def test_a_total_is_not_that_of_another_state_with_as_many_changes(
    database: PostgresDatabase,
    server: PostgresServer,
    replace: Replace,
    count_limit: int | None,
    search: str,
) -> None:
    products = Products(database, count_limit)
    async with database.transaction() as tx:
        await products.insert(tx, LAMP)

    async def total() -> int:
        return (await products.listed(CHEAP(search=search), 0, None)).total

    assert await total() == 1
    await replace(database, server)
    assert await total() == 0


@asynccontextmanager
async def opened(database: PostgresDatabase) -> AsyncIterator[None]:
    await database.open()
    try:
        yield
    finally:
        await database.close()


async def test_nothing_read_of_a_database_holds_once_another_was_restored_in_its_place(
    server: PostgresServer,
) -> None:
    """Both have announced as many changes, so their number does not tell them apart."""
    url = server.fresh_database()
    database, restoring = PostgresDatabase(url, "test"), PostgresDatabase(url, "test")
    async with opened(database), opened(restoring):
        await migrate(database, FakeClock())
        await eventually(database.listening, "notifications")
        before = database.version(ANN)
        assert database.version(ANN) == before
        async with restoring.transaction() as tx:
            await tx.script(NOTICES_RESTORED)
        await eventually(lambda: database.version(ANN) != before, "another version")
        await eventually(database.listening, "notifications again")
        after = database.version(ANN)
        assert database.version(ANN) == after
