"""On PostgreSQL the audit log is in ranges of ids, each of which goes at once."""

import pytest

from driving import FakeClock
from portico.domain.audit import OPERATOR
from portico.domain.events.signing_in import SignInRefused
from portico.storage.audit import Audit
from portico.storage.audit_ranges import RANGE, AuditRanges
from portico.storage.database import Database
from portico.storage.migrate import migrate, shipped
from portico.storage.postgres import PostgresDatabase
from servers import PostgresServer

POSTGRES = pytest.mark.parametrize("another", ["postgres"], indirect=True)
CLOCK = FakeClock()
BEFORE_RANGES = 38
"""The last migration whose log is one table."""

_PARTITIONS = """
SELECT CAST(inhrelid::regclass AS TEXT) FROM pg_inherits
WHERE inhparent = 'audit'::regclass ORDER BY 1"""
_GO_ON = "SELECT setval(pg_get_serial_sequence('audit', 'id'), :after)"
_RIGHTS = """
SELECT 'all ' || CAST(acl AS TEXT) FROM pg_class, unnest(relacl) AS acl
WHERE oid = CAST('{0}' AS regclass)
UNION ALL
SELECT attname || ' ' || CAST(acl AS TEXT) FROM pg_attribute, unnest(attacl) AS acl
WHERE attrelid = CAST('{0}' AS regclass) ORDER BY 1"""
_STANDS_IN = "SELECT CAST(tableoid::regclass AS TEXT) FROM audit ORDER BY id"


async def names(database: Database, sql: str = _PARTITIONS) -> list[str]:
    return [row[0] for row in await database.all(sql)]


async def go_on_after(database: Database, number: int) -> None:
    """The next entry's id is the one after this."""
    async with database.transaction() as tx:
        await tx.all(_GO_ON, {"after": number})


async def note(database: Database, count: int = 1) -> None:
    """Writes entries, of the times 1, 2, …"""
    for at in range(1, count + 1):
        async with database.transaction() as tx:
            await Audit(database).record(tx, OPERATOR.actor, at, SignInRefused(None))


async def ids(database: Database) -> list[int]:
    return sorted(entry.id for entry in await Audit(database).page(limit=99))


async def make(database: Database) -> list[int]:
    """Makes the ranges that are missing, and tells which."""
    ranges = AuditRanges(database)
    missing = await ranges.missing()
    for number in missing:
        async with database.transaction() as tx:
            await ranges.make(tx, number)
    return missing


async def release(database: Database, up_to: int) -> None:
    async with database.transaction() as tx:
        await Audit(database).release(tx, up_to)


async def refuses_changes(database: Database, table: str) -> None:
    """Nothing that is sent to a table changes or removes what it has."""
    before = await Audit(database).page(limit=99)
    for sql in ("UPDATE {} SET at = 9", "DELETE FROM {}", "TRUNCATE {}"):
        with pytest.raises(Exception, match="append-only"):
            async with database.transaction() as tx:
                await tx.run(sql.format(table))
    assert await Audit(database).page(limit=99) == before


@pytest.mark.parametrize(("last", "first"), [(9, "audit_65"), (RANGE + 7, "audit_66")])
async def test_the_log_of_an_older_release_becomes_the_first_range(
    postgres: PostgresServer, last: int, first: str
) -> None:
    url = postgres.fresh_database()
    older, newer = PostgresDatabase(url, "test"), PostgresDatabase(url, "test")
    await older.open()
    await newer.open()
    await migrate(older, CLOCK, shipped("postgres")[:BEFORE_RANGES])
    await go_on_after(older, last - 3)
    await note(older, 3)
    before = await Audit(older).page(limit=9)
    assert [entry.id for entry in before] == [last, last - 1, last - 2]

    await migrate(newer, CLOCK)
    assert await Audit(newer).page(limit=9) == before
    assert await Audit(older).page(limit=9) == before
    await note(older)  # by statements that it has prepared before
    await note(newer)
    assert await ids(newer) == list(range(last - 2, last + 3))
    assert await names(newer) == [first, "audit_rest"]
    assert await AuditRanges(newer).missing() == []
    assert set(await names(newer, _STANDS_IN)) == {first}
    for table in ("audit", first):
        await refuses_changes(newer, table)
    of_table = "SELECT indexname FROM pg_indexes WHERE tablename = '{}' ORDER BY 1"
    indices = [f"audit_by_{by}" for by in ("action", "target", "time", "user", "user_action")]
    assert await names(newer, of_table.format("audit")) == [*indices, "audit_pkey"]
    its_own = [name.replace("audit", first) for name in (*indices, "audit_pkey")]
    assert await names(newer, of_table.format(first)) == its_own
    await older.close()
    await newer.close()


