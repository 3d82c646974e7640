"""The interface of a database engine: reads, write transactions, and versions of the data.

`Database` is at the end; it is made up of `Reader`, `Transaction` and `Reads`. The engines are
`sqlite` and `postgres`; only `portico.engines` chooses between them. SQL is written once for both,
with `:name` parameters. The constants below are the fragments in which the two differ.
"""

import asyncio
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from enum import IntEnum
from typing import Any, Literal, NamedTuple, Protocol, TypeVar
from weakref import WeakSet

import msgspec

STEPS = 10
"""The number of steps in which a timeout is counted."""


@asynccontextmanager
async def in_time(seconds: float) -> AsyncIterator[None]:
    """Raises `TimeoutError` if the block takes longer than this many seconds.

    A process that is paused, or gets no processor, has not seen an answer that has arrived
    meanwhile. So any such pause counts as at most one step.
    """
    loop = asyncio.get_running_loop()
    step: asyncio.TimerHandle

    def wait(steps: int) -> None:
        nonlocal step
        if steps:
            step = loop.call_later(seconds / STEPS, wait, steps - 1)
        else:
            limit.reschedule(loop.time())

    async with asyncio.timeout(None) as limit:
        wait(STEPS)
        try:
            yield
        finally:
            step.cancel()


class Waiter:
    """Waits for a signal. A ring before the wait is not lost."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def hear(self) -> None:
        """Ends the current wait, or the next one."""
        self._rung.set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits until the signal has rung since the last wait, for at most this many seconds;
        returns whether it has."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True


class Signal:
    """Rings when there may be something new."""

    def __init__(self) -> None:
        self._listeners: WeakSet[Waiter] = WeakSet()

    def notify(self) -> None:
        """Wakes every listener."""
        for listener in self._listeners:
            listener.hear()

    def listener(self) -> Waiter:
        """A new listener. It hears the signal for as long as the caller keeps a reference to it."""
        listener = Waiter()
        self._listeners.add(listener)
        return listener


Dependency = tuple[object, ...]
"""The name of a part of the data that has its own version."""

Version = int | str
"""The version of a part: a different value means that the part may have changed."""


class ListDependency(NamedTuple):
    """The pages of a list that show rows of one `list_counts.key`, and of one category if given."""

    table: str
    key: str
    category: str | None


_PLACES = 1 << 16


class PartVersions:
    """How often each part was changed, as far as this process knows.

    The counts are in a hash table of fixed size, so memory is bounded. Two parts that share a place
    change together, which costs a read but is never wrong.
    """

    def __init__(self) -> None:
        self._counts = array("Q", bytes(8 * _PLACES))
        self._all = 0
        self.moves = 0
        """How many changes of any part were counted."""
        self._touched: set[int] = set()
        self._touched_all = False

    def of(self, part: Dependency) -> int:
        """The version of a part: neither term ever decreases, so no sum occurs twice."""
        return self._all + self._counts[hash(part) % _PLACES]

    def invalidate(self, *parts: Dependency) -> None:
        """Marks these parts: the next `move` changes their versions."""
        self._touched.update(hash(part) % _PLACES for part in parts)

    def invalidate_all(self) -> None:
        """Marks every part: the next `move` changes every version."""
        self._touched_all = True

    def move(self) -> None:
        """Changes the versions of the parts that were touched since the last call."""
        for place in self._touched:
            self._counts[place] += 1
        self.moves += len(self._touched)
        self._touched.clear()
        if self._touched_all:
            self.move_all()
        self._touched_all = False

    def move_all(self) -> None:
        """Changes the version of every part."""
        self._all += 1
        self.moves += 1


Params = Mapping[str, object]
Row = Sequence[Any]
Engine = Literal["sqlite", "postgres"]

T = TypeVar("T")

NOTHING: Params = {}

acting_for: ContextVar[int | None] = ContextVar("acting_for", default=None)
"""The account for which the current task reads and writes, if any. Reads from a replica must show
what that account has written."""

traceparent: ContextVar[str | None] = ContextVar("traceparent", default=None)
"""The span of the current task, if it is traced (W3C Trace Context §3.2). Events that the task
stores carry it on."""

LOCKED: dict[Engine, str] = {"sqlite": "", "postgres": " FOR UPDATE"}
"""Appended to a SELECT in a transaction: locks its rows until the transaction ends. SQLite has one
writer at a time anyway."""

SKIP_LOCKED: dict[Engine, str] = {"sqlite": "", "postgres": " FOR UPDATE SKIP LOCKED"}
"""As `LOCKED`, but skips rows that another transaction has locked."""

IN_ID_LIST: dict[Engine, str] = {
    "sqlite": "IN (SELECT value FROM json_each(:ids))",
    "postgres": "= ANY (:ids)",
}
"""Appended to a column: true if its value is one of the ids given to `id_list`."""


def id_list(engine: Engine, ids: Iterable[int]) -> Params:
    """The parameter that `IN_ID_LIST` needs, for any number of ids."""
    return {"ids": msgspec.json.encode([*ids]).decode() if engine == "sqlite" else [*ids]}


class AdvisoryLock(IntEnum):
    """The keys of our PostgreSQL advisory locks. Other programs on the same database must not use
    them."""

    SCHEMA = 7041775
    """Held while the schema of an environment is created."""
    MIGRATION = 7041776
    ADMINS = 7041777
    SIGNING_KEYS = 7041778
    EVENTS = 7041779
    """Held while events are numbered, by a function that the migrations create."""
    WEBHOOKS = 7041780
    INDEX = 7041781
    """Held while an index is built concurrently."""
    RESTORE = 7041782
    """Held while a backup is restored, and while the schema of an environment is created."""


async def integer(reader: "Reader", sql: str, params: Params = NOTHING) -> int:
    """The first column of a statement's first row; 0 if there is no row, or if it is NULL."""
    row = await reader.one(sql, params)
    return row[0] if row and row[0] else 0


