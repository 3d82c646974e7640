"""A SQLite file that is removed, moved or replaced under a process that has it open."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from operating import eventually, in_database
from portico.core.errors import OutcomeUnknown, Unavailable
from portico.data.sqlite import connection
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
    assert await refusal(sqlite)
    if stops:
        await sqlite.close()
    assert await counted_anew(restored) == 1
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    (log,) = lost_logs(restored)
    assert str(log) in caplog.text


async def test_the_log_of_a_file_whose_place_was_taken_is_kept_for_it(
    sqlite: SqliteDatabase, restored: Path
) -> None:
    assert await refusal(sqlite)
    await sqlite.close()
    (log,) = lost_logs(restored)
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


async def test_the_logs_of_two_files_that_take_turns_are_kept_apart(
    sqlite: SqliteDatabase, restored: Path
) -> None:
    assert await refusal(sqlite)
    other = SqliteDatabase(restored)
    await other.open()
    assert await refusal(other) is None
    renamed(restored, "new.db")
    renamed(restored.with_name("old.db"), "test.db")
    assert await refusal(other)
    assert await refusal(sqlite) is None
    await other.close()
    assert await counted_anew(restored) == 4
    (log,) = lost_logs(restored)
    renamed(log, "new.db-wal")
    assert await counted_anew(restored.with_name("new.db")) == 2


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


@pytest.mark.parametrize("step", ["exists", "_renamed"])
async def test_a_file_that_comes_back_as_its_log_is_moved_keeps_it(
    sqlite: SqliteDatabase, restored: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The path leads to the other file until it was looked at, or the log was moved."""
    taken, log = getattr(connection, step), restored.with_name("test.db-wal")

    def and_is_put_back(path: Path, *place: Path) -> bool:
        done = taken(path, *place)
        if (place or path == restored) and restored.with_name("old.db").exists():
            renamed(restored.with_name("old.db"), "test.db")
        return bool(done)

    monkeypatch.setattr(connection, step, and_is_put_back)
    await refusal(sqlite)
    assert log.exists()
    assert lost_logs(restored) == []
    assert await refusal(sqlite) is None
    assert await counted_anew(restored) == 4


@pytest.fixture
async def linked(tmp_path: Path) -> AsyncIterator[tuple[SqliteDatabase, Path]]:
    """A database that a link leads to, and where it is."""
    (tmp_path / "volume").mkdir()
    file = tmp_path / "volume" / "test.db"
    (tmp_path / "linked.db").symlink_to(file)
    database = SqliteDatabase(tmp_path / "linked.db", create=True)
    await database.open()
    async with database.transaction() as tx:
        await tx.script("CREATE TABLE numbers (number INTEGER PRIMARY KEY) STRICT")
    yield database, file
    await database.close()


@pytest.mark.parametrize("lose", [moved, replaced, without_log])
async def test_what_a_link_leads_to_is_missed_as_well(
    linked: tuple[SqliteDatabase, Path], lose: Callable[[Path], None]
) -> None:
    database, file = linked
    assert await refusal(database) is None
    lose(file)
    refused = await refusal(database)
    assert refused is not None
    assert refused.why == "gone"
    assert bool(lost_logs(file)) == (lose is replaced)


async def test_nothing_is_made_where_a_link_leads_to_a_log_alone(tmp_path: Path) -> None:
    (tmp_path / "test.db-wal").write_bytes(b"written last")
    (tmp_path / "linked.db").symlink_to(tmp_path / "test.db")
    with pytest.raises(Unavailable, match=r"test\.db-wal"):
        await SqliteDatabase(tmp_path / "linked.db", create=True).open()
    assert not (tmp_path / "test.db").exists()


async def test_a_log_is_not_put_back_over_that_of_another_file(
    sqlite: SqliteDatabase, restored: Path
) -> None:
    assert await refusal(sqlite)
    log = restored.with_name("test.db-wal")
    log.write_text("of the other")
    renamed(restored.with_name("old.db"), "test.db")
    assert await refusal(sqlite)
    assert log.read_text() == "of the other"


async def test_a_log_that_is_another_files_by_then_stays_where_it_is(
    sqlite: SqliteDatabase, tmp_path: Path
) -> None:
    moved(tmp_path / "test.db")
    for name in ("test.db", "test.db-wal", "test.db-shm"):
        (tmp_path / f"new-{name}").write_text(name)
        (tmp_path / f"new-{name}").rename(tmp_path / name)
    assert await refusal(sqlite)
    assert (tmp_path / "test.db-wal").read_text() == "test.db-wal"
    assert lost_logs(tmp_path / "test.db") == []


@pytest.mark.usefixtures("restored")
async def test_no_read_comes_from_a_file_that_took_the_place_of_one(
    sqlite: SqliteDatabase,
) -> None:
    with pytest.raises(Unavailable):
        await sqlite.slow.one(COUNT)


async def test_only_who_prepares_makes_a_file(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=re.escape(f"There is no {tmp_path / 'test.db'}")):
        await SqliteDatabase(tmp_path / "test.db").open()
    assert not (tmp_path / "test.db").exists()


async def test_a_path_that_is_too_long_is_told_as_that_and_not_as_a_lost_file(
    tmp_path: Path,
) -> None:
    parent = tmp_path
    while len(str(parent)) < 450:
        parent /= "x" * min(200, 450 - len(str(parent)))
    parent.mkdir(parents=True)
    longest = parent / ("x" * (503 - len(str(parent))))
    database = SqliteDatabase(longest, create=True)
    await database.open()
    await database.close()
    longer = longest.with_name(f"{longest.name}x")
    with pytest.raises(Unavailable, match="its path has 505 bytes, and SQLite permits 504"):
        await SqliteDatabase(longer, create=True).open()


async def test_no_file_is_made_beside_the_log_of_one_that_is_gone(
    sqlite: SqliteDatabase, tmp_path: Path
) -> None:
    assert await refusal(sqlite) is None
    moved(tmp_path / "test.db")
    log = (tmp_path / "test.db-wal").read_bytes()
    with pytest.raises(Unavailable, match="put the file back"):
        await SqliteDatabase(tmp_path / "test.db", create=True).open()
    assert not (tmp_path / "test.db").exists()
    assert (tmp_path / "test.db-wal").read_bytes() == log != b""


async def test_a_file_is_made_beside_a_log_that_holds_nothing(tmp_path: Path) -> None:
    (tmp_path / "test.db-wal").touch()
    database = SqliteDatabase(tmp_path / "test.db", create=True)
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
