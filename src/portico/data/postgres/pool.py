"""A bounded pool of connections to PostgreSQL for one kind of use, and reads by its connections."""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from weakref import WeakSet

import asyncpg

from portico.data.database import NOTHING, Params, PoolUse, Reader, Row, T, in_time
from portico.data.postgres.hosts import Hosts
from portico.data.postgres.statements import OUTAGES, Statements, call, read_faults

IDLE_SECONDS = 30.0
"""How long until an idle connection is closed: other processes may need its slot."""

FULL_SECONDS = 0.25
"""How long no connection is asked for after the server had no free slot."""


class Pool:
    """At most `size` connections, opened as needed. Its callers never wait for those of another
    pool."""

    def __init__(
        self,
        hosts: Hosts,
        settings: Mapping[str, str],
        size: int,
        timeouts: float,
        check: Callable[[Any], Awaitable[None]] | None = None,
    ) -> None:
        """`settings` are those of every session. A caller that gets no connection within `timeouts`
        seconds gets an error. `check` raises if a connection must not be used now."""
        local = (f"set_config('{name}', '{value}', true)" for name, value in settings.items())
        self._hosts = hosts
        self._size = size
        self._timeouts = timeouts
        self._check = check
        self._settings = f"SELECT {', '.join(local)}"
        self._open = 0
        """The number of open connections, plus the places of callers that are about to open one."""
        self._idle: list[tuple[Any, float]] = []
        """Idle connections, each with the loop's time since when, the latest last."""
        self._used: set[Any] = set()
        self._expired: WeakSet[Any] = WeakSet()
        self._callers: deque[asyncio.Future[Any]] = deque()
        self._full_until = 0.0
        """The loop's time until which the server is assumed to have no free slot."""
        self._refused_at = -math.inf
        """When the server last refused for lack of a slot, unless it has accepted one since."""
        self._sweeper: asyncio.TimerHandle | None = None
        self._closed: asyncio.Event | None = None
        self._returning: set[asyncio.Task[None]] = set()
        self._waiting = 0
        self._waited = 0.0

    async def close(self) -> None:
        """Waits until all connections are returned, and closes them."""
        self._closed = asyncio.Event()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for caller in self._callers:
            caller.cancel()
        while self._idle:
            self._open -= 1
            await self._idle.pop()[0].close()
        if self._open:
            await self._closed.wait()

    async def expire(self) -> None:
        """Replaces every connection as soon as it is not in use."""
        self._expired.update(self._used)
        for connection, _ in self._idle:
            connection.terminate()

    def use(self) -> PoolUse:
        """How the pool is used now."""
        return PoolUse(len(self._used), self._waiting, self._waited)

    @asynccontextmanager
    async def connection(self, **begin: Any) -> AsyncIterator[Any]:
        """A connection, inside a transaction with the options `begin` if there are any. It always
        has the settings of the session."""
        connection = await self._acquire()
        cut_off, usable = False, True
        try:
            if self._check is not None:
                await self._check(connection)
            if self._hosts.keeps_sessions and not begin:
                yield connection
            else:
                # If BEGIN fails, the driver would nest the next transaction in this one.
                usable = False
                transaction = connection.transaction(**{"isolation": "read_committed", **begin})
                await transaction.start()
                usable = True
                try:
                    if not self._hosts.keeps_sessions:
                        await connection.execute(self._settings)
                    yield connection
                except TimeoutError:
                    raise  # the caller would wait as long again for a ROLLBACK
                except BaseException:
                    await transaction.rollback()
                    raise
                await transaction.commit()
        except asyncpg.InternalClientError:
            connection.terminate()  # its state is unknown, so it must not be used again
            raise
        except (asyncio.CancelledError, TimeoutError):
            cut_off = True
            raise
        finally:
            self._used.discard(connection)
            if not usable:
                connection.terminate()
            if cut_off:
                returning = asyncio.create_task(self._return(connection))
                self._returning.add(returning)
                returning.add_done_callback(self._returning.discard)
            else:
                self._release(connection)

    async def _acquire(self) -> Any:
        self._require_open()
        connection = None
        while self._idle and connection is None:
            connection = self._living(self._idle.pop()[0])
        if connection is None:
            connection = await self._wait()
        self._used.add(connection)
        return connection

    async def _wait(self) -> Any:
        """Waits for a new connection, or for one that is returned. Raises
        `asyncpg.TooManyConnectionsError` if the server had no free slot all the time."""
        begun = time.monotonic()
        self._waiting += 1
        connection = None
        try:
            async with in_time(self._timeouts):
                while connection is None:
                    if self._idle:  # returned while this caller asked the server for another
                        connection = self._living(self._idle.pop()[0])
                    elif self._open < (1 if self._is_full() else self._size):
                        self._open += 1
                        connection = await self._connect()
                    else:
                        connection = await self._next() or await self._connect()
        except TimeoutError as error:
            if self._refused_at >= begun:
                raise asyncpg.TooManyConnectionsError("the server accepts no more") from error
            raise
        else:
            return connection
        finally:
            self._waiting -= 1
            self._waited += time.monotonic() - begun

    async def _connect(self) -> Any:
        """Opens a connection in a place that the caller has taken in `_open`. If the server has no
        free slot but the pool has another connection, gives up the place and returns None: only if
        there is no other connection to wait for, it asks again."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self._require_open()
                try:
                    connection = await self._hosts.connect()
                except asyncpg.TooManyConnectionsError:
                    self._full_until = loop.time() + FULL_SECONDS
                    self._refused_at = time.monotonic()
                    if self._open > 1:
                        self._open -= 1  # without waking another caller, which would ask at once
                        loop.call_later(FULL_SECONDS, self._offer)
                        return None
                    await asyncio.sleep(FULL_SECONDS)
                else:
                    self._refused_at = -math.inf
                    self._offer()
                    return connection
        except BaseException:
            self._lose()
            raise

    def _offer(self) -> None:
        """Lets the first waiting caller, if any, open another connection if that is allowed."""
        if self._open < self._size and self._hand(None):
            self._open += 1

    def _require_open(self) -> None:
        if self._closed is not None:
            raise asyncpg.InterfaceError("the pool is closed")

    def _is_full(self) -> bool:
        return asyncio.get_running_loop().time() < self._full_until

    async def _next(self) -> Any:
        """The next connection that is returned, or None if the caller may open one instead."""
        caller: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._callers.append(caller)
        try:
            return await caller
        except asyncio.CancelledError:
            if caller.cancelled():
                with suppress(ValueError):
                    self._callers.remove(caller)
                if self._closed is not None:
                    raise asyncpg.InterfaceError("the pool is closed") from None
            elif caller.result() is None:
                self._lose()
            else:
                self._release(caller.result())
            raise

    async def _return(self, connection: Any) -> None:
        """Returns a connection whose statement was cancelled, once the statement has ended. Ends
        the connection if it is still in a transaction."""
        try:
            await connection.execute("SELECT 1", timeout=self._timeouts)
            if connection.is_in_transaction():
                connection.terminate()
        except (*OUTAGES, asyncpg.PostgresError):
            connection.terminate()
        self._release(connection)

    def _release(self, connection: Any) -> None:
        if self._living(connection) is None:
            return
        if self._closed is not None:
            connection.terminate()
            self._lose()
        elif not self._hand(connection):
            loop = asyncio.get_running_loop()
            self._idle.append((connection, loop.time()))
            if self._sweeper is None:
                self._sweeper = loop.call_later(IDLE_SECONDS, self._sweep)

    def _living(self, connection: Any) -> Any:
        """The connection, or None if it has ended, after giving up its place."""
        if connection in self._expired:
            connection.terminate()
        if not connection.is_closed():
            return connection
        connection.terminate()  # if the server has closed it, the driver has more to clean up
        self._lose()
        return None

    def _lose(self) -> None:
        """Lets a waiting caller open a connection in place of one that has ended."""
        if self._closed is not None or not self._hand(None):
            self._open -= 1
        if self._closed is not None and not self._open:
            self._closed.set()

    def _hand(self, connection: Any) -> bool:
        """Gives a connection to the first waiting caller; returns whether there was one."""
        while self._callers:
            caller = self._callers.popleft()
            if not caller.done():
                caller.set_result(connection)
                return True
        return False

    def _sweep(self) -> None:
        """Ends connections that were idle for long, and schedules the next sweep for the others."""
        loop = asyncio.get_running_loop()
        while self._idle and self._idle[0][1] <= loop.time() - IDLE_SECONDS:
            self._open -= 1
            self._idle.pop(0)[0].terminate()
        again = self._idle[0][1] + IDLE_SECONDS if self._idle else None
        self._sweeper = None if again is None else loop.call_at(again, self._sweep)


class PoolReads:
    """A `Reader` by the connections of one pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        text, values = call(sql, params)
        with read_faults():
            async with self._pool.connection() as connection:
                row: Row | None = await connection.fetchrow(text, *values)
        return row

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        text, values = call(sql, params)
        with read_faults():
            async with self._pool.connection() as connection:
                return list(await connection.fetch(text, *values))

    async def snapshot(self, work: Callable[[Reader], Awaitable[T]]) -> T:
        with read_faults():
            async with self._pool.connection(isolation="repeatable_read", readonly=True) as one:
                return await work(Statements(one))
