"""A bounded group of connections to PostgreSQL, for callers of one kind, and reads over it."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from portico.storage.database import NOTHING, Params, PoolUse, Reader, Row, T
from portico.storage.postgres_hosts import Hosts
from portico.storage.postgres_statements import Statements, call, faults


class Pool:
    """At most so many connections, opened as they are needed: whoever waits for one of them waits
    for nobody who uses another pool."""

    def __init__(
        self,
        hosts: Hosts,
        settings: str,
        size: int,
        patience: float,
        check: Callable[[Any], Awaitable[None]] | None = None,
    ) -> None:
        """`settings` is the statement that gives a transaction the session's settings. Whoever
        gets no connection within `patience`, in seconds, gets an error. `check` raises where a
        connection is not to be used now."""
        self._hosts = hosts
        self._size = size
        self._patience = patience
        self._check = check
        self._settings = settings
        self._busy = 0
        self._waiting = 0
        self._waited = 0.0

    async def open(self) -> None:
        """Connects to nothing yet."""
        self._pool = await asyncpg.create_pool(
            connect=self._hosts.connect,
            min_size=0,  # else the pool itself tries to reach a server that is away, and logs
            max_size=self._size,
            reset=_keep,
        )

    async def close(self) -> None:
        """Waits until all connections are given back, and ends them."""
        await self._pool.close()

    async def expire(self) -> None:
        """Has every connection replaced, each once it is not in use."""
        await self._pool.expire_connections()

    def use(self) -> PoolUse:
        """What its callers do now."""
        return PoolUse(self._busy, self._waiting, self._waited)

    @asynccontextmanager
    async def connection(self, **begin: Any) -> AsyncIterator[Any]:
        """A connection, in a transaction with these options where there are any. It has the
        settings of the session, in any case."""
        connection = await self._acquire()
        try:
            if self._check is not None:
                await self._check(connection)
            if self._hosts.keeps_sessions and not begin:
                yield connection
            else:
                async with connection.transaction(**begin):
                    if not self._hosts.keeps_sessions:
                        await connection.execute(self._settings)
                    yield connection
        except asyncpg.InternalClientError:
            connection.terminate()  # whatever state it is in, it must not come back
            raise
        finally:
            self._busy -= 1
            await self._pool.release(connection)

    async def _acquire(self) -> Any:
        begun = time.monotonic()
        self._waiting += 1
        try:
            connection = await self._pool.acquire(timeout=self._patience)
        finally:
            self._waiting -= 1
            self._waited += time.monotonic() - begun
        self._busy += 1
        return connection


class PoolReads:
    """Reads by the connections of one pool, as a `Reader`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        text, values = call(sql, params)
        with faults():
            async with self._pool.connection() as connection:
                row: Row | None = await connection.fetchrow(text, *values)
        return row

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        text, values = call(sql, params)
        with faults():
            async with self._pool.connection() as connection:
                return list(await connection.fetch(text, *values))

    async def snapshot(self, work: Callable[[Reader], Awaitable[T]]) -> T:
        """What `work` makes of reads that all see one state."""
        with faults():
            async with self._pool.connection(isolation="repeatable_read", readonly=True) as one:
                return await work(Statements(one))


async def _keep(_connection: object) -> None:
    """Leaves a connection as it is: nothing here changes a session's settings."""
