"""SQLite's writer: transactions share a commit and nothing else."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from operating import turns
from portico.data.database import Reader, UniqueViolation
from portico.data.sqlite.connection import connect
from portico.data.sqlite.engine import AT_ONCE, LATER_PARTS, SqliteDatabase

ADD = "INSERT INTO numbers VALUES (:number)"


class OnPurposeError(Exception):
    """What a transaction of these tests fails with."""


async def add(database: SqliteDatabase, number: int, *, steps: int = 0, fail: bool = False) -> int:
    """Stores a number in a transaction that lets others run `steps` times."""
    async with database.transaction() as tx:
        await tx.run(ADD, {"number": number})
        for _ in range(steps):
            await asyncio.sleep(0)
        if fail:
            raise OnPurposeError
    return number


def on_disk(path: Path) -> set[int]:
    """What another process reads."""
    connection = connect(path)
    try:
        return {row[0] for row in connection.execute("SELECT number FROM numbers")}
    finally:
        connection.close()


async def gathered(*work: Coroutine[Any, Any, int]) -> list[int | BaseException]:
    async with asyncio.timeout(20):
        return await asyncio.gather(*work, return_exceptions=True)


async def still_works(database: SqliteDatabase, number: int = 1_000_000) -> None:
    async with asyncio.timeout(20):
        await add(database, number)


@pytest.mark.parametrize("later", [False, True])
async def test_whatever_waits_has_its_turn_while_many_rows_are_written(
    sqlite: SqliteDatabase, *, later: bool
) -> None:
    async with sqlite.transaction() as tx, turns() as seen:
        rows = ({"number": number} for number in range(10 * AT_ONCE))
        await (tx.defer(ADD, rows) if later else tx.run_many(ADD, rows))
    assert seen.count >= 9
    assert await sqlite.one("SELECT count(*) FROM numbers") == (10 * AT_ONCE,)


@pytest.mark.parametrize("later", [False, True])
async def test_a_member_that_fails_undoes_only_itself(
    sqlite: SqliteDatabase, tmp_path: Path, *, later: bool
) -> None:
    def one(number: int, *, fail: bool) -> Coroutine[Any, Any, int]:
        if later:
            return add_later(sqlite, number, 100 + number, fail=fail)
        return add(sqlite, number, steps=1, fail=fail)

    for shape in ({0}, {29}, {3, 4, 5}, set(range(0, 30, 2)), set(range(30))):
        results = await gathered(*(one(n, fail=n in shape) for n in range(30)))
        good = set(range(30)) - shape
        assert {result for result in results if isinstance(result, int)} == good
        assert sum(isinstance(result, OnPurposeError) for result in results) == len(shape)
        assert on_disk(tmp_path / "test.db") == good | {100 + n for n in good if later}
        async with sqlite.transaction() as tx:
            await tx.run("DELETE FROM numbers")
    results = await gathered(*(add(sqlite, number // 2) for number in range(20)))
    assert sum(isinstance(result, UniqueViolation) for result in results) == 10
    assert on_disk(tmp_path / "test.db") == set(range(10))


async def add_later(database: SqliteDatabase, *numbers: int, fail: bool = False) -> int:
    """Leaves numbers for the end of a transaction, in which others can join it."""
    async with database.transaction() as tx:
        await tx.defer(ADD, ({"number": number} for number in numbers))
        await asyncio.sleep(0)
        if fail:
            raise OnPurposeError
    return numbers[0]


async def test_of_much_that_is_left_for_the_end_some_is_written_before_and_undone_alone(
    sqlite: SqliteDatabase, tmp_path: Path
) -> None:
    many = range(100, 100 + 2 * LATER_PARTS * AT_ONCE)
    for fails in (True, False):
        await gathered(
            add(sqlite, 1, steps=1),
            add_later(sqlite, 2),
            add_later(sqlite, *many, fail=fails),
            add_later(sqlite, 3),
        )
        assert on_disk(tmp_path / "test.db") == {1, 2, 3, *(() if fails else many)}
        async with sqlite.transaction() as tx:
            await tx.run("DELETE FROM numbers")


async def test_where_the_end_fails_nothing_of_its_group_is_stored_and_all_are_told_why(
    sqlite: SqliteDatabase, tmp_path: Path
) -> None:
    outcomes = await gathered(add(sqlite, 1, steps=2), add_later(sqlite, 2, 2), add(sqlite, 3))
    assert all(isinstance(outcome, apsw.ConstraintError) for outcome in outcomes)
    assert on_disk(tmp_path / "test.db") == set()
    await still_works(sqlite)


async def test_a_transaction_larger_than_the_cache_is_not_held_in_memory(
    sqlite: SqliteDatabase,
) -> None:
    async with sqlite.transaction() as tx:
        await tx.script("CREATE TABLE pages (number INTEGER PRIMARY KEY, filling BLOB)")
        rows = ({"number": number, "filling": bytes(4000)} for number in range(8_000))
        await tx.run_many("INSERT INTO pages VALUES (:number, :filling)", rows)
    apsw.memory_high_water(True)  # noqa: FBT003 - resets it
    before = apsw.memory_used()
    async with sqlite.transaction() as tx:
        await tx.run_many(
            "UPDATE pages SET filling = randomblob(4000) WHERE number = :number",
            ({"number": number} for number in range(8_000)),
        )
    assert apsw.memory_high_water() - before < 12 * 2**20


SCHEDULE = st.lists(
    st.fixed_dictionaries(
        {
            "start": st.integers(0, 12),
            "steps": st.integers(0, 6),
            "fail": st.booleans(),
            "cancel": st.one_of(st.none(), st.none(), st.integers(0, 25)),
        }
    ),
    min_size=1,
    max_size=14,
)


@given(schedule=SCHEDULE)
@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_whoever_goes_away_at_whatever_moment_nobody_else_notices(
    sqlite: SqliteDatabase, tmp_path: Path, schedule: list[dict[str, Any]]
) -> None:
    async with sqlite.transaction() as tx:
        await tx.run("DELETE FROM numbers")

    async def begin(number: int, plan: dict[str, Any]) -> int:
        for _ in range(plan["start"]):
            await asyncio.sleep(0)
        return await add(sqlite, number, steps=plan["steps"], fail=plan["fail"])

    tasks = [asyncio.create_task(begin(number, plan)) for number, plan in enumerate(schedule)]
    for tick in range(26):
        for task, plan in zip(tasks, schedule, strict=True):
            if plan["cancel"] == tick:
                task.cancel()
        await asyncio.sleep(0)
    async with asyncio.timeout(20):
        results = await asyncio.gather(*tasks, return_exceptions=True)
    await still_works(sqlite)
    held = on_disk(tmp_path / "test.db") - {1_000_000}
    for number, (plan, result) in enumerate(zip(schedule, results, strict=True)):
        if isinstance(result, int):
            assert number in held
        elif plan["fail"]:
            assert number not in held  # it never came to its commit
        else:
            assert isinstance(result, asyncio.CancelledError)
    assert sqlite.pools()["write"].waiting == 0


async def test_the_version_changes_with_what_is_committed_and_with_nothing_else(
    sqlite: SqliteDatabase, tmp_path: Path
) -> None:
    first = sqlite.version()
    await asyncio.sleep(0)
    assert sqlite.version() == first
    await add(sqlite, 1)
    second = sqlite.version()
    assert second != first
    other = connect(tmp_path / "test.db")
    other.execute("INSERT INTO numbers VALUES (2)").fetchall()
    other.close()
    await asyncio.sleep(0)
    assert sqlite.version() != second


async def test_every_connection_writes_durably_and_holds_foreign_keys(tmp_path: Path) -> None:
    connection = connect(tmp_path / "test.db", create=True)
    assert [
        connection.pragma(name)
        for name in ("journal_mode", "synchronous", "foreign_keys", "temp_store", "cache_size")
    ] == ["wal", 2, 1, 2, -8192]
    connection.close()


async def test_a_snapshot_sees_one_state_and_gives_its_connection_back(
    sqlite: SqliteDatabase,
) -> None:
    count = "SELECT count(*) FROM numbers"
    for number in range(5):

        async def look(reader: Reader, number: int = number) -> None:
            assert await reader.one(count) == (number,)
            await add(sqlite, number)
            assert await reader.one(count) == (number,)
            assert await sqlite.slow.one(count) == (number + 1,)

        await sqlite.snapshot(look)


async def test_snapshots_whose_callers_go_away_leave_no_state_behind(
    sqlite: SqliteDatabase,
) -> None:
    slow = (
        "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)"
        " SELECT count(*) FROM n"
    )

    async def read(reader: Reader) -> None:
        await reader.one(slow)
        await reader.one(slow)

    tasks = [asyncio.create_task(sqlite.snapshot(read)) for _ in range(8)]
    for task in tasks:
        await asyncio.sleep(0.005)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await add(sqlite, 1)
    for _ in range(4):
        seen = await sqlite.snapshot(lambda reader: reader.one("SELECT count(*) FROM numbers"))
        assert seen == (1,)
    assert sqlite.pools()["write"].waiting == 0
