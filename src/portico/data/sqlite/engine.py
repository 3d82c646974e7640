"""SQLite: one writer with group commit, point reads on the event loop, long reads in threads.

A point read takes 5 µs here and five times that in a thread, so `one` and `all` run on the event
loop; reads that may take longer belong in `slow`.

Group commit: transactions take the writer one after another (`_join`). Each is a savepoint of the
current group, and becomes a member of it when it ends. The last of those waiting commits the group
in a thread (`_finish`, `_commit`), while the next group gathers. No caller continues before the
commit with its write is on disk.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import apsw

from portico.core.errors import OutcomeUnknown, Unavailable
from portico.data.database import (
    NOTHING,
    Dependency,
    Engine,
    Identified,
    Params,
    PartVersions,
    PoolUse,
    Reader,
    Reads,
    ReplicaState,
    Row,
    Signal,
    T,
    Transaction,
    UniqueViolation,
    Version,
)
from portico.data.sqlite.connection import BUSY_SECONDS, OUTAGES, OpenedFile, opened, translated
from portico.data.sqlite.reads import SlowReads

BUSY_STEP_SECONDS = 0.01
"""How long to wait between two tries for a lock that another process holds."""

GROUP_LIMIT = 256
"""The most transactions that share a commit."""

WATCH_SECONDS = 0.2
"""How often to check for commits of other processes, which reads shared memory."""

AT_ONCE = 25
"""Rows that one transaction writes before it yields to the event loop: several at a time, since
other transactions wait for this one."""
LATER_PARTS = 64
"""Batches of up to `AT_ONCE` rows that are held in memory for the end of a group."""

_LAST_ID = "SELECT seq FROM sqlite_sequence WHERE name = :table"

_UNIQUE = (apsw.SQLITE_CONSTRAINT_UNIQUE, apsw.SQLITE_CONSTRAINT_PRIMARYKEY)


async def _in_turns(rows: Iterable[Params]) -> AsyncIterator[list[Params]]:
    """Yields a few rows at a time, and lets the event loop run in between."""
    left = iter(rows)
    part = list(itertools.islice(left, AT_ONCE))
    while part:
        yield part
        if part := list(itertools.islice(left, AT_ONCE)):
            await asyncio.sleep(0)


class CommitGroup:
    """Transactions that share one commit."""

    def __init__(self) -> None:
        self.committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.members = 0
        self.later: list[tuple[str, Sequence[Params]]] = []
        """What is written just before the commit: statements, each with its rows."""


class SqliteWrites:
    """The writer connection as a `Transaction`."""

    def __init__(self, connection: apsw.Connection, versions: PartVersions) -> None:
        self._execute = connection.execute
        self._many = connection.executemany
        self.group: CommitGroup
        self.invalidate = versions.invalidate
        self.invalidate_all = versions.invalidate_all

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        row: Row | None = self._execute(sql, params).fetchone()
        return row

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        return list(self._execute(sql, params).fetchall())

    async def run(self, sql: str, params: Params = NOTHING) -> None:
        self._execute(sql, params).fetchall()

    async def run_many(self, sql: str, rows: Iterable[Params]) -> None:
        async for part in _in_turns(rows):
            self._many(sql, part).fetchall()

    async def conclude(
        self, sql: str, params: Params = NOTHING, otherwise: Exception | None = None
    ) -> None:
        row = self._execute(sql, params).fetchone()
        if otherwise is not None and row is None:
            raise otherwise

    async def defer(self, sql: str, rows: Iterable[Params]) -> None:
        # FTS5 flushes its buffer whenever a savepoint begins or ends, which would write a segment
        # of its index for each member instead of one for the group.
        later = self.group.later
        async for part in _in_turns(rows):
            later.append((sql, part))
            if len(later) >= LATER_PARTS:
                for one, some in later:
                    self._many(one, some).fetchall()
                    await asyncio.sleep(0)
                later.clear()

    async def next_ids(self, table: str, count: int) -> Sequence[int]:
        # No other transaction can take them: there is one writer at a time.
        row = self._execute(_LAST_ID, {"table": table}).fetchone()
        last: int = row[0] if row else 0
        return range(last + 1, last + 1 + count)

    async def script(self, sql: str) -> None:
        self.invalidate_all()
        self._execute(sql).fetchall()


class SqliteDatabase:
    """One SQLite file as a `Database`."""

    engine: Engine = "sqlite"
    slow: Reader

    def __init__(self, path: Path, *, create: bool = False) -> None:
        """`path` is the database file; its directory must exist. `create` is whether to create a
        missing file."""
        self._path = path
        self._create = create
        self._lock = asyncio.Lock()
        self._waiting = 0
        self._waited = 0.0
        self._group: CommitGroup | None = None
        self._orphan: asyncio.Future[None] | None = None
        """Commits a group whose members were all cancelled. Kept here, since the event loop keeps
        no strong reference to a task."""
        self._version: int | None = None
        self._parts = PartVersions()
        self._parts_seen: int | None = None
        self._others_seen: int | None = None
        self._commit_job: Future[object] | None = None
        self._watch: asyncio.Task[None] | None = None
        self.signal = Signal()
        self.replica: Reads = self

    async def open(self) -> None:
        self._call_soon = asyncio.get_running_loop().call_soon
        self._reader, self._writer = opened(self._path, create=self._create)
        self._file = OpenedFile(self._path)
        self._writes = SqliteWrites(self._writer, self._parts)
        self._read = self._reader.execute
        self._committer = ThreadPoolExecutor(1, thread_name_prefix="sqlite-commit")
        self.slow = self._slow = SlowReads(self._file)
        self._watch = asyncio.ensure_future(self._hear_others())

    async def prepare(self) -> None:
        """Nothing to do: `open` has created the file."""

    async def apart(self, tx: Transaction, sql: str) -> None:
        await tx.script(sql)

    async def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
        await asyncio.sleep(0)  # lets a pending `_expire` run first
        async with self._lock:
            self._committer.shutdown()
            self._slow.close()
            self._reader.close()
            self._writer.close()

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        try:
            row: Row | None = self._read(sql, params).fetchone()
        except OUTAGES as error:
            raise translated(error, self._path) from error
        return row

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        try:
            return list(self._read(sql, params).fetchall())
        except OUTAGES as error:
            raise translated(error, self._path) from error

    def row(self, rows: Identified, row_id: int) -> Awaitable[Row | None]:
        return self.one(rows.by_id, {"id": row_id})

    def version(self, *_parts: Dependency) -> int:
        # One read serves all requests of this turn of the event loop: everything that runs before
        # `_expire` was queued before this read, so it sees every commit made before it was queued.
        if self._version is None:
            self._call_soon(self._expire)
            try:
                # One transaction for the whole turn: to begin and end one costs as much as a read.
                # Not during a commit: a transaction that began before it would not see it.
                if self._commit_job is None and not self._reader.in_transaction:
                    self._read("BEGIN")
                self._version = int(self._read("PRAGMA data_version").get)
            except OUTAGES as error:
                raise translated(error, self._path) from error
        return self._version

    async def version_of(self, part: Dependency) -> Version | None:
        # The reader's version changes when any commit becomes visible, the writer's only by commits
        # of other processes. While a thread commits, it cannot be known whether another process's
        # commit has followed ours: then the version is unknown (docs/decisions/0029).
        version = self.version()
        if version != self._parts_seen:
            if self._commit_job is not None:
                if not self._commit_job.done():
                    return None
                self._parts.move()
            try:
                others = int(self._writer.execute("PRAGMA data_version").get)
            except OUTAGES as error:
                raise translated(error, self._path) from error
            if others != self._others_seen:
                self._see_commits()
                self._parts.move_all()
                self._others_seen = others
            self._parts_seen = version
        return self._parts.of(part)

    async def _hear_others(self) -> None:
        """Polls for commits of other processes, for which it rings the signal, and for the file
        having been moved."""
        seen = 0
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            self._file.check()
            with contextlib.suppress(Unavailable):
                seen, before = self.version(), seen
                if seen != before:
                    self.signal.notify()

    def _expire(self) -> None:
        self._version = None
        self._see_commits()

    def _see_commits(self) -> None:
        """Ends the read transaction of this turn, so that later reads see newer commits."""
        if self._reader.in_transaction:
            self._read("COMMIT")

    def pools(self) -> Mapping[str, PoolUse]:
        write = PoolUse(int(self._lock.locked()), self._waiting, self._waited)
        return {"write": write, "slow": self._slow.use()}

    def is_full(self) -> bool:
        return False  # on a full disk every write fails, the readiness probe's too

    def listening(self) -> bool:
        return True

    def replicas(self) -> Mapping[str, ReplicaState]:
        return {}

    async def snapshot(self, work: Callable[[Reader], Awaitable[T]]) -> T:
        async with self._slow.snapshot() as reader:
            return await work(reader)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[SqliteWrites]:
        group = await self._join()
        # The first member needs no savepoint: to undo it, the whole transaction can be rolled back.
        # A savepoint keeps every written page in memory, which may be too much for a large import.
        first = not group.members
        later_of_others = [*group.later]
        try:
            if not first:
                self._writer.execute("SAVEPOINT member")
            yield self._writes
            if not first:
                self._writer.execute("RELEASE member")
        except BaseException as error:
            # Also restores statements that this member ran early to free memory: undoing it has
            # undone them.
            group.later[:] = later_of_others
            self._undo(group)
            await self._finish(group)
            if isinstance(error, OUTAGES):
                raise translated(error, self._path) from error
            if isinstance(error, Exception):
                # The error may be due to another member's write, which is not committed yet.
                await asyncio.shield(group.committed)
            if (
                isinstance(error, apsw.ConstraintError)
                and getattr(error, "extendedresult", 0) in _UNIQUE
            ):
                raise UniqueViolation from error
            raise
        group.members += 1
        await self._finish(group)
        await asyncio.shield(group.committed)

    async def _join(self) -> CommitGroup:
        """Waits for the writer and takes it. Opens a group unless one is gathering. Raises
        `Unavailable` if the writer is not free in time."""
        time = asyncio.get_running_loop().time
        begun = time()
        deadline = begun + BUSY_SECONDS
        self._waiting += 1
        try:
            async with asyncio.timeout_at(deadline):
                await self._lock.acquire()
        except BaseException as error:
            self._waiting -= 1
            self._waited += time() - begun
            if self._group is not None and not self._lock.locked():
                # The last member left the commit to this caller, which was cancelled.
                self._orphan = asyncio.ensure_future(self._take_over())
            if isinstance(error, TimeoutError):
                raise translated(apsw.BusyError(), self._path) from error
            raise
        self._waiting -= 1
        self._waited += time() - begun
        if self._group is not None:
            return self._group
        try:
            await self._begin(deadline)
        except BaseException:
            self._lock.release()
            raise
        self._group = self._writes.group = CommitGroup()
        return self._group

    async def _begin(self, deadline: float) -> None:
        # Another process may hold the write lock. Waits here, since SQLite's own busy handler would
        # block the event loop.
        while True:
            self._file.require()
            try:
                self._writer.execute("BEGIN IMMEDIATE")
            except apsw.BusyError as error:
                if asyncio.get_running_loop().time() >= deadline:
                    raise translated(error, self._path) from error
                await asyncio.sleep(BUSY_STEP_SECONDS)
            except OUTAGES as error:
                raise translated(error, self._path) from error
            else:
                return

    async def _take_over(self) -> None:
        """Commits the gathering group in place of a caller that was cancelled."""
        await self._lock.acquire()
        if self._group is None:
            self._lock.release()
        else:
            await self._finish(self._group)

    def _undo(self, group: CommitGroup) -> None:
        """Rolls back the current member, or the whole group if that is not possible."""
        if not group.members and self._writer.in_transaction:
            self._roll_back()
            self._group = None
            group.committed.set_result(None)
            return
        try:
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK TO member; RELEASE member")
                return
        except apsw.Error:
            self._roll_back()
        # SQLite has rolled back everything, as it does if the disk is full.
        self._fail(group, Unavailable("The database failed; nothing was changed."))

    def _roll_back(self) -> None:
        """Rolls back the group's transaction, unless SQLite has already done so."""
        with contextlib.suppress(apsw.Error):
            if self._writer.in_transaction:
                self._writer.execute("ROLLBACK")

    def _fail(self, group: CommitGroup, error: Exception) -> None:
        """Raises `error` in every member of the group."""
        if self._group is group:
            self._group = None
        if not group.committed.done():
            group.committed.set_exception(error)
            group.committed.exception()  # marks it as retrieved: no member may be left to await it

    async def _finish(self, group: CommitGroup) -> None:
        """Releases the writer to the next member, or commits if no other waits or the group is
        full."""
        if self._group is not group or (self._waiting and group.members < GROUP_LIMIT):
            self._lock.release()
            return
        self._group = None
        task = asyncio.ensure_future(self._commit(group))
        # A cancelled caller must not leave the writer locked.
        await asyncio.shield(task)

    async def _commit(self, group: CommitGroup) -> None:
        """Commits the group in a thread, resumes its members, and releases the writer."""
        try:
            self._expire()
            self._commit_job = self._committer.submit(self._store, group.later)
            await asyncio.wrap_future(self._commit_job)
        except Exception as error:  # noqa: BLE001 - it goes to the members
            self._roll_back()
            failure = translated(error, self._path) if isinstance(error, OUTAGES) else error
            self._fail(group, failure)
        else:
            if not self._file.check():  # it may have been moved before or after the commit
                self._fail(group, OutcomeUnknown())
            elif not group.committed.done():
                group.committed.set_result(None)
        finally:
            self._commit_job = None
            self._parts.move()  # after a failure too, since it may have been committed anyway
            self._lock.release()

    def _store(self, later: Sequence[tuple[str, Sequence[Params]]]) -> None:
        """Runs the `later` statements, and commits. Runs in the committing thread."""
        for sql, rows in later:
            self._writer.executemany(sql, rows).fetchall()
        self._writer.execute("COMMIT")
