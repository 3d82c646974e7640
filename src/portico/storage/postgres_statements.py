"""Statements on a connection of asyncpg's, and what their errors mean."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import asyncpg

from portico.domain.errors import Unavailable
from portico.domain.health import FAILING, SILENT
from portico.storage.database import NOTHING, Contended, Params, Row, UniqueViolation
from portico.storage.parts import Part

SCRIPT_SECONDS = 3600.0
"""A migration may build an index of many rows."""

_NAME = re.compile(r"(?<!:):([a-z_]+)")

OUTAGES = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the server has just ended the connection
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.ObjectInUseError,
    asyncpg.LockNotAvailableError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.PostgresSystemError,
)

# Of a pooler that gives each transaction another session, and knows of no statements in them.
REFUSED_PREPARED = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)
NOT_PREPARED = (
    "The pooler before the database keeps no prepared statements: its max_prepared_statements must"
    " be set, or prepared_statements be off."
)

LOST = (
    OSError,  # TimeoutError is one
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
)
"""After these nobody knows what became of a commit."""

# What a row refers to was there when it was read, so somebody has just deleted it.
_GOT_IN_THE_WAY = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.ForeignKeyViolationError,
)

_NEXT_IDS = """
SELECT nextval(pg_get_serial_sequence(:table, 'id'))
FROM generate_series(1, CAST(:count AS BIGINT))"""
_UNMET = "PO001"
"""What the function `demand` ends a statement with."""

_PLACE = re.compile(r"\$([0-9]+)")
_CHANGES = re.compile(r"\s*(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")

_translations: dict[str, tuple[str, tuple[str, ...]]] = {}


def _positional(sql: str) -> tuple[str, tuple[str, ...]]:
    """`:name` parameters as PostgreSQL's `$1`, and their names in that order; worked out once."""
    known = _translations.get(sql)
    if known is None:
        names: list[str] = []

        def number(match: re.Match[str]) -> str:
            if match[1] not in names:
                names.append(match[1])
            return f"${names.index(match[1]) + 1}"

        known = _translations[sql] = (_NAME.sub(number, sql), tuple(names))
    return known


def call(sql: str, params: Params) -> tuple[str, Sequence[object]]:
    """A statement as asyncpg wants it, and its values."""
    text, names = _positional(sql)
    return text, [params[name] for name in names]


@cache
def _table(sql: str) -> str:
    """The table that a statement changes."""
    found = _CHANGES.match(sql)
    return found[1] if found else ""


def _moved(by: int, place: re.Match[str]) -> str:
    return f"${int(place[1]) + by}"


@cache
def _joined(statements: tuple[str, ...], demanded: tuple[bool, ...]) -> str:
    """Statements as one, which ends as a whole where one of the demanded ones gives no row: their
    parameters are numbered one after the other."""
    if len(statements) == 1 and not demanded[0]:
        return _positional(statements[0])[0]
    parts: list[str] = []
    before = 0
    for place, sql in enumerate(statements):
        text, names = _positional(sql)
        parts.append(f"part_{place} AS ({_PLACE.sub(partial(_moved, before), text)})")
        before += len(names)
    asked = [
        f"demand({place}, EXISTS (SELECT FROM part_{place}))"
        for place, is_demanded in enumerate(demanded)
        if is_demanded
    ]
    return f"WITH {', '.join(parts)} SELECT {', '.join(asked)}"


def _together(
    statements: Sequence[tuple[str, Params, Exception | None]],
) -> tuple[str, Sequence[object]]:
    """Statements as one, with its values."""
    text = _joined(
        tuple(sql for sql, _, _ in statements),
        tuple(otherwise is not None for _, _, otherwise in statements),
    )
    return text, [params[name] for sql, params, _ in statements for name in _positional(sql)[1]]


@contextmanager
def faults() -> Iterator[None]:
    """Raises what `Database` promises in the place of asyncpg's errors."""
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        raise UniqueViolation from error
    except _GOT_IN_THE_WAY as error:
        raise Contended from error
    except asyncpg.DiskFullError as error:
        raise Unavailable(
            "The database's disk is full; nothing was changed.", retry_after=30, why="full"
        ) from error
    except asyncpg.ReadOnlySQLTransactionError as error:
        raise Unavailable(
            "The database takes no writes; nothing was changed.", retry_after=2, why="read_only"
        ) from error
    except REFUSED_PREPARED as error:
        raise Unavailable(NOT_PREPARED, retry_after=2) from error
    except asyncpg.TooManyConnectionsError as error:
        raise Unavailable("The database takes no more connections.", 2, "crowded") from error
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise Unavailable("The database refuses Portico's login.", 2, FAILING) from error
    except OUTAGES as error:
        why = "locked" if isinstance(error, asyncpg.LockNotAvailableError) else SILENT
        raise Unavailable("The database is busy or out of reach.", 2, why) from error


