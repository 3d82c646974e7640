"""Versions of parts of the data: what was read under one holds for as long as it stays."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from busy_machine import leave_versions_time
from portico.data.database import Database, Dependency, PartVersions, Transaction, Undo, Version
from portico.data.postgres.engine import PostgresDatabase
from portico.data.sqlite.engine import SqliteDatabase
from portico.features.catalogue.products import list_part
from portico.features.catalogue.rules import STATUSES, Product
from portico.features.catalogue.storage import Products
from servers import PostgresServer
from storage.lamp import LAMP

ONE: Dependency = (1,)
OTHER: Dependency = (2,)
ADD = "INSERT INTO numbers VALUES (:number)"
COUNT = "SELECT count(*) FROM numbers"


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_versions_time(monkeypatch)


@pytest.fixture
async def foreign(tmp_path: Path) -> AsyncIterator[SqliteDatabase]:
    """The same file, as another process has it open."""
    database = SqliteDatabase(tmp_path / "test.db")
    await database.open()
    yield database
    await database.close()


async def add(database: SqliteDatabase, number: int, *touched: Dependency) -> None:
    async with database.transaction() as tx:
        tx.invalidate(*touched)
        await tx.run(ADD, {"number": number})


async def versions(database: Database) -> tuple[Version | None, Version | None]:
    return await database.version_of(ONE), await database.version_of(OTHER)


async def test_a_commit_moves_the_versions_of_what_it_touched_alone(
    sqlite: SqliteDatabase,
) -> None:
    before = await versions(sqlite)
    await add(sqlite, 1, ONE)
    after = await versions(sqlite)
    assert after[0] != before[0]
    assert after[1] == before[1]
    await add(sqlite, 2)  # bookkeeping
    with suppress(Undo):
        async with sqlite.transaction() as tx:
            tx.invalidate(ONE)
            await tx.run(ADD, {"number": 3})
            raise Undo
    assert await versions(sqlite) == after
    async with sqlite.transaction() as tx:
        await tx.script("DELETE FROM numbers")  # which names nothing
    assert all(a != b for a, b in zip(await versions(sqlite), after, strict=True))


@pytest.mark.parametrize("order", ["own, foreign", "foreign, own", "own, foreign, own"])
async def test_a_commit_of_another_process_is_told_from_those_beside_it(
    sqlite: SqliteDatabase, foreign: SqliteDatabase, order: str
) -> None:
    before = await versions(sqlite)
    for number, whose in enumerate(order.split(", ")):
        await add(sqlite if whose == "own" else foreign, number)
    after = await versions(sqlite)
    assert all(a != b for a, b in zip(after, before, strict=True))


async def test_what_a_batch_reads_is_not_older_than_the_version_it_is_told(
    sqlite: SqliteDatabase, foreign: SqliteDatabase
) -> None:
    """Another process commits while this one asks which parts have moved."""
    beside = foreign._writer  # noqa: SLF001 - another process does not wait for a turn of this one
    beside.execute(ADD, {"number": 1}).fetchall()
    sqlite.version()
    beside.execute(ADD, {"number": 2}).fetchall()
    told, read = await sqlite.version_of(ONE), await sqlite.one(COUNT)
    await asyncio.sleep(0)
    assert (read == (2,)) or await sqlite.version_of(ONE) != told


LISTS = {
    f"{status} {category}": list_part(status, category)
    for status in STATUSES
    for category in ("light", "chairs", None)
}

Write = Callable[[Products, Transaction, Sequence[Product]], Awaitable[object]]

ACTIVE = "active light, active None"
WRITES: dict[str, tuple[Write, str]] = {
    "insert": (lambda products, tx, _: products.insert(tx, LAMP), ACTIVE),
    "insert many": (
        lambda products, tx, _: products.insert_many(
            tx, [LAMP, replace(LAMP, category="chairs", status="draft")]
        ),
        f"{ACTIVE}, draft chairs, draft None",
    ),
    "update": (
        lambda products, tx, made: products.update(tx, made[0], replace(made[0], price=2)),
        ACTIVE,
    ),
    "update to another status": (
        lambda products, tx, made: products.update(
            tx, made[0], replace(made[0], status="archived")
        ),
        f"{ACTIVE}, archived light, archived None",
    ),
    "update many": (
        lambda products, tx, made: products.update_many(
            tx,
            [(made[0], replace(made[0], category="chairs")), (made[1], replace(made[1], price=2))],
        ),
        f"{ACTIVE}, active chairs",
    ),
    "delete": (lambda products, tx, made: products.delete(tx, made[1]), ACTIVE),
    "delete all": (lambda products, tx, _: products.delete_all(tx), ", ".join(LISTS)),
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_touches_the_lists_that_can_show_the_products(
    database: Database, write: str
) -> None:
    products = Products(database)
    async with database.transaction() as tx:
        made = [await products.insert(tx, LAMP) for _ in range(2)]
    before = {name: await database.version_of(part) for name, part in LISTS.items()}
    work, names = WRITES[write]
    touched = {*names.split(", ")}
    async with database.transaction() as tx:
        await work(products, tx, made)
    after = {name: await database.version_of(part) for name, part in LISTS.items()}
    moved = {name for name in LISTS if after[name] != before[name]}
    if database.engine == "postgres":  # they are told by their status
        keys = {name.partition(" ")[0] for name in touched}
        assert {name.partition(" ")[0] for name in moved} <= keys
        assert moved >= {name for name in touched if before[name] is not None}
    else:
        alike = PartVersions()  # what shares a place with one of them moves too
        alike.invalidate(*(LISTS[name] for name in touched))
        alike.move()
        assert moved == {name for name, part in LISTS.items() if alike.of(part)} >= touched


async def test_a_list_of_a_copied_database_has_another_version(
    postgres: PostgresServer, migrated: str
) -> None:
    """The copy may take the place and the name of the other."""
    versions: list[Version | None] = []
    url = postgres.fresh_database(migrated)
    database = PostgresDatabase(url, "test")
    await database.open()
    async with database.transaction() as tx:
        await Products(database).insert(tx, LAMP)
    versions.append(await database.version_of(list_part("active", None)))
    await database.close()
    database = PostgresDatabase(postgres.fresh_database(url), "test")
    await database.open()
    versions.append(await database.version_of(list_part("active", None)))
    await database.close()
    assert None not in versions
    assert versions[0] != versions[1]
