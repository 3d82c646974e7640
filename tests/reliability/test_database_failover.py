"""A PostgreSQL primary that dies or freezes, and a standby that is promoted in its place."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, suppress

import asyncpg

from busy_machine import within
from operating import TIMEOUT_SECONDS, eventually, lateness
from portico.core.errors import Unavailable
from portico.data.postgres.engine import PostgresDatabase
from servers import PostgresServer, postgres_server

WRITERS = 16
BACK_SECONDS = 2.0
ANSWER_SECONDS = 10.0


class Writers:
    """Many who write numbers all the time, and what became of it."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self.acknowledged: list[int] = []
        self.last = 0.0
        """When something was acknowledged."""
        self.slowest = 0.0
        self._next = iter(range(10**9))

    async def write(self) -> None:
        """Raises what is not `Unavailable`."""
        number, begun = next(self._next), time.monotonic()
        try:
            async with self._database.transaction() as tx:
                await tx.run("INSERT INTO numbers VALUES (:number)", {"number": number})
        except Unavailable:
            await asyncio.sleep(0.02)
        else:
            self.acknowledged.append(number)
            self.last = time.monotonic()
        self.slowest = max(self.slowest, time.monotonic() - begun)

    @asynccontextmanager
    async def busy(self) -> AsyncIterator[None]:
        """Everybody writes until the end."""
        going = True

        async def go_on() -> None:
            while going:
                await self.write()

        writers = [asyncio.create_task(go_on()) for _ in range(WRITERS)]
        try:
            yield
        finally:
            going = False
            await asyncio.gather(*writers)

    async def acknowledges(self, more: int = 1) -> None:
        """Waits until so many more are acknowledged."""
        wanted = len(self.acknowledged) + more
        await eventually(lambda: len(self.acknowledged) >= wanted, "the last one")


def with_hosts(*servers: PostgresServer) -> str:
    """The address of servers, in this order."""
    user, _, _ = servers[0].url.partition("@")
    return f"{user}@{','.join(f'127.0.0.1:{server.port}' for server in servers)}/postgres"


async def follow(primary: PostgresServer) -> None:
    """Nothing is acknowledged by `primary` from now on that its standby does not have."""
    connection = await asyncpg.connect(primary.url)
    await connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
    await connection.execute("SELECT pg_reload_conf()")
    in_step = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"
    await eventually(lambda: connection.fetchval(in_step), "the standby")
    await connection.close()


async def stored(server: PostgresServer) -> set[int]:
    connection = await asyncpg.connect(server.url)
    rows = await connection.fetch("SELECT number FROM drill.numbers")
    await connection.close()
    return {row[0] for row in rows}


async def fails_over(
    url: str, standby: PostgresServer, fail: Callable[[], object]
) -> PostgresDatabase:
    """A primary fails, and its standby follows: nobody but some 503 notices. The open database."""
    database = PostgresDatabase(url, "drill")
    await database.open()
    await database.prepare()
    async with database.transaction() as tx:
        await tx.script("CREATE TABLE IF NOT EXISTS numbers (number INTEGER)")
        await tx.script("CREATE TABLE IF NOT EXISTS notices (number BIGINT)")
    writers = Writers(database)
    with lateness() as late:
        async with writers.busy():
            await writers.acknowledges(10 * WRITERS)
            fail()
            await asyncio.sleep(1)  # for so long, nobody can write
            standby.promote()
            with within(BACK_SECONDS):
                await writers.acknowledges(WRITERS)
    assert writers.slowest < ANSWER_SECONDS + late.seconds
    assert set(writers.acknowledged) <= await stored(standby)
    return database


async def reconnected(database: PostgresDatabase, primary: PostgresServer) -> None:
    """Ends every connection, and waits for the next one."""
    connection = await asyncpg.connect(primary.url)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'portico'"
    )
    await connection.close()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while True:
            with suppress(Unavailable):
                assert await database.one("SELECT inet_server_port()") == (primary.port,)
                return


async def hears(database: PostgresDatabase) -> None:
    """Waits until it is told of changes: else its version would be another each time."""
    await eventually(lambda: database.version() == database.version(), "the connection")


async def test_writes_are_back_within_two_seconds_of_a_promotion_and_none_is_lost() -> None:
    with ExitStack() as servers, ExitStack() as frozen:
        first = servers.enter_context(postgres_server())
        second = servers.enter_context(postgres_server(primary=first))
        await follow(first)
        url = with_hosts(first, second)
        database = await fails_over(url, second, lambda: frozen.enter_context(first.frozen()))
        with within(BACK_SECONDS):
            another = PostgresDatabase(url, "drill")  # of a process that starts by now
            await another.open()
            await another.close()
        frozen.close()  # the first goes on, and takes itself for a primary
        await reconnected(database, second)
        await database.close()

        third = servers.enter_context(postgres_server(primary=second))
        await follow(second)
        early = PostgresDatabase(third.url, "drill")
        await early.open()
        url = with_hosts(third, second)
        database = await fails_over(url, third, lambda: second.stop(signal.SIGKILL))
        await hears(early)
        await early.close()
        await database.close()
