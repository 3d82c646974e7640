"""Leases that one process renews, gives back and takes at one time."""

import asyncio

import asyncpg
import pytest

from operating import eventually
from portico.data.leases import Leases
from portico.data.postgres.engine import PostgresDatabase
from servers import PostgresServer
from storage.held import another

NOW = 1_773_576_000_000
UNTIL = NOW + 15_000
_WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'"""


async def waiting(other: asyncpg.Connection, count: int) -> None:
    """Until so many transactions wait for another one."""

    async def wait() -> bool:
        return bool(await other.fetchval(_WAITING) == count)

    await eventually(wait, "transactions that wait")


@pytest.mark.parametrize("given", [["a", "z"], ["z", "a"]], ids=" ".join)
async def test_renewing_and_giving_back_never_wait_for_each_other_in_a_ring(
    postgres: PostgresServer, migrated: str, given: list[str]
) -> None:
    url = postgres.fresh_database(migrated)
    database = PostgresDatabase(url, "test")
    await database.open()
    leases = Leases(database)
    # The rows are stored in this order, or in the other one.
    first, last = reversed(given)
    for name in (first, "m", last):
        await leases.take_one([name], "streams", now=NOW, until=UNTIL)
    async with another(url) as other, another(url) as holder:
        async with holder.transaction():
            await holder.execute("SELECT 1 FROM test.leases WHERE name = 'm' FOR UPDATE")
            renewing = asyncio.create_task(leases.renew("amz", "streams", UNTIL + 1))
            await waiting(other, 1)
            releasing = asyncio.create_task(leases.release_all(given, "streams"))
            await waiting(other, 2)
        assert await renewing == {"a", "m", "z"}
        await releasing
        assert await leases.renew("amz", "streams", UNTIL + 2) == {"m"}
    await database.close()
