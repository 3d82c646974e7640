"""A SQLite file that is removed, moved or replaced under a process that has it open."""

import asyncio
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from operating import eventually, in_database
from portico.domain.errors import Unavailable, Unknown
from portico.storage.sqlite import SqliteDatabase

ADD = "INSERT INTO numbers (number) VALUES (NULL)"
COUNT = "SELECT count(*) FROM numbers"


def moved(file: Path) -> None:
    file.rename(file.with_name("moved.db"))


def replaced(file: Path) -> None:
    shutil.copy(file, file.with_name("copy.db"))
    file.with_name("copy.db").rename(file)


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
    assert not isinstance(refused, Unknown)
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
    assert [type(outcome) for outcome in outcomes] == [Unknown, Unknown]


async def test_a_file_that_nobody_writes_to_is_missed_all_the_same(
    sqlite: SqliteDatabase, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await refusal(sqlite) is None
    moved(tmp_path / "test.db")
    await eventually(lambda: str(tmp_path / "test.db") in caplog.text, "the line of the log")


async def test_what_lay_in_a_log_that_is_removed_is_stored_as_the_server_stops(
    sqlite: SqliteDatabase, tmp_path: Path
) -> None:
    assert await refusal(sqlite) is None
    without_log(tmp_path / "test.db")
    assert await refusal(sqlite)
    await sqlite.close()
    assert in_database(tmp_path / "test.db", COUNT) == 1


async def test_only_who_prepares_makes_a_file(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=re.escape(f"There is no {tmp_path / 'test.db'}")):
        await SqliteDatabase(tmp_path / "test.db").open()
    assert not (tmp_path / "test.db").exists()


async def test_no_file_is_made_beside_the_log_of_one_that_is_gone(
    sqlite: SqliteDatabase, tmp_path: Path
) -> None:
    assert await refusal(sqlite) is None
    moved(tmp_path / "test.db")
    log = (tmp_path / "test.db-wal").read_bytes()
    with pytest.raises(Unavailable, match="put the file back"):
        await SqliteDatabase(tmp_path / "test.db", makes=True).open()
    assert not (tmp_path / "test.db").exists()
    assert (tmp_path / "test.db-wal").read_bytes() == log != b""


async def test_a_file_is_made_beside_a_log_that_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "test.db-wal").touch()
    database = SqliteDatabase(tmp_path / "test.db", makes=True)
    await database.open()
    await database.close()
    assert (tmp_path / "test.db").exists()


async def test_a_reader_makes_no_file_in_the_place_of_one_that_is_gone(
    sqlite: SqliteDatabase, tmp_path: Path
) -> None:
    (tmp_path / "test.db").unlink()
    with pytest.raises(Unavailable):
        await sqlite.slow.one(COUNT)
    assert not (tmp_path / "test.db").exists()
