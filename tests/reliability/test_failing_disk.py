"""A disk that fails at any write or sync: what was promised stays, what was not never comes."""

import asyncio
import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portico.core.errors import Unavailable
from portico.data.database import UniqueViolation
from portico.data.migrate import Migration, migrate
from portico.data.sqlite.engine import SqliteDatabase

BLOB_BYTES = 60_000
"""More than the cache of these tests: it goes to disk before its transaction ends."""


class FailingDisk(apsw.VFS):
    """SQLite's file system, of whose writes and syncs some fail."""

    NAME = "failing"

    def __init__(self) -> None:
        super().__init__(self.NAME, "unix")
        self.heal()

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: apsw.URIFilename | str | None, flags: list[int]
    ) -> apsw.VFSFile:
        disk = self

        class File(apsw.VFSFile):
            def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
                disk.step()
                super().xWrite(data, offset)

            def xSync(self, flags: int) -> None:  # noqa: N802 - SQLite's name
                disk.step()
                super().xSync(flags)

        return File("unix", name, flags)

    def fail(self, after: int, times: int, error: type[apsw.Error]) -> None:
        """Lets `after` steps succeed, then fails `times`."""
        self._steps = itertools.count()
        self._failing = range(after, after + times)
        self._error = error

    def heal(self) -> None:
        self.fail(0, 0, apsw.IOError)

    def step(self) -> None:
        if next(self._steps) in self._failing:
            raise self._error("on purpose")


@pytest.fixture
def disk() -> Iterator[FailingDisk]:
    """A disk for all SQLite files of the test."""
    disk = FailingDisk()
    apsw.set_default_vfs(FailingDisk.NAME)
    yield disk
    apsw.set_default_vfs("unix")
    disk.unregister()


class Write(NamedTuple):
    """A transaction that stores a number after others had their turn `wait` times."""

    number: int
    wait: int
    large: bool


WRITES = st.lists(
    st.builds(Write, st.integers(0, 6), st.integers(0, 4), st.booleans()), min_size=1, max_size=10
)
TROUBLE = st.tuples(
    st.integers(0, 60), st.integers(1, 40), st.sampled_from([apsw.FullError, apsw.IOError])
)


async def write(database: SqliteDatabase, plan: Write) -> None:
    for _ in range(plan.wait):
        await asyncio.sleep(0)
    async with database.transaction() as tx:
        await tx.run("INSERT INTO numbers VALUES (:number, NULL)", {"number": plan.number})
        if plan.large:
            fill = "UPDATE numbers SET text = zeroblob(:size) WHERE number = :number"
            await tx.run(fill, {"number": plan.number, "size": BLOB_BYTES})


def on_disk(path: Path) -> dict[Any, Any]:
    """The numbers, and the size of what is stored with each."""
    connection = apsw.Connection(str(path), vfs="unix")
    try:
        assert connection.pragma("integrity_check") == "ok"
        return dict(connection.execute("SELECT number, length(text) FROM numbers"))
    finally:
        connection.close()


@given(rounds=st.lists(st.tuples(WRITES, TROUBLE), min_size=1, max_size=3))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_only_what_was_promised_is_there_whichever_write_fails(
    disk: FailingDisk,
    tmp_path_factory: pytest.TempPathFactory,
    rounds: list[tuple[list[Write], tuple[int, int, type[apsw.Error]]]],
) -> None:
    path = tmp_path_factory.mktemp("database") / "test.db"
    disk.heal()
    database = SqliteDatabase(path, create=True)
    await database.open()
    async with database.transaction() as tx:
        await tx.script("CREATE TABLE numbers (number INTEGER PRIMARY KEY, text BLOB) STRICT")
        await tx.script("PRAGMA cache_size = 5")
    promised: dict[int, int | None] = {}
    for plans, trouble in rounds:
        disk.fail(*trouble)
        async with asyncio.timeout(20):
            writes = (write(database, plan) for plan in plans)
            results = await asyncio.gather(*writes, return_exceptions=True)
        disk.heal()
        refused = set()
        for plan, result in zip(plans, results, strict=True):
            if isinstance(result, UniqueViolation):
                refused.add(plan.number)
            elif result is None:
                assert plan.number not in promised
                promised[plan.number] = BLOB_BYTES if plan.large else None
            else:
                assert isinstance(result, Unavailable)
        assert on_disk(path) == promised
        assert refused <= promised.keys(), "refused for a number that is not there"
        async with asyncio.timeout(20):  # the disk is well again, and so is the database
            await write(database, Write(100 + len(promised), 0, large=True))
        promised[100 + len(promised)] = BLOB_BYTES
    await database.close()
    assert on_disk(path) == promised


@pytest.mark.parametrize(
    ("free", "flag", "error", "message"),
    [
        (8 * 1024, 0, apsw.IOError, "the disk is full: make room"),
        (2**30, 0, apsw.IOError, "on purpose"),
        (2**30, os.ST_RDONLY, apsw.CantOpenError, "its file system is read-only: make it writable"),
    ],
)
async def test_file_that_cannot_be_opened_says_what_to_do(
    disk: FailingDisk,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    flag: int,
    error: type[apsw.Error],
    message: str,
) -> None:
    path = tmp_path / "test.db"
    apsw.Connection(str(path)).execute("CREATE TABLE numbers (number INTEGER)")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flag))
    disk.fail(0, 1000, error)
    with pytest.raises(Unavailable) as refused:
        await SqliteDatabase(path).open()
    assert refused.value.message.startswith(f"{path} cannot be opened: {message}")


async def test_migrations_that_find_no_room_stay_and_go_on_later(
    disk: FailingDisk, tmp_path: Path
) -> None:
    carried = [Migration(n, f"step_{n}", f"CREATE TABLE t{n} (a BIGINT)") for n in (1, 2, 3)]

    def full_at_the_third() -> int:
        if next(recorded) == 3:
            disk.fail(0, 1000, apsw.FullError)
        return 0

    recorded = itertools.count(1)
    database = SqliteDatabase(tmp_path / "test.db", create=True)
    await database.open()
    await migrate(database, full_at_the_third, carried[:1])
    with pytest.raises(Unavailable, match=r"disk is full; migrations that were applied stay"):
        await migrate(database, full_at_the_third, carried)
    disk.heal()
    assert await migrate(database, full_at_the_third, carried) == carried[2:]
    await database.close()