class Statements:
    """Statements on one connection, inside a transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.touched: set[Part] = set()
        """The parts that were named."""
        self.touched_all = False

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        text, values = call(sql, params)
        row: Row | None = await self._connection.fetchrow(text, *values)
        return row

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        text, values = call(sql, params)
        return list(await self._connection.fetch(text, *values))

    async def run(self, sql: str, params: Params = NOTHING) -> None:
        text, values = call(sql, params)
        await self._connection.execute(text, *values)

    async def run_many(self, sql: str, rows: Iterable[Params]) -> None:
        text, names = _positional(sql)
        await self._connection.executemany(text, [[row[name] for name in names] for row in rows])

    async def script(self, sql: str) -> None:
        self.touched_all = True
        await self._connection.execute(sql, timeout=SCRIPT_SECONDS)


class Writes(Statements):
    """One write transaction on a connection.

    It begins with the first statement that is not among the `last` ones. Those go as one, which is
    a transaction of its own where nothing else was asked for: no row is locked then while anybody
    waits for this process.
    """

    def __init__(self, connection: Any, *, begun: bool) -> None:
        """`begun` is whether the connection is in a transaction, which somebody else commits."""
        super().__init__(connection)
        self._begun = begun
        self._transaction: Any = None
        self._last: dict[str, tuple[str, Params, Exception | None]] = {}
        self.committing = False
        """Whether nobody knows any more what became of it, should the server be lost."""

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        await self._begin()
        return await super().one(sql, params)

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        await self._begin()
        return await super().all(sql, params)

    async def run(self, sql: str, params: Params = NOTHING) -> None:
        await self._begin()
        await super().run(sql, params)

    async def run_many(self, sql: str, rows: Iterable[Params]) -> None:
        await self._begin()
        await super().run_many(sql, rows)

    async def script(self, sql: str) -> None:
        await self._begin()
        await super().script(sql)

    async def last(
        self, sql: str, params: Params = NOTHING, otherwise: Exception | None = None
    ) -> None:
        """See `Transaction`."""
        # Of two that change a table, the second may mean a row of the first.
        if (table := _table(sql)) in self._last:
            await self._begin()
        self._last[table] = sql, params, otherwise

    async def next_ids(self, table: str, count: int) -> Sequence[int]:
        """See `Transaction`. No transaction gives them back, so none is begun for them."""
        rows = await super().all(_NEXT_IDS, {"table": table, "count": count})
        return [row[0] for row in rows]

    async def commit(self) -> None:
        """Ends it, with its effects."""
        if self._last:
            self.committing = not self._begun
            await self._flush()
        self.committing = True
        transaction, self._transaction = self._transaction, None  # whatever comes, it has ended
        if transaction is not None:
            await transaction.commit()

    async def undo(self) -> None:
        """Ends it without any."""
        if self._transaction is not None:
            await self._transaction.rollback()

    async def _begin(self) -> None:
        if not self._begun:
            transaction = self._connection.transaction(isolation="read_committed")
            try:
                await transaction.start()
            except BaseException:
                self._connection.terminate()  # the driver would take any other for a part of it
                raise
            self._transaction, self._begun = transaction, True
        if self._last:
            await self._flush()

    async def _flush(self) -> None:
        asked, self._last = [*self._last.values()], {}
        text, values = _together(asked)
        try:
            await self._connection.execute(text, *values)
        except asyncpg.PostgresError as error:
            otherwise = asked[int(error.args[0])][2] if error.sqlstate == _UNMET else None
            if otherwise is None:
                raise
            raise otherwise from None

    def touch(self, *parts: Part) -> None:
        """This process need not wait for the notice; see `notices` for all others."""
        self.touched.update(parts)

    def touch_all(self) -> None:
        """As above."""
        self.touched_all = True
