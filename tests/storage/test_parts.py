"""Versions of parts of the data: what was read under one holds for as long as it stays."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from busy_machine import leave_versions_time
from portico.data.database import Database, Part, PartVersions, Transaction, Undo, Version
from portico.data.postgres.engine import PostgresDatabase
from portico.data.sqlite.connection import connect
from portico.data.sqlite.engine import SqliteDatabase
from portico.features.catalogue.rules import STATUSES, Product
from portico.features.catalogue.storage import Products, list_part
from servers import PostgresServer
from storage.lamp import LAMP

ONE: Part = (1,)
OTHER: Part = (2,)
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


async def add(database: SqliteDatabase, number: int, *touched: Part) -> None:
    async with database.transaction() as tx:
        tx.touch(*touched)
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
    assert await versions(sqlite) == after


async def test_no_version_comes_again(sqlite: SqliteDatabase, foreign: SqliteDatabase) -> None:
    seen = set()
    for number in range(20):
        await add(foreign if number % 3 else sqlite, number, ONE)
        seen.add(await sqlite.version_of(ONE))
    assert len(seen) == 20


async def test_a_commit_of_another_process_moves_all(
    sqlite: SqliteDatabase, foreign: SqliteDatabase
) -> None:
    before = await versions(sqlite)
    await add(foreign, 1)
    after = await versions(sqlite)
    assert all(a != b for a, b in zip(after, before, strict=True))
    assert await versions(sqlite) == after


@pytest.mark.parametrize("order", ["own, foreign", "foreign, own", "own, foreign, own"])
async def test_a_commit_of_another_process_is_told_from_those_beside_it(
    sqlite: SqliteDatabase, foreign: SqliteDatabase, order: str
) -> None:
    before = await versions(sqlite)
    for number, whose in enumerate(order.split(", ")):
        await add(sqlite if whose == "own" else foreign, number)
    after = await versions(sqlite)
    assert all(a != b for a, b in zip(after, before, strict=True))


async def test_a_commit_of_another_process_is_told_while_a_transaction_gathers(
    sqlite: SqliteDatabase, foreign: SqliteDatabase
) -> None:
    before = await versions(sqlite)
    await add(foreign, 1)
    async with sqlite.transaction() as tx:
        await tx.run(ADD, {"number": 2})
        during = await versions(sqlite)
        assert all(a != b for a, b in zip(during, before, strict=True))
    assert await versions(sqlite) == during


async def test_what_is_undone_moves_none(sqlite: SqliteDatabase) -> None:
    before = await versions(sqlite)
    with suppress(Undo):
        async with sqlite.transaction() as tx:
            await tx.run(ADD, {"number": 1})
            raise Undo
    await add(sqlite, 2)
    assert await versions(sqlite) == before


async def test_statements_without_names_move_all(sqlite: SqliteDatabase) -> None:
    before = await versions(sqlite)
    async with sqlite.transaction() as tx:
        await tx.script("DELETE FROM numbers")
    assert all(a != b for a, b in zip(await versions(sqlite), before, strict=True))


class Committer(Executor):
    """Does what it is given at once, unless it waits, and says so as soon as it is let."""

    def __init__(self) -> None:
        self.done: Future[Any] = Future()
        self._given: list[Callable[[], Any]] | None = None

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `Executor`."""
        if self._given is None:
            work(*args, **kwargs)
        else:
            self._given.append(partial(work, *args, **kwargs))
        return self.done

    def waits(self) -> None:
        """Has what it is given from now on wait, and says so only when that is done."""
        self.done, self._given = Future(), []

    def works(self) -> None:
        """Does what waits."""
        assert self._given, "nothing waits"
        for work in self._given:
            work()
        self.done.set_result(None)


@pytest.fixture
def committer(sqlite: SqliteDatabase) -> Iterator[Committer]:
    """It commits in the place of the database's own."""
    own, committer = sqlite._committer, Committer()  # noqa: SLF001 - its place is taken
    sqlite._committer = committer  # type: ignore[assignment]  # noqa: SLF001 - the same
    yield committer
    sqlite._committer = own  # noqa: SLF001 - the same


async def _until_seen(sqlite: SqliteDatabase, path: Path) -> None:
    """Waits until others see a number; until then no version moves."""
    before = await versions(sqlite)
    beside = connect(path)
    async with asyncio.timeout(20):
        while not beside.execute("SELECT count(*) FROM numbers").get:
            assert await versions(sqlite) == before
            await asyncio.sleep(0)
    beside.close()
    await asyncio.sleep(0)


async def test_nothing_is_told_between_a_commit_and_its_end(
    sqlite: SqliteDatabase, foreign: SqliteDatabase, committer: Committer, tmp_path: Path
) -> None:
    """Another process may have committed since then, and no look could tell."""
    before = await versions(sqlite)
    storing = asyncio.ensure_future(add(sqlite, 1, ONE))
    await _until_seen(sqlite, tmp_path / "test.db")
    assert await versions(sqlite) == (None, None)
    await add(foreign, 2)
    assert await versions(sqlite) == (None, None)
    committer.done.set_result(None)
    await storing
    after = await versions(sqlite)
    assert None not in after
    assert all(a != b for a, b in zip(after, before, strict=True))


