"""On PostgreSQL the audit log is in ranges of ids, each of which goes at once."""

import pytest

from portico.core.audit import OPERATOR
from portico.data.database import Database
from portico.features.events.audit import RANGE, Audit, AuditRanges
from portico.features.signin.rules import SignInRefused

POSTGRES = pytest.mark.parametrize("another", ["own postgres"], indirect=True)

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


@POSTGRES
async def test_whoever_may_read_the_log_may_read_the_ranges_that_are_made(
    database: Database,
) -> None:
    async with database.transaction() as tx:
        await tx.script('CREATE ROLE "A reader"; GRANT USAGE ON SCHEMA test TO "A reader"')
        await tx.script('GRANT SELECT ON audit TO "A reader" WITH GRANT OPTION')
        await tx.script("GRANT INSERT, DELETE ON audit TO PUBLIC")
        await tx.script('GRANT UPDATE (at, "action") ON audit TO "A reader"')
    rights = await names(database, _RIGHTS.format("audit"))
    assert len(rights) == 5
    await go_on_after(database, 70 * RANGE)
    assert await make(database) == [70, 71, 72]
    assert await names(database, _RIGHTS.format("audit_70")) == rights
    async with database.transaction() as tx:
        await tx.script('DROP OWNED BY "A reader"; DROP ROLE "A reader"')


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
