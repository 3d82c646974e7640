"""Events that were stored while nobody numbered them get their numbers all the same."""

import pytest

from portico.data.database import Database
from portico.features.events.storage import AT_ONCE, Events

INSERT = """
INSERT INTO events (type, at, data) SELECT 'product.created', number, '{}'
FROM generate_series(1, CAST(:count AS BIGINT)) AS number"""
NUMBERED = "SELECT count(*) FROM events WHERE id = at AND id = seq"
POSTGRES = pytest.mark.parametrize("another", ["postgres"], indirect=True)


@POSTGRES
async def test_a_backlog_is_numbered_in_steps_that_each_end_in_time(database: Database) -> None:
    count = AT_ONCE + 1
    async with database.transaction() as tx:
        await tx.run(INSERT, {"count": count})
    await Events(database).number()
    steps = await database.one("SELECT count(DISTINCT CAST(xmin AS TEXT)) FROM events")
    assert (await database.one(NUMBERED), steps) == ((count,), (2,))