async def test_a_commit_that_ended_is_told_before_whoever_made_it_hears_of_it(
    sqlite: SqliteDatabase, committer: Committer, tmp_path: Path
) -> None:
    before = await versions(sqlite)
    storing = asyncio.ensure_future(add(sqlite, 1, ONE))
    await _until_seen(sqlite, tmp_path / "test.db")
    committer.done.set_result(None)
    assert not storing.done()
    after = await versions(sqlite)
    assert after[0] not in (None, before[0])
    assert after[1] == before[1]
    await storing
    assert await versions(sqlite) == after


async def test_point_reads_of_a_batch_see_one_state(
    sqlite: SqliteDatabase, foreign: SqliteDatabase
) -> None:
    sqlite.version()
    beside = foreign._writer  # noqa: SLF001 - another process does not wait for a turn of this one
    beside.execute(ADD, {"number": 1}).fetchall()
    assert await sqlite.one(COUNT) == (0,)
    await asyncio.sleep(0)
    assert await sqlite.one(COUNT) == (1,)


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


@pytest.mark.parametrize("moment", ["begins", "ends"])
async def test_what_is_read_as_a_commit_is_made_is_not_older_than_the_version_it_is_told(
    sqlite: SqliteDatabase, committer: Committer, moment: str
) -> None:
    """The disk is quicker than a turn of the event loop."""
    committer.done.set_result(None)
    await sqlite.version_of(ONE)
    await add(sqlite, 1, ONE)
    if moment == "ends":
        committer.waits()
    told: list[tuple[Version | None, Any]] = []

    async def before() -> None:
        for _ in range(4):
            sqlite.version()
            await asyncio.sleep(0)

    async def behind() -> None:
        for turn in range(4):
            await asyncio.sleep(0)
            if moment == "ends" and turn == 2:
                committer.works()
            if moment == "begins" or turn >= 2:
                told.append((await sqlite.version_of(ONE), await sqlite.one(COUNT)))

    async with asyncio.timeout(20):
        await asyncio.gather(before(), add(sqlite, 2, ONE), behind())
    await asyncio.sleep(0)
    now = await sqlite.version_of(ONE)
    assert [read for version, read in told if version == now and read != (2,)] == []


LISTS = {
    f"{status} {category}": list_part(status, category)
    for status in STATUSES
    for category in ("light", "chairs", None)
}

Write = Callable[[Products, Transaction, Sequence[Product]], Awaitable[object]]

WRITES: dict[str, tuple[Write, set[str]]] = {
    "insert": (
        lambda products, tx, _: products.insert(tx, LAMP),
        {"active light", "active None"},
    ),
    "insert many": (
        lambda products, tx, _: products.insert_many(
            tx, [LAMP, replace(LAMP, category="chairs", status="draft")]
        ),
        {"active light", "active None", "draft chairs", "draft None"},
    ),
    "update": (
        lambda products, tx, made: products.update(tx, made[0], replace(made[0], price=2)),
        {"active light", "active None"},
    ),
    "update to another status": (
        lambda products, tx, made: products.update(
            tx, made[0], replace(made[0], status="archived")
        ),
        {"active light", "active None", "archived light", "archived None"},
    ),
    "update many": (
        lambda products, tx, made: products.update_many(
            tx,
            [(made[0], replace(made[0], category="chairs")), (made[1], replace(made[1], price=2))],
        ),
        {"active light", "active chairs", "active None"},
    ),
    "delete": (
        lambda products, tx, made: products.delete(tx, made[1]),
        {"active light", "active None"},
    ),
    "delete all": (
        lambda products, tx, _: products.delete_all(tx),
        {*LISTS},
    ),
}


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_touches_the_lists_that_can_show_the_products(
    database: Database, write: str
) -> None:
    products = Products(database)
    async with database.transaction() as tx:
        made = [await products.insert(tx, LAMP) for _ in range(2)]
    before = {name: await database.version_of(part) for name, part in LISTS.items()}
    work, touched = WRITES[write]
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
        alike.touch(*(LISTS[name] for name in touched))
        alike.move()
        assert moved == {name for name, part in LISTS.items() if alike.of(part)} >= touched


async def test_a_list_that_was_restored_has_another_version(
    postgres: PostgresServer, migrated: str
) -> None:
    """It may have been changed as often since, and otherwise."""
    database = PostgresDatabase(postgres.fresh_database(migrated), "test")
    await database.open()
    products, part = Products(database), list_part("active", None)
    async with database.transaction() as tx:
        await products.insert(tx, LAMP)
    before = await database.version_of(part)
    async with database.transaction() as tx:
        await tx.script("""
            CREATE TABLE restored (LIKE list_counts INCLUDING ALL);
            INSERT INTO restored SELECT * FROM list_counts;
            DROP TABLE list_counts;
            ALTER TABLE restored RENAME TO list_counts""")
    after = await database.version_of(part)
    await database.close()
    assert before != after
    assert None not in (before, after)


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
