"""Open databases of both engines, with this program's tables and without."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from driving import FakeClock
from portico.data.database import Database
from portico.data.migrate import migrate
from portico.data.postgres.engine import PostgresDatabase
from portico.data.sqlite.engine import SqliteDatabase
from servers import PostgresServer
from shared_database import EMPTY


@pytest.fixture(scope="session")
async def migrated(postgres: PostgresServer) -> str:
    """The address of a PostgreSQL database with this program's tables, which takes longer to make
    than to copy."""
    url = postgres.fresh_database()
    database = PostgresDatabase(url, "test")
    await database.open()
    await migrate(database, FakeClock())
    await database.close()
    return url


@pytest.fixture(scope="session")
def reused(postgres: PostgresServer, migrated: str) -> str:
    """The address of a database that is emptied for each test, which is faster than to make one."""
    return postgres.fresh_database(migrated)


@pytest.fixture(params=["sqlite", "postgres"])
def another(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Database]:
    """Makes one more object for the same database: another process has one. `own postgres` is a
    database that no other test uses."""
    if request.param == "sqlite":
        return lambda: SqliteDatabase(tmp_path / "test.db", create=True)
    if request.param == "postgres":
        url = request.getfixturevalue("reused")
    else:
        migrated = request.getfixturevalue("migrated")
        url = request.getfixturevalue("postgres").fresh_database(migrated)
    return lambda: PostgresDatabase(url, "test")


@pytest.fixture
async def database(another: Callable[[], Database]) -> AsyncIterator[Database]:
    """An open database with this program's tables."""
    database = another()
    await database.open()
    if await migrate(database, FakeClock()) == [] and database.engine == "postgres":
        async with database.transaction() as tx:
            await tx.script(EMPTY.replace("portico_%", "test"))
    yield database
    await database.close()


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    """An open SQLite database with one table of numbers."""
    database = SqliteDatabase(tmp_path / "test.db", create=True)
    await database.open()
    async with database.transaction() as tx:
        await tx.script("CREATE TABLE numbers (number INTEGER PRIMARY KEY) STRICT")
    yield database
    await database.close()
