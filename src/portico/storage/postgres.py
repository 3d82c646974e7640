"""PostgreSQL 14 and newer: a pool of prepared connections, one schema for each environment."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import asyncpg

from portico.domain.errors import Unavailable
from portico.storage.bell import Bell
from portico.storage.database import (
    NOTHING,
    Contended,
    Engine,
    Params,
    Reader,
    Row,
    UniqueViolation,
)
from portico.storage.parts import Part
from portico.storage.postgres_hosts import CONNECT_SECONDS, Hosts

OLDEST_SERVER = 140000
POOL_SIZE = 8
STATEMENT_SECONDS = 10.0
SCRIPT_SECONDS = 3600.0
"""A migration may build an index of many rows."""

LISTEN_RETRY_SECONDS = 1.0
BEAT_SECONDS = 0.5
"""How often a server is asked whether it is there."""

SILENT_SECONDS = 0.75
"""How long it may take to say so, before another is looked for."""

RINGS = ("events", "webhooks")
"""The tables for whose notices the bell rings; those of all others tell of credentials."""

_NAME = re.compile(r"(?<!:):([a-z_]+)")

_OUTAGES = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the server has just ended the connection
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.InsufficientResourcesError,
    asyncpg.TransactionRollbackError,
    asyncpg.ObjectInUseError,
    asyncpg.LockNotAvailableError,
    asyncpg.InvalidAuthorizationSpecificationError,
    asyncpg.InvalidCatalogNameError,
    asyncpg.PostgresSystemError,
)

# Of a pooler that gives each transaction another session, and knows of no statements in them.
_NOT_PREPARED = (asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError)
NOT_PREPARED = (
    "The pooler before the database keeps no prepared statements: its max_prepared_statements must"
    " be set, or prepared_statements be off."
)

_LOST = (
    OSError,  # TimeoutError is one
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
)
"""After these nobody knows what became of a commit."""

UNKNOWN = (
    "The database was lost while it stored this, and whether it did is unknown. A repeat with the"
    " same Idempotency-Key is safe."
)

# What a row refers to was there when it was read, so somebody has just deleted it.
_GOT_IN_THE_WAY = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.ForeignKeyViolationError,
)

# Every statement here reads a page or a count. The planner guesses a tenth of the table for a
# LIMIT that is a parameter, and would then hash the whole table or compile a plan for it.
_PLANNER = {
    "application_name": "portico",
    "jit": "off",
    "random_page_cost": "1.1",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}

_LOCK = "SELECT pg_advisory_xact_lock(7041775)"
_HAS_SCHEMA = "SELECT 1 FROM pg_namespace WHERE nspname = :schema"

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


def _call(sql: str, params: Params) -> tuple[str, Sequence[object]]:
    text, names = _positional(sql)
    return text, [params[name] for name in names]


@contextmanager
def _faults() -> Iterator[None]:
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
    except _NOT_PREPARED as error:
        raise Unavailable(NOT_PREPARED, retry_after=2) from error
    except _OUTAGES as error:
        raise Unavailable("The database is busy or out of reach.", retry_after=2) from error


class _Statements:
    """Statements on one connection, inside a transaction."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        text, values = _call(sql, params)
        row: Row | None = await self._connection.fetchrow(text, *values)
        return row

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        text, values = _call(sql, params)
        return list(await self._connection.fetch(text, *values))

    async def run(self, sql: str, params: Params = NOTHING) -> None:
        text, values = _call(sql, params)
        await self._connection.execute(text, *values)

    async def run_many(self, sql: str, rows: Iterable[Params]) -> None:
        text, names = _positional(sql)
        await self._connection.executemany(text, [[row[name] for name in names] for row in rows])

    async def script(self, sql: str) -> None:
        await self._connection.execute(sql, timeout=SCRIPT_SECONDS)

    def touch(self, *parts: Part) -> None:
        """Nobody is told: see `version_of`."""

    def touch_all(self) -> None:
        """As above."""