async def test_whoever_could_read_the_log_of_an_older_release_still_can(
    postgres: PostgresServer,
) -> None:
    database = PostgresDatabase(postgres.fresh_database(), "test")
    await database.open()
    await migrate(database, CLOCK, shipped("postgres")[:BEFORE_RANGES])
    async with database.transaction() as tx:
        await tx.script('CREATE ROLE "A reader"; GRANT USAGE ON SCHEMA test TO "A reader"')
        await tx.script('GRANT SELECT ON audit TO "A reader" WITH GRANT OPTION')
        await tx.script("GRANT INSERT, DELETE ON audit TO PUBLIC")
        await tx.script('GRANT UPDATE (at, "action") ON audit TO "A reader"')
    before = await names(database, _RIGHTS.format("audit"))
    assert len(before) == 5
    await migrate(database, CLOCK)
    await go_on_after(database, 70 * RANGE)
    assert await make(database) == [70, 71, 72]
    for table in ("audit", "audit_rest", "audit_1", "audit_70"):
        assert await names(database, _RIGHTS.format(table)) == before, table
    async with database.transaction() as tx:
        await tx.script('DROP OWNED BY "A reader"; DROP ROLE "A reader"')
    await database.close()


async def test_a_log_without_entries_goes_on_where_it_was(postgres: PostgresServer) -> None:
    database = PostgresDatabase(postgres.fresh_database(), "test")
    await database.open()
    await migrate(database, CLOCK, shipped("postgres")[:BEFORE_RANGES])
    await note(database, 2)
    await release(database, 2)
    async with database.transaction() as tx:
        await Audit(database).remove(tx, 0, 2)
    await migrate(database, CLOCK)
    await note(database)
    assert await ids(database) == [3]
    await database.close()


@POSTGRES
async def test_ranges_are_made_before_entries_come(database: Database) -> None:
    await note(database)
    assert await make(database) == [2]
    assert await make(database) == []
    await go_on_after(database, 2 * RANGE - 2)
    assert await make(database) == [3]
    await note(database, 3)
    assert await names(database, _STANDS_IN) == ["audit_1", "audit_1", "audit_2", "audit_2"]
    for table in ("audit", "audit_2"):
        await refuses_changes(database, table)
    assert [entry.at for entry in await Audit(database).page(limit=9)] == [3, 2, 1, 1]


@POSTGRES
async def test_what_comes_where_no_range_was_made_stands_in_the_rest(database: Database) -> None:
    await go_on_after(database, 70 * RANGE)
    await note(database, 2)
    assert await names(database, _STANDS_IN) == ["audit_rest"] * 2
    await refuses_changes(database, "audit_rest")
    assert await make(database) == [71, 72], "not that to which they belong"
    await go_on_after(database, 71 * RANGE)
    await note(database)
    assert await names(database, _STANDS_IN) == ["audit_rest", "audit_rest", "audit_71"]


@POSTGRES
async def test_where_numbers_were_left_out_the_present_range_is_made_too(
    database: Database,
) -> None:
    await note(database)
    await go_on_after(database, 71 * RANGE - 5)
    assert await make(database) == [70, 71, 72]
    await note(database)
    assert await names(database, _STANDS_IN) == ["audit_1", "audit_70"]


@POSTGRES
async def test_a_range_goes_once_all_of_it_is_released(database: Database) -> None:
    ranges = AuditRanges(database)
    await make(database)
    await go_on_after(database, 2 * RANGE - 3)
    await make(database)
    await note(database, 4)
    assert await ranges.released() == []
    await release(database, 2 * RANGE - 2)
    assert await ranges.released() == []
    await release(database, 2 * RANGE - 1)
    assert await ranges.released() == [1]
    async with database.transaction() as tx:
        await ranges.drop(tx, 1)
    assert await names(database) == ["audit_2", "audit_3", "audit_rest"]
    assert await ids(database) == [2 * RANGE, 2 * RANGE + 1]
    assert await ranges.released() == []


@pytest.mark.parametrize("another", ["sqlite"], indirect=True)
async def test_sqlite_has_none(database: Database) -> None:
    assert await AuditRanges(database).missing() == []
    assert await AuditRanges(database).released() == []
