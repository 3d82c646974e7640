"""Long reads of a SQLite file, in a few threads with their own connections."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from threading import Lock

import apsw

from portico.data.database import NOTHING, Params, PoolUse, Row
from portico.data.sqlite.connection import OUTAGES, OpenedFile, translated

READER_THREADS = 2
READ_SECONDS = 10.0
"""How long one read may take, as on PostgreSQL, since others wait for its thread."""
STEPS = 100_000
"""Instructions of SQLite's virtual machine between two checks of the time: a millisecond or two."""


class SlowReads:
    """Reads in a few threads with their own connections."""

    def __init__(self, file: OpenedFile, seconds: float = READ_SECONDS) -> None:
        self._file = file
        self._seconds = seconds
        self._idle: list[apsw.Connection] = []
        self._connections: list[apsw.Connection] = []
        self._threads = ThreadPoolExecutor(READER_THREADS, thread_name_prefix="sqlite-read")
        self._snapshots = asyncio.Semaphore(READER_THREADS)
        self._unfinished = 0
        self._waited = 0.0
        self._adding = Lock()

    def borrow(self) -> apsw.Connection:
        """Takes an idle connection or opens one. Runs in a thread."""
        try:
            return self._idle.pop()
        except IndexError:
            connection = self._file.connect()
            self._connections.append(connection)
            return connection

    def give_back(self, connection: apsw.Connection) -> None:
        """Returns a connection from `borrow`. Runs in any thread."""
        self._idle.append(connection)

    async def run(self, job: Future[list[Row]]) -> list[Row]:
        """Waits for the result of `submit`."""
        self._unfinished += 1
        try:
            return await asyncio.wrap_future(job)
        except OUTAGES as error:
            raise translated(error, self._file.path) from error
        finally:
            self._unfinished -= 1

    def submit(
        self, read: Callable[[str, Params], list[Row]], sql: str, params: Params
    ) -> Future[list[Row]]:
        """Starts a read in a thread."""
        asked = time.monotonic()

        def work() -> list[Row]:
            waited = time.monotonic() - asked
            with self._adding:
                self._waited += waited
            return read(sql, params)

        return self._threads.submit(work)

    def use(self) -> PoolUse:
        """How the threads are used now."""
        busy = min(self._unfinished, READER_THREADS)
        return PoolUse(busy, self._unfinished - busy, self._waited)

    def _read(self, sql: str, params: Params) -> list[Row]:
        connection = self.borrow()
        try:
            return self.rows(connection, sql, params)
        finally:
            self.give_back(connection)

    def rows(self, connection: apsw.Connection, sql: str, params: Params) -> list[Row]:
        """The rows of a statement. Runs in a thread. Raises `apsw.InterruptError` if it takes too
        long."""
        end = time.monotonic() + self._seconds
        connection.set_progress_handler(lambda: time.monotonic() > end, STEPS)
        return list(connection.execute(sql, params).fetchall())

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        return await self.run(self.submit(self._read, sql, params))

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        rows = await self.all(sql, params)
        return rows[0] if rows else None

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator["_Snapshot"]:
        async with self._snapshots:
            snapshot = _Snapshot(self)
            try:
                yield snapshot
            finally:
                snapshot.end()

    def close(self) -> None:
        self._threads.shutdown()
        for connection in self._connections:
            connection.close()


class _Snapshot:
    """Reads that all see the state of the database at the first of them."""

    def __init__(self, reads: SlowReads) -> None:
        self._reads = reads
        self._connection: apsw.Connection | None = None
        self._job: Future[list[Row]] | None = None

    def _read(self, sql: str, params: Params) -> list[Row]:
        if self._connection is None:
            self._connection = self._reads.borrow()
            self._connection.execute("BEGIN")
        return self._reads.rows(self._connection, sql, params)

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        self._job = self._reads.submit(self._read, sql, params)
        return await self._reads.run(self._job)

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        rows = await self.all(sql, params)
        return rows[0] if rows else None

    def end(self) -> None:
        """Returns the connection once no thread uses it: the caller may have been cancelled."""
        if self._job is not None:
            self._job.add_done_callback(self._give_back)

    def _give_back(self, _job: object) -> None:
        if self._connection is not None:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._reads.give_back(self._connection)
