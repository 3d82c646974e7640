"""A SQLite file that is removed, moved or replaced under a process that has it open."""

import asyncio
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from operating import in_database
from portico.core.errors import OutcomeUnknown, Unavailable
from portico.data.sqlite.engine import SqliteDatabase

ADD = "INSERT INTO numbers (number) VALUES (NULL)"
COUNT = "SELECT count(*) FROM numbers"


def renamed(file: Path, name: str) -> None:
    file.rename(file.with_name(name))


def moved(file: Path) -> None:
    renamed(file, "moved.db")


def replaced(file: Path) -> None:
    shutil.copy(file, file.with_name("copy.db"))
    renamed(file.with_name("copy.db"), file.name)


def without_log(file: Path) -> None:
    file.with_name(f"{file.name}-wal").unlink()


async def refusal(database: SqliteDatabase) -> Unavailable | None:
    """Why a write is refused, if it is."""
    try:
        async with database.transaction() as tx:
            await tx.run(ADD)
    except Unavailable as error:
        return error
    return None


@pytest.mark.parametrize("lose", [Path.unlink, moved, replaced, without_log])
async def test_nothing_is_written_to_a_file_that_nobody_finds_again(
    sqlite: SqliteDatabase,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    lose: Callable[[Path], None],
) -> None:
    assert await refusal(sqlite) is None
    lose(tmp_path / "test.db")
    refused = await refusal(sqlite)
    assert refused is not None
    assert refused.why == "gone"
    assert not isinstance(refused, OutcomeUnknown)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert str(tmp_path / "test.db") in caplog.text


async def test_a_file_that_is_put_back_is_written_again(
    sqlite: SqliteDatabase, tmp_path: Path
) -> None:
    moved(tmp_path / "test.db")
    assert await refusal(sqlite)
    (tmp_path / "moved.db").rename(tmp_path / "test.db")
    assert await refusal(sqlite) is None


async def test_nobody_is_told_that_a_file_has_what_was_written_as_it_was_moved(
    sqlite: SqliteDatabase, tmp_path: Path
) -> None:
    async def first() -> None:
        async with sqlite.transaction() as tx:
            await tx.run(ADD)
            await asyncio.sleep(0)  # in which the second comes to wait, so that it joins the group

    async def second() -> None:
        async with sqlite.transaction() as tx:
            moved(tmp_path / "test.db")
            await tx.run(ADD)

    outcomes = await asyncio.gather(first(), second(), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OutcomeUnknown, OutcomeUnknown]


@pytest.fixture
async def restored(sqlite: SqliteDatabase, tmp_path: Path) -> Path:
    """A file whose place a copy took, with one number, while there were three and a table more."""
    file = tmp_path / "test.db"
    assert await refusal(sqlite) is None
    in_database(file, "VACUUM INTO ?", str(tmp_path / "copy.db"))
    async with sqlite.transaction() as tx:
        await tx.run(ADD)
        await tx.run(ADD)
        await tx.script("CREATE TABLE others (number INTEGER PRIMARY KEY) STRICT")
    renamed(file, "old.db")
    renamed(tmp_path / "copy.db", "test.db")
    return file


def lost_logs(file: Path) -> list[Path]:
    """Those that were moved aside."""
    return list(file.parent.glob(f"{file.name}-wal.lost-*"))


async def counted_anew(file: Path) -> int:
    """How many numbers a file has for who opens it, and is sound."""
    database = SqliteDatabase(file)
    await database.open()
    assert await database.one("PRAGMA integrity_check") == ("ok",)
    row = await database.one(COUNT)
    await database.close()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("stops", [True, False])
async def test_a_file_that_took_the_place_of_one_does_not_get_its_log(
    sqlite: SqliteDatabase, restored: Path, caplog: pytest.LogCaptureFixture, *, stops: bool
) -> None:
    with pytest.raises(Unavailable):
        await sqlite.slow.one(COUNT)
    assert await refusal(sqlite)
    if stops:
        await sqlite.close()
    assert await counted_anew(restored) == 1
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    (log,) = lost_logs(restored)
    assert str(log) in caplog.text
    if stops:  # it is kept for its own file
        renamed(log, "old.db-wal")
        assert await counted_anew(restored.with_name("old.db")) == 3


async def test_a_file_is_put_back_with_its_log_in_the_place_of_another(
    sqlite: SqliteDatabase, restored: Path
) -> None:
    assert await refusal(sqlite)
    renamed(restored.with_name("old.db"), "test.db")
    assert await refusal(sqlite) is None
    assert await counted_anew(restored) == 4
    assert lost_logs(restored) == []


async def test_a_file_that_is_put_back_while_nothing_serves_is_not_opened_without_its_log(
    sqlite: SqliteDatabase, restored: Path
) -> None:
    assert await refusal(sqlite)
    await sqlite.close()
    renamed(restored, "copy.db")
    renamed(restored.with_name("old.db"), "test.db")
    (log,) = lost_logs(restored)
    with pytest.raises(Unavailable, match=re.escape(str(log))):
        await SqliteDatabase(restored).open()
    renamed(log, "test.db-wal")
    assert await counted_anew(restored) == 3


async def test_no_file_is_made_in_the_place_of_one_that_is_gone(
    sqlite: SqliteDatabase, tmp_path: Path
) -> None:
    assert await refusal(sqlite) is None
    file = tmp_path / "test.db"
    moved(file)
    log = (tmp_path / "test.db-wal").read_bytes()
    with pytest.raises(Unavailable, match="put the file back"):
        await SqliteDatabase(file, create=True).open()
    with pytest.raises(Unavailable):
        await sqlite.slow.one(COUNT)
    with pytest.raises(Unavailable, match=re.escape(f"There is no {tmp_path / 'other.db'}")):
        await SqliteDatabase(tmp_path / "other.db").open()
    assert not file.exists()
    assert (tmp_path / "test.db-wal").read_bytes() == log != b""
