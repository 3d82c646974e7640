"""What storage asks of a database engine: reads, write transactions, and a version of the data.

SQL is literal and written once for both engines, with `:name` parameters. The engines themselves
are `sqlite` and `postgres`; only `portico.engines` chooses between them.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from enum import IntEnum
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from portico.domain.health import OK
from portico.storage.bell import Bell
from portico.storage.parts import Part, Version

Params = Mapping[str, object]
Row = Sequence[Any]
Engine = Literal["sqlite", "postgres"]

T = TypeVar("T")

NOTHING: Params = {}

acting_for: ContextVar[int | None] = ContextVar("acting_for", default=None)
"""The account for which the present task reads and writes, if any: it must see its own writes."""

traceparent: ContextVar[str | None] = ContextVar("traceparent", default=None)
"""The span of which the present task is part (W3C Trace Context §3.2), if it is traced: the events
that it stores carry it on."""

LOCKED: dict[Engine, str] = {"sqlite": "", "postgres": " FOR UPDATE"}
"""Ends a SELECT in a transaction that changes what it read: nobody else does so in between.
SQLite has one writer at a time anyway."""

SKIP_LOCKED: dict[Engine, str] = {"sqlite": "", "postgres": " FOR UPDATE SKIP LOCKED"}
"""`LOCKED`, for those rows alone that nobody else has locked."""

AMONG: dict[Engine, str] = {
    "sqlite": "IN (SELECT value FROM json_each(:ids))",
    "postgres": "= ANY (:ids)",
}
"""Stands behind a column: whether its id is one of those that `among` gives."""


def among(engine: Engine, ids: Iterable[int]) -> Params:
    """The parameter of `AMONG`; any number of ids."""
    return {"ids": msgspec.json.encode([*ids]).decode() if engine == "sqlite" else [*ids]}


class AdvisoryLock(IntEnum):
    """PostgreSQL's, by number: whatever uses the same database must take others."""

    SCHEMA = 7041775
    """Held while an environment's schema is made."""
    MIGRATION = 7041776
    ADMINS = 7041777
    SIGNING_KEYS = 7041778
    EVENTS = 7041779
    """Held while events get their numbers, by a function that migrations make."""
    WEBHOOKS = 7041780
    INDEX = 7041781
    """Held while an index is built concurrently."""
    RESTORE = 7041782
    """Held while a backup is restored, and while an environment's schema is made."""


def alone(lock: AdvisoryLock) -> dict[Engine, str]:
    """Has whoever else asks for this lock in the same schema wait until the transaction ends: where
    there may be no row to lock. SQLite has one writer at a time anyway."""
    taken = f"SELECT pg_advisory_xact_lock({lock}, hashtext(current_schema()))"
    return {"sqlite": "SELECT 1", "postgres": taken}


_LOCK_TIMEOUT = "SELECT set_config('lock_timeout', :wait, true)"


async def keep_unwritten(tx: "Transaction", engine: Engine, table: str) -> None:
    """Has whoever else writes to a table, or locks a row of it, wait until the transaction ends.
    Raises `Unavailable` where others still do after two seconds: all that come later wait behind
    this. SQLite has one writer at a time anyway."""
    if engine == "postgres":
        await tx.one(_LOCK_TIMEOUT, {"wait": "2s"})
        await tx.run(f"LOCK TABLE {table} IN EXCLUSIVE MODE")
        await tx.one(_LOCK_TIMEOUT, {"wait": "0"})


class Rank(IntEnum):
    """In which order a transaction locks rows, so that no two wait for each other in a ring."""

    USER = 1
    CLIENT = 2
    GRANT = 3
    REST = 4


class UniqueViolation(Exception):
    """A write met a unique index that already holds its value; the transaction is undone."""


class Contended(Exception):
    """Transactions got in each other's way, and this one is undone; it may be tried again."""


class Undo(Exception):
    """Raised inside a transaction that is to be undone, though nothing failed."""


class PoolUse(msgspec.Struct, frozen=True, array_like=True):
    """How callers use a group of connections: how many have one, how many wait for one, and how
    many seconds all of them have waited since the start."""

    busy: int = 0
    waiting: int = 0
    seconds: float = 0.0

    def beside(self, other: "PoolUse") -> "PoolUse":
        """Both together."""
        return PoolUse(
            self.busy + other.busy, self.waiting + other.waiting, self.seconds + other.seconds
        )


class ReplicaState(msgspec.Struct, frozen=True, array_like=True):
    """Whether a replica answers reads: `ok`, `primary` where it is none for now, or a word for why
    it is left out; for how many seconds it has lacked what the primary has; and why it does not
    answer, as far as that is known."""

    word: str
    lag: float
    reason: str = ""

    def beside(self, other: "ReplicaState") -> "ReplicaState":
        """The worse of what two processes have found."""
        worse = other if self.word == OK else self
        return ReplicaState(worse.word, max(self.lag, other.lag), worse.reason)


