"""Statements on an asyncpg connection, and the meaning of asyncpg's errors."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import asyncpg

from portico.core.errors import FAILING, FULL, SILENT, DatabaseUnusable, Unavailable
from portico.data.database import NOTHING, Contended, Dependency, Params, Row, UniqueViolation

SCRIPT_SECONDS = 86_400.0
"""Long enough for a migration that builds an index on a large table, or reads the whole table."""

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

# From a pooler that gives each transaction another session and does not keep prepared statements.
REFUSED_PREPARED = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)
NOT_PREPARED = (
    "The pooler in front of the database keeps no prepared statements: set its"
    " max_prepared_statements, or set prepared_statements to off."
)

LOST = (
    OSError,  # TimeoutError is one
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
)
"""After these errors the outcome of a commit is unknown."""

# A foreign key is among them: the row existed when it was read, so another transaction deleted it.
_CONFLICTS = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.ForeignKeyViolationError,
)

_UNREACHABLE = "The database is busy or unreachable."
_NO_WRITES = "The database accepts no writes; nothing was changed."


@lru_cache(maxsize=1024)  # all statements in the code, and some of those made for lists of ids
def positional(sql: str) -> tuple[str, tuple[str, ...]]:
    """Replaces `:name` parameters by PostgreSQL's `$1`; also returns their names in that order."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    return _NAME.sub(number, sql), tuple(names)


def call(sql: str, params: Params) -> tuple[str, Sequence[object]]:
    """A statement in asyncpg's form, and its values."""
    text, names = positional(sql)
    return text, [params[name] for name in names]


@contextmanager
def faults() -> Iterator[None]:
    """Raises the errors of the `Database` interface in place of asyncpg's."""
    try:
        yield
    except asyncpg.UniqueViolationError as error:
        raise UniqueViolation from error
    except _CONFLICTS as error:
        raise Contended from error
    except asyncpg.DiskFullError as error:
        raise Unavailable(
            "The database's disk is full; nothing was changed.", retry_after=30, why=FULL
        ) from error
    except asyncpg.ReadOnlySQLTransactionError as error:
        raise Unavailable(_NO_WRITES, retry_after=2, why="read_only") from error
    except asyncpg.InsufficientPrivilegeError as error:
        raise DatabaseUnusable(f"PostgreSQL refuses Portico's account: {error}.") from error
    except asyncpg.UndefinedTableError as error:
        raise DatabaseUnusable(f"The database is incomplete: {error}.") from error
    except REFUSED_PREPARED as error:
        raise Unavailable(NOT_PREPARED, retry_after=2) from error
    except asyncpg.TooManyConnectionsError as error:
        raise Unavailable("The database accepts no more connections.", 2, "crowded") from error
    except asyncpg.InvalidAuthorizationSpecificationError as error:
        raise Unavailable("The database refuses Portico's login.", 2, FAILING) from error
    except OUTAGES as error:
        why = "locked" if isinstance(error, asyncpg.LockNotAvailableError) else SILENT
        raise Unavailable(_UNREACHABLE, 2, why) from error
    except asyncpg.ObjectNotInPrerequisiteStateError as error:  # from a standby
        raise Unavailable(_NO_WRITES, retry_after=2, why="read_only") from error


@contextmanager
def read_faults() -> Iterator[None]:
    """As `faults`, for reads outside of a write transaction. They conflict only with what a standby
    replays, to which the address may lead until it is promoted."""
    try:
        with faults():
            yield
    except Contended as error:
        raise Unavailable(_UNREACHABLE, 2, SILENT) from error


class Statements:
    """Statements on one connection, inside a transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.touched: set[Dependency] = set()
        """The parts that were declared as changed."""
        self.touched_all = False

    async def _ready(self) -> Any:
        """The connection, once the transaction has begun."""
        return self._connection

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        text, values = call(sql, params)
        row: Row | None = await (await self._ready()).fetchrow(text, *values)
        return row

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        text, values = call(sql, params)
        return list(await (await self._ready()).fetch(text, *values))

    async def run(self, sql: str, params: Params = NOTHING) -> None:
        text, values = call(sql, params)
        await (await self._ready()).execute(text, *values)

    async def run_many(self, sql: str, rows: Iterable[Params]) -> None:
        text, names = positional(sql)
        each = [[row[name] for name in names] for row in rows]
        await (await self._ready()).executemany(text, each)

    async def script(self, sql: str) -> None:
        self.touched_all = True
        await (await self._ready()).execute(sql, timeout=SCRIPT_SECONDS)