class PostgresDatabase:
    """One schema of a PostgreSQL database as a `Database`."""

    engine: Engine = "postgres"
    slow: Reader

    def __init__(
        self, url: str, schema: str, *, listen_url: str | None = None, prepared: bool = True
    ) -> None:
        """`url` is a `postgresql://` address, `schema` a plain lower-case name. `listen_url` leads
        to the servers themselves where `url` is that of a pooler; `prepared` is whether to keep
        prepared statements."""
        settings = {"search_path": schema, **_PLANNER}
        options: dict[str, Any] = {"command_timeout": STATEMENT_SECONDS}
        if not prepared:
            options["statement_cache_size"] = 0
        self._hosts = Hosts(url, settings, options)
        self._direct = Hosts(listen_url, settings, options) if listen_url else self._hosts
        local = (f"set_config('{name}', '{value}', true)" for name, value in settings.items())
        self._settings = f"SELECT {', '.join(local)}"
        self._place = _place(url)
        self._schema = schema
        self._changes = 0
        self._listening = False
        self._waiting = 0
        self._listener: asyncio.Task[None] | None = None
        self.bell = Bell()
        self.slow = self

    async def open(self) -> None:
        try:
            self._pool = await asyncpg.create_pool(
                connect=self._hosts.connect,
                min_size=0,  # else the pool itself tries to reach a server that is away, and logs
                max_size=POOL_SIZE,
                reset=_keep,
            )
            async with self._connection() as connection:
                version = await connection.fetchval("SELECT current_setting('server_version_num')")
            if self._direct is not self._hosts:
                (await self._direct.connect()).terminate()
        except _NOT_PREPARED as error:
            raise Unavailable(NOT_PREPARED) from error
        except (*_OUTAGES, asyncpg.PostgresError, ValueError) as error:
            raise Unavailable(f"{self._place} cannot be used: {_reason(error)}.") from error
        if int(version) < OLDEST_SERVER:
            raise Unavailable(f"{self._place} is too old: Portico needs version 14 or newer.")
        if self._direct is not self._hosts and not self._direct.keeps_sessions:
            raise Unavailable("database_listen_url leads to a pooler: name PostgreSQL itself.")
        self._listener = asyncio.ensure_future(self._listen())

    async def prepare(self) -> None:
        """Creates the schema, once, however many processes start."""
        async with self.transaction() as tx:
            await tx.one(_LOCK)
            if await tx.one(_HAS_SCHEMA, {"schema": self._schema}) is None:
                await tx.script(f'CREATE SCHEMA "{self._schema}"')

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
        with suppress(*_OUTAGES):  # whoever does not answer is left without a farewell
            async with asyncio.timeout(CONNECT_SECONDS):
                await self._pool.close()

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        text, values = _call(sql, params)
        with _faults():
            async with self._connection() as connection:
                row: Row | None = await connection.fetchrow(text, *values)
        return row

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        text, values = _call(sql, params)
        with _faults():
            async with self._connection() as connection:
                return list(await connection.fetch(text, *values))

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[_Statements]:
        with _faults():
            async with self._connection(isolation="repeatable_read", readonly=True) as connection:
                yield _Statements(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[_Statements]:
        committing = False
        try:
            with _faults():
                async with self._connection(isolation="read_committed") as connection:
                    yield _Statements(connection)
                    committing = True
        except Unavailable as error:
            if committing and isinstance(error.__cause__, _LOST):
                raise Unavailable(UNKNOWN, retry_after=2) from error
            raise
        finally:
            if committing:
                self._changes += 1

    def version(self) -> int:
        # Notices arrive within milliseconds; the second's tick bounds a notice that got lost, and
        # without a listener nothing that was read may be kept at all.
        if not self._listening:
            self._changes += 1
        return self._changes + (int(time.monotonic()) << 32)

    def version_of(self, _part: Part) -> None:
        # A notice of another host's commit may come after whoever committed was answered.
        return None

    def waiting(self) -> int:
        return self._waiting

    @asynccontextmanager
    async def _connection(self, **begin: Any) -> AsyncIterator[Any]:
        """A connection, in a transaction with these options where there are any. It has the
        settings of the session, in any case."""
        self._waiting += 1
        try:
            connection = await self._pool.acquire(timeout=CONNECT_SECONDS)
        finally:
            self._waiting -= 1
        try:
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
        except asyncpg.ReadOnlySQLTransactionError:
            connection.terminate()  # another server may take writes by now
            await self._pool.expire_connections()
            raise
        finally:
            await self._pool.release(connection)

    def _heard(self, _connection: object, _pid: int, _channel: str, of: object) -> None:
        if of in RINGS:
            self.bell.ring()
        else:
            self._changes += 1

    async def _listen(self) -> None:
        """Hears of other processes' changes for as long as the server is there. Whoever waits for
        one that fell silent is told so, at the latest when nobody else is found."""
        silent = False
        while True:
            try:
                connection = await self._direct.connect()
            except (*_OUTAGES, asyncpg.PostgresError) as error:
                if silent and isinstance(error, TimeoutError):
                    self._hosts.leave()
                await asyncio.sleep(LISTEN_RETRY_SECONDS)
                continue
            if self._direct is self._hosts:
                self._hosts.leave(but=connection)
            elif silent:
                self._hosts.leave()
            try:
                silent = await self._follow(connection)
            except asyncpg.PostgresError:  # of a standby, until it is promoted
                silent = False
                await asyncio.sleep(LISTEN_RETRY_SECONDS)

    async def _follow(self, connection: Any) -> bool:
        """Listens until the connection ends, or the server falls silent: tells whether it did.
        Raises `asyncpg.PostgresError` where the server lets nobody listen."""
        gone = asyncio.Event()
        connection.add_termination_listener(lambda *_: gone.set())
        try:
            if self._direct.keeps_sessions:  # else notices would come to nobody
                async with asyncio.timeout(CONNECT_SECONDS):
                    await connection.add_listener(self._schema, self._heard)
                self._changes += 1  # what changed before is known to nobody
                self.bell.ring()
                self._listening = True
            while not gone.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(BEAT_SECONDS):
                        await gone.wait()
                async with asyncio.timeout(SILENT_SECONDS):
                    await connection.execute("SELECT 1")
        except TimeoutError:
            return True
        except _OUTAGES:
            pass
        finally:
            self._listening = False
            connection.terminate()
        return False


def _place(url: str) -> str:
    """The database of a URL as it may be shown; a password that is badly encoded hides it all."""
    address, _, query = url.partition("//")[2].partition("?")
    return "PostgreSQL" if "@" in query else f"PostgreSQL at {address.rpartition('@')[2]}"


def _reason(error: Exception) -> str:
    """Why a connection fails, in a few words: several addresses fail with one text for all."""
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_SECONDS:.0f} seconds"
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).partition("\n")[0].rstrip(".")


async def _keep(_connection: object) -> None:
    """Leaves a connection as it is: nothing here changes a session's settings."""