def exclusive_lock(lock: AdvisoryLock) -> dict[Engine, str]:
    """A statement that takes this lock, for this schema, until the transaction ends. For cases
    where there may be no row to lock. SQLite has one writer at a time anyway."""
    taken = f"SELECT pg_advisory_xact_lock({lock}, hashtext(current_schema()))"
    return {"sqlite": "SELECT 1", "postgres": taken}


_LOCK_TIMEOUT = "SELECT set_config('lock_timeout', :wait, true)"


async def keep_unwritten(tx: "Transaction", engine: Engine, table: str) -> None:
    """Locks a table until the transaction ends: others can read it, but neither write to it nor
    lock rows.

    Raises `Unavailable` if the lock is not free within two seconds, since all later writers wait
    behind this one. SQLite has one writer at a time anyway.
    """
    if engine == "postgres":
        await tx.one(_LOCK_TIMEOUT, {"wait": "2s"})
        await tx.run(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
        await tx.one(_LOCK_TIMEOUT, {"wait": "0"})


class Rank(IntEnum):
    """The order in which a transaction locks rows, so that no two deadlock."""

    USER = 1
    CLIENT = 2
    GRANT = 3
    REST = 4


class UniqueViolation(Exception):
    """A write violated a unique index; the transaction was rolled back."""


class Contended(Exception):
    """A conflict with another transaction (a deadlock, a serialization failure): this one was
    rolled back and may be retried."""


class Undo(Exception):
    """Raised inside a transaction to roll it back although nothing has failed."""


class PoolUse(msgspec.Struct, frozen=True, array_like=True):
    """The use of one connection pool: callers that hold a connection, callers waiting for one,
    and the total seconds that callers have waited since the start."""

    busy: int = 0
    waiting: int = 0
    seconds: float = 0.0

    def merged_with(self, other: "PoolUse") -> "PoolUse":
        """The sum of two processes or pools."""
        return PoolUse(
            self.busy + other.busy, self.waiting + other.waiting, self.seconds + other.seconds
        )


class ReplicaState(msgspec.Struct, frozen=True, array_like=True):
    """The state of one replica. `word` is `ok`, `primary` if the server is not a standby, or a
    word for why it is not used. `lag` is how many seconds it has been behind the primary.
    `reason` is why it does not answer, if known."""

    word: str
    lag: float
    reason: str = ""


class Reader(Protocol):
    """Reads the last committed state. Every method raises `errors.Unavailable` if the engine does
    not answer in time."""

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        """The first row, or None."""
        ...

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        """Every row. Only for statements that limit their own result."""
        ...


class Transaction(Reader, Protocol):
    """One write transaction. Its reads see its writes; an exception rolls all of them back."""

    async def run(self, sql: str, params: Params = NOTHING) -> None:
        """Runs one INSERT, UPDATE or DELETE. Raises `UniqueViolation`."""
        ...

    async def run_many(self, sql: str, rows: Iterable[Params]) -> None:
        """Runs one INSERT, UPDATE or DELETE for every row. Raises `UniqueViolation`."""
        ...

    async def script(self, sql: str) -> None:
        """Runs several statements without parameters, such as a migration."""
        ...

    async def conclude(
        self, sql: str, params: Params = NOTHING, otherwise: Exception | None = None
    ) -> None:
        """Runs one INSERT, UPDATE or DELETE, at the latest before the next statement of another
        method or the commit. PostgreSQL may combine several into one statement, in which they do
        not see each other's effects (docs/decisions/0036). If `otherwise` is given and the
        statement returns no row, that exception is raised and the transaction rolled back."""
        ...

    async def defer(self, sql: str, rows: Iterable[Params]) -> None:
        """Runs one INSERT, UPDATE or DELETE for every row, in the order of the calls, but perhaps
        only at the commit. For writes that nothing in the transaction reads and that no row can
        make fail (docs/decisions/measurements.md)."""
        ...

    async def next_ids(self, table: str, count: int) -> Sequence[int]:
        """Reserves `count` ids for new rows of a table, ascending. No other transaction gets
        them."""
        ...

    def invalidate(self, *parts: Dependency) -> None:
        """Declares the parts that the transaction changes, so that their `Database.version` and
        `Database.version_of` change when it commits."""
        ...

    def invalidate_all(self) -> None:
        """Declares that the transaction may change any part."""
        ...


class Identified(Protocol):
    """The SELECTs of a table by id. The first column is the id."""

    @property
    def by_id(self) -> str:
        """The row with the id `:id`."""
        ...

    @property
    def by_ids(self) -> str:
        """The rows with the ids of the array `$1`, in PostgreSQL's own parameter style."""
        ...


class Reads(Reader, Protocol):
    """Short reads (`one`, `all`) and slow reads."""

    engine: Engine
    slow: Reader
    """For reads that may take longer than a millisecond. They do not hold up other requests."""

    async def snapshot(self, work: Callable[[Reader], Awaitable[T]]) -> T:
        """Runs `work` with a reader whose reads all see the same state, and returns its result.
        `work` may run twice."""
        ...


class Database(Reads, Protocol):
    """The database of one environment."""

    replica: Reads
    """For reads that are shown to callers and decide nothing. They may come from a replica and so
    be up to a second old, but the account in `acting_for` always sees its own writes."""
    signal: Signal
    """Rings when there may be new events. Code that commits events rings it; the engine rings it
    for commits of other processes."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A write transaction. Once the block is left without an exception, the commit is on disk.

        Raises `Contended`, `UniqueViolation`, `errors.Unavailable`, and `errors.OutcomeUnknown` if
        it is not known whether the transaction was committed.
        """
        ...

    def version(self, *parts: Dependency) -> int:
        """A number that changes whenever committed data of these parts may have changed; without
        parts, any data. Data read under one version is valid until the version changes. While
        changes cannot be detected, the version changes by itself within a second.

        The parts are those of `Table.part`, for the tables of credentials and their owners,
        clients and signing keys. For use in memory only: the numbers mean nothing to another
        process."""
        ...

    def row(self, rows: Identified, row_id: int) -> Awaitable[Row | None]:
        """The row with this id, if any. For rows that many callers read at the same time:
        PostgreSQL combines these reads."""
        ...

    async def version_of(self, part: Dependency) -> Version | None:
        """A value that changes whenever committed data of this part may have changed. Data read
        after the value is valid until the value changes.

        Unlike `version`, it covers commits of every process at once. None if it is not known, or
        not now: then the caller may neither keep an answer nor use a kept one.
        """
        ...

    def pools(self) -> Mapping[str, PoolUse]:
        """The use of each connection pool by its name, for the metrics."""
        ...

    def is_full(self) -> bool:
        """Whether a write has recently failed because the disk is full, even if others succeed."""
        ...

    def listening(self) -> bool:
        """Whether commits of other processes are detected now, for the metrics."""
        ...

    def replicas(self) -> Mapping[str, ReplicaState]:
        """The state of each replica by its address."""
        ...

    async def open(self) -> None:
        """Connects. Raises `errors.Unavailable` if nothing answers; then nothing stays open."""
        ...

    async def prepare(self) -> None:
        """Creates what must exist before the first migration: PostgreSQL's schema."""
        ...

    async def apart(self, tx: Transaction, sql: str) -> None:
        """Runs one statement of a migration for up to a day: outside any transaction on PostgreSQL,
        while `tx` stays open; in `tx` on SQLite."""
        ...

    async def close(self) -> None:
        """Closes every connection."""
        ...
