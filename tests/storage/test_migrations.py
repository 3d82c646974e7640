"""Migrations: forward, whole or not at all, by one program at a time."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import apsw
import msgspec
import pytest

from driving import NOON, FakeClock
from portico.data.database import Database
from portico.data.migrate import Migration, MigrationError, migrate, pending, shipped
from portico.data.postgres.engine import PostgresDatabase
from portico.data.sqlite.connection import connect
from portico.data.sqlite.engine import SqliteDatabase

CLOCK = FakeClock()
FIRST = Migration(1, "first", "CREATE TABLE one (a BIGINT); INSERT INTO one VALUES (1);")
SECOND = Migration(2, "second", "CREATE TABLE two (b BIGINT); UPDATE one SET a = a + 1;")
BROKEN = Migration(2, "broken", "UPDATE one SET a = 9; CREATE TABLE three (c BIGINT); SELECT nope;")

IN_BATCHES = """-- in batches
UPDATE one SET a = 7 WHERE b IN (SELECT b FROM one WHERE a = 0 LIMIT 2) RETURNING 1"""
ZEROS = """
ALTER TABLE one ADD COLUMN b BIGINT;
INSERT INTO one VALUES (0, 1), (0, 2), (0, 3), (0, 4);"""

Another = Callable[[], Database]


@pytest.fixture(params=["sqlite", "postgres"])
def another(request: pytest.FixtureRequest, tmp_path: Path) -> Another:
    """Makes one more object for the same, at first empty, database: another process has one."""
    if request.param == "sqlite":
        return lambda: SqliteDatabase(tmp_path / "test.db", create=True)
    url = request.getfixturevalue("postgres").fresh_database()
    return lambda: PostgresDatabase(url, "test")


@pytest.fixture
async def empty(another: Another) -> AsyncIterator[Database]:
    """An open database without any table."""
    database = another()
    await database.open()
    yield database
    await database.close()


async def tables(database: Database) -> set[str]:
    sql = {
        "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table'",
        "postgres": "SELECT relname FROM pg_class WHERE relkind IN ('r', 'p')"
        " AND NOT relispartition AND relnamespace = to_regnamespace(current_schema())",
    }
    return {row[0] for row in await database.all(sql[database.engine])}


async def ledger(database: Database) -> list[tuple[int, str, str, int]]:
    sql = "SELECT number, name, checksum, applied_at FROM schema_migrations ORDER BY number"
    return [(row[0], row[1], row[2], row[3]) for row in await database.all(sql)]


async def value(database: Database) -> int:
    row = await database.one("SELECT a FROM one")
    assert row is not None
    return int(row[0])


async def test_migrations_are_applied_once_in_order_and_recorded(empty: Database) -> None:
    assert await migrate(empty, CLOCK, [FIRST]) == [FIRST]
    for expected in ([SECOND], []):
        assert await migrate(empty, CLOCK, [FIRST, SECOND]) == expected
        assert await value(empty) == 2
    before = await ledger(empty)
    assert before == [(1, "first", FIRST.checksum, NOON), (2, "second", SECOND.checksum, NOON)]
    with pytest.raises(MigrationError, match=r"migration 2 \(second\).*newer"):
        await migrate(empty, CLOCK, [FIRST])
    assert await ledger(empty) == before


async def test_a_broken_migration_leaves_nothing_and_those_before_it_stay(empty: Database) -> None:
    with pytest.raises(Exception, match="nope"):
        await migrate(empty, CLOCK, [FIRST, BROKEN])
    assert await tables(empty) == set()
    await migrate(empty, CLOCK, [FIRST])
    with pytest.raises(Exception, match="nope"):
        await migrate(empty, CLOCK, [FIRST, SECOND, tomorrow(3, BROKEN.sql)])
    assert [row[0] for row in await ledger(empty)] == [1, 2]
    assert await value(empty) == 2
    assert await tables(empty) == {"schema_migrations", "one", "two"}


async def test_a_changed_migration_is_refused_and_left_alone(empty: Database) -> None:
    await migrate(empty, CLOCK, [FIRST])
    changed = msgspec.structs.replace(FIRST, sql=FIRST.sql + " ")
    with pytest.raises(MigrationError, match="another text"):
        await migrate(empty, CLOCK, [changed, SECOND])
    assert await tables(empty) == {"schema_migrations", "one"}


async def test_programs_that_start_at_once_migrate_once(another: Another) -> None:
    databases = [another() for _ in range(4)]
    for database in databases:
        await database.open()
    applied = await asyncio.gather(*(migrate(database, CLOCK) for database in databases))
    everything = shipped(databases[0].engine)
    assert sorted(map(len, applied)) == [0, 0, 0, len(everything)]
    for database in databases:
        assert await pending(database) == []
        await database.close()


def test_what_this_program_carries_is_numbered_and_says_beside_whom_it_can_run() -> None:
    by_engine = [shipped("sqlite"), shipped("postgres")]
    assert [one.name for one in by_engine[0]] == [one.name for one in by_engine[1]]
    for carried in by_engine:
        assert [one.number for one in carried] == list(range(1, len(carried) + 1))
        for one in carried[1:]:
            assert one.compatible_from is not None, one.name
            assert one.compatible_from < one.number


def tomorrow(number: int, sql: str, compatible_from: int | None = None) -> Migration:
    header = "" if compatible_from is None else f"-- compatible from: {compatible_from}\n"
    return Migration(number, f"number_{number}", header + sql)


async def test_a_newer_database_is_taken_by_a_program_that_all_that_is_newer_names(
    empty: Database,
) -> None:
    second = tomorrow(2, SECOND.sql, compatible_from=1)
    third = tomorrow(3, "CREATE TABLE three (c BIGINT);", compatible_from=2)
    fourth = tomorrow(4, "CREATE TABLE four (d BIGINT);", compatible_from=1)
    await migrate(empty, CLOCK, [FIRST, second, third, fourth])
    before = await ledger(empty)
    assert await migrate(empty, CLOCK, [FIRST, second, third]) == []
    assert await migrate(empty, CLOCK, [FIRST, second]) == []
    with pytest.raises(MigrationError, match=r"migration 3 \(number_3\).*cannot run"):
        await migrate(empty, CLOCK, [FIRST])
    assert await ledger(empty) == before


async def test_batches_go_on_where_they_were_left(empty: Database) -> None:
    before = [FIRST, tomorrow(2, ZEROS)]
    await migrate(empty, CLOCK, before)
    batches = tomorrow(3, IN_BATCHES)

    async def stop(_seconds: float) -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await migrate(empty, CLOCK, [*before, batches], stop)
    done = "SELECT count(*) FROM one WHERE a = 7"
    assert [tuple(row) for row in await empty.all(done)] == [(2,)]
    assert [row[0] for row in await ledger(empty)] == [1, 2]
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    assert await migrate(empty, CLOCK, [*before, batches], pause) == [batches]
    assert [tuple(row) for row in await empty.all(done)] == [(4,)]
    assert len(pauses) == 1, "between one batch and none"


async def test_an_empty_database_gets_batches_and_indexes_with_all_else(empty: Database) -> None:
    concurrently = {"sqlite": "", "postgres": "CONCURRENTLY "}[empty.engine]
    index = f"-- concurrently\nCREATE INDEX {concurrently}one_by_a ON one (a);"
    carried = [FIRST, tomorrow(2, ZEROS), tomorrow(3, IN_BATCHES), tomorrow(4, index)]
    assert await migrate(empty, CLOCK, carried) == carried
    assert [row[0] for row in await empty.all("SELECT a FROM one ORDER BY a")] == [1, 7, 7, 7, 7]


def test_sqlite_file_that_another_process_begins_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "test.db"
    other = apsw.Connection(str(file))
    other.execute("CREATE TABLE one (a BIGINT); BEGIN IMMEDIATE").fetchall()
    tries: list[str] = []

    def before_each(_cursor: apsw.Cursor, statement: str, _values: object) -> bool:
        tries.append(statement)
        if len(tries) == 2:
            other.execute("COMMIT").fetchall()
        return True

    def trace(connection: apsw.Connection) -> None:
        connection.exec_trace = before_each

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, trace])
    assert connect(file).execute("PRAGMA journal_mode").get == "wal"
