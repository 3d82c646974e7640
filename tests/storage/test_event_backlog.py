"""Events that were stored while nobody numbered them get their numbers all the same."""

import pytest

from portico.data.database import Database
from portico.features.events.storage import AT_ONCE, Events

INSERT = """
INSERT INTO events (type, at, data) SELECT 'product.created', number, '{}'
FROM generate_series(1, CAST(:count AS BIGINT)) AS number"""
NUMBERED = "SELECT count(*) FROM events WHERE id = at AND id = seq"
POSTGRES = pytest.mark.parametrize("another", ["postgres"], indirect=True)


async def store(database: Database, count: int) -> None:
    async with database.transaction() as tx:
        await tx.run(INSERT, {"count": count})


async def numbered(database: Database) -> tuple[int, int]:
    """How many have the number of their place, and in how many transactions they got it."""
    row = await database.one(NUMBERED)
    steps = await database.one("SELECT count(DISTINCT CAST(xmin AS TEXT)) FROM events")
    assert row is not None
    assert steps is not None
    return row[0], steps[0]


@POSTGRES
@pytest.mark.parametrize(("count", "steps"), [(AT_ONCE, 1), (AT_ONCE + 1, 2)])
async def test_a_backlog_is_numbered_in_steps_that_each_end_in_time(
    database: Database, count: int, steps: int
) -> None:
    await store(database, count)
    await Events(database).number()
    assert await numbered(database) == (count, steps)
