"""Databases of both engines, empty."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from driving import FakeClock
from portico.storage.database import Database
from portico.storage.migrate import migrate
from portico.storage.postgres import PostgresDatabase
from portico.storage.sqlite import SqliteDatabase


@pytest.fixture(params=["sqlite", "postgres"])
def another(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Database]:
    """Makes one more object for the same, at first empty, database: another process has one."""
    if request.param == "sqlite":
        return lambda: SqliteDatabase(tmp_path / "test.db")
    url = request.getfixturevalue("postgres").fresh_database()
    return lambda: PostgresDatabase(url, "test")


@pytest.fixture
async def database(another: Callable[[], Database]) -> AsyncIterator[Database]:
    """An open database with this program's tables."""
    database = another()
    await database.open()
    await migrate(database, FakeClock())
    yield database
    await database.close()


@pytest.fixture
async def sqlite(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    """An open SQLite database with one table of numbers."""
    database = SqliteDatabase(tmp_path / "test.db")
    await database.open()
    async with database.transaction() as tx:
        await tx.script("CREATE TABLE numbers (number INTEGER PRIMARY KEY) STRICT")
    yield database
    await database.close()