class Reader(Protocol):
    """Reads the last committed state. Every method raises `errors.Unavailable` when the engine
    does not answer in time."""

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        """The first row, or None."""
        ...

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        """Every row: only for statements that bound their own result."""
        ...


class Transaction(Reader, Protocol):
    """One write transaction: reads see its own writes, an exception undoes all of them."""

    async def run(self, sql: str, params: Params = NOTHING) -> None:
        """Runs one writing statement. Raises `UniqueViolation`."""
        ...

    async def run_many(self, sql: str, rows: Iterable[Params]) -> None:
        """Runs one writing statement for every row. Raises `UniqueViolation`."""
        ...

    async def script(self, sql: str) -> None:
        """Runs several statements without parameters: migrations."""
        ...

    async def last(
        self, sql: str, params: Params = NOTHING, otherwise: Exception | None = None
    ) -> None:
        """Runs one INSERT, UPDATE or DELETE before the next other statement, or the commit: several
        of different tables may go as one, and see nothing of each other's effects. It ends with
        `otherwise`, and undoes the transaction, where it gives no row."""
        ...

    async def later(self, sql: str, rows: Iterable[Params]) -> None:
        """Runs one writing statement for every row, in the order in which they were given but maybe
        not before the commit: for what nothing in the transaction reads, and no row can break."""
        ...

    async def next_ids(self, table: str, count: int) -> Sequence[int]:
        """Ids for new rows of a table, in order, that nobody else gets."""
        ...

    def touch(self, *parts: Part) -> None:
        """Names what the transaction changes, of the parts that `Database.version` and
        `Database.version_of` are asked for."""
        ...

    def touch_all(self) -> None:
        """Says that it may change any of them."""
        ...


class Identified(Protocol):
    """SELECTs of rows whose first column is the id."""

    @property
    def by_id(self) -> str:
        """By `:id`."""
        ...

    @property
    def by_ids(self) -> str:
        """By an array of ids, in PostgreSQL's own form."""
        ...


class Reads(Reader, Protocol):
    """Reads, short ones and slow ones."""

    engine: Engine
    slow: Reader
    """For reads that may take longer than a millisecond: they make no other request wait."""

    async def snapshot(self, work: Callable[[Reader], Awaitable[T]]) -> T:
        """What `work` makes of slow reads that all see one state, whatever is committed in between.
        It may run twice."""
        ...


class Database(Reads, Protocol):
    """One environment's durable truth."""

    shown: Reads
    """Reads for what callers are shown, which decide and change nothing: they may be of a second
    ago, but for what the account of `acting_for` was told is stored."""
    bell: Bell
    """Rings when there may be new events: whoever commits some rings it, and so does the engine
    for other processes."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """A write transaction. Leaving it without an exception means the commit is on disk.

        Raises `Contended` where others got in its way, and `UniqueViolation`.
        """
        ...

    def version(self, *parts: Part) -> int:
        """Changes whenever committed data of these parts may have changed, or of any where none is
        named: what was read under one version holds for as long as the version stays, and for less
        than a second where it cannot be known. Parts are those of `Table.part`, of what credentials
        are made of, clients and signing keys."""
        ...

    def row(self, rows: Identified, row_id: int) -> Awaitable[Row | None]:
        """As `one`, the row with this id: for what many callers ask for at one time."""
        ...

    async def version_of(self, part: Part) -> Version | None:
        """Changes whenever committed data may have changed that belongs to this part: what is read
        after the version was told holds for as long as the version stays.

        None where that cannot be told, or not now: nothing is kept then, nor what was kept used.
        """
        ...

    def pools(self) -> Mapping[str, PoolUse]:
        """How each group of connections is used, by its name, for the metrics."""
        ...

    def is_full(self) -> bool:
        """Whether a write has lately met a full disk, though another may be stored."""
        ...

    def listening(self) -> bool:
        """Whether what other processes commit is heard of now, for the metrics."""
        ...

    def replicas(self) -> Mapping[str, ReplicaState]:
        """How the replicas are that answer reads, by their addresses."""
        ...

    async def open(self) -> None:
        """Connects. Raises `errors.Unavailable` where nothing answers."""
        ...

    async def prepare(self) -> None:
        """Makes the place, where the engine needs one, for the first migration's tables."""
        ...

    async def apart(self, tx: Transaction, sql: str) -> None:
        """Runs one statement of a migration beside `tx` and outside of any transaction, for up to
        an hour; in `tx` where the engine knows nothing else."""
        ...

    async def close(self) -> None:
        """Closes every connection; what was committed stays."""
        ...
