"""PostgreSQL 14 and newer: one schema for each environment, and connection pools for it.

Its parts: connections (`pool`) to the primary (`hosts`), statements shared by many callers
(`batches`, `writes`), replicas, and what tells that something has changed (`notices`).
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import asyncpg

from portico.core.errors import FULL, OutcomeUnknown, Unavailable, WrongDatabase
from portico.data.database import (
    AdvisoryLock,
    Dependency,
    Engine,
    Identified,
    ListDependency,
    PoolUse,
    Reader,
    Reads,
    ReplicaState,
    Row,
    Signal,
    Transaction,
    Version,
    in_time,
)
from portico.data.postgres.batches import VERSION_SECONDS, ListVersions, Rows
from portico.data.postgres.hosts import CONNECT_SECONDS, Hosts, each_host, identity, is_same, reason
from portico.data.postgres.notices import CHECK_SECONDS, NUMBER, RETRY_SECONDS, Notices
from portico.data.postgres.pool import Pool, PoolReads
from portico.data.postgres.replicas import (
    BEAT_SECONDS,
    POSITION,
    SILENT_SECONDS,
    MemoryPositions,
    Positions,
    Replicas,
    ReplicatedReads,
)
from portico.data.postgres.statements import (
    LOST,
    NOT_PREPARED,
    OUTAGES,
    REFUSED_PREPARED,
    SCRIPT_SECONDS,
    faults,
)
from portico.data.postgres.writes import PostgresWrites, SharedStatement

OLDEST_SERVER = 140000
ENCODINGS = ("UTF8", "SQL_ASCII")
"""Encodings that keep any text: PostgreSQL converts nothing in the second one."""

POINT_CONNECTIONS = 3
POINT_ROWS = 32
"""The most callers of `row` that share a statement, all of whose rows, of up to a megabyte each,
are in memory at the same time."""

WRITE_CONNECTIONS = 6
SLOW_CONNECTIONS = 4
SLOW_TIMEOUT_SECONDS = 5.0
"""How long a slow read waits for a connection: longer than others, since an answer often needs
several slow reads."""

LISTEN_RETRY_SECONDS = 1.0
STATEMENT_SECONDS = 10.0
STOPPED_SECONDS = 8.0
"""How long a transaction may be idle before PostgreSQL ends it. Portico never pauses that long
between two statements, so its host has stopped or vanished. Less than `STATEMENT_SECONDS`, so that
others waiting for its locks still get them in time."""

FULL_SECONDS = 60.0
"""How long the disk counts as full after a write failed because it was. A later write that succeeds
proves nothing: PostgreSQL may have used space that it had already."""

RINGS = ("events", "webhooks")
"""The notifications that ring the signal; all others are for `Notices`."""

# Every statement here reads a page or a count. The planner guesses a tenth of the table for a
# LIMIT that is a parameter, and would then hash the whole table or compile a plan for it.
_PLANNER = {
    "application_name": "portico",
    "default_transaction_isolation": "read committed",
    "jit": "off",
    "random_page_cost": "1.1",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}

# Statements of many changes are longer than the driver keeps prepared by default.
_OPTIONS = {"command_timeout": STATEMENT_SECONDS, "max_cacheable_statement_size": 64 * 1024}

# Waits for other processes that create the schema, but not for a restore, which may take hours.
# Creators share the second lock: the next may get the first lock before the second is released.
_LOCK = f"""
SELECT pg_try_advisory_xact_lock_shared({AdvisoryLock.RESTORE})
FROM pg_advisory_xact_lock({AdvisoryLock.SCHEMA})"""
# PostgreSQL goes on building an index after its client was killed, so the session holds the lock.
# It is released explicitly, so that the next session need not wait for the end of this one.
_BUILD = f"""
SELECT pg_try_advisory_lock({AdvisoryLock.INDEX})
FROM set_config('statement_timeout', '0', false)"""
_BUILT = f"SELECT pg_advisory_unlock({AdvisoryLock.INDEX})"
_WAITS = f"SET LOCAL idle_in_transaction_session_timeout = '{2 * SCRIPT_SECONDS:g}s'"
_SUITS = "SELECT current_setting('server_version_num'), current_setting('server_encoding')"
_HAS_SCHEMA = "SELECT 1 FROM pg_namespace WHERE nspname = :schema"


class PostgresDatabase:
    """One schema of a PostgreSQL database as a `Database`."""

    engine: Engine = "postgres"
    slow: Reader

    def __init__(
        self,
        url: str,
        schema: str,
        *,
        listen_url: str | None = None,
        read_url: str | None = None,
        positions: Positions | None = None,
        prepared: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`url` is a `postgresql://` address, `schema` a plain lower-case name. `listen_url` is the
        address of the servers themselves if `url` is a pooler's; `read_url` is that of standbys.
        `positions` keeps the positions of callers' writes for all hosts (None: for this process).
        `prepared` is whether to use prepared statements. `clock` is monotonic, in seconds."""
        stopped = f"{STOPPED_SECONDS:g}s"
        settings = {
            "search_path": schema,
            "idle_in_transaction_session_timeout": stopped,
            **_PLANNER,
        }
        options = dict(_OPTIONS)
        if not prepared:
            options["statement_cache_size"] = 0
        self._hosts = Hosts(url, settings, options)
        self._direct = Hosts(listen_url, settings, options) if listen_url else self._hosts
        self._place = _place(url)
        self._schema = schema
        self._clock = clock
        self._full_until = -math.inf
        self._notices = Notices(clock)
        self._listener: asyncio.Task[None] | None = None
        self.signal = Signal()
        self._writes = Pool(self._hosts, settings, WRITE_CONNECTIONS, CONNECT_SECONDS)
        point = Pool(self._hosts, settings, POINT_CONNECTIONS, CONNECT_SECONDS)
        slow = Pool(self._hosts, settings, SLOW_CONNECTIONS, SLOW_TIMEOUT_SECONDS)
        check = Pool(self._hosts, settings, 1, CONNECT_SECONDS)
        version = Pool(self._hosts, settings, 1, VERSION_SECONDS)
        self._pools = {
            "point": point,
            "write": self._writes,
            "slow": slow,
            "check": check,
            "version": version,
        }
        self._point, self._checks = PoolReads(point), PoolReads(check)
        self._shared = SharedStatement(self._writes, self._hosts)
        self._rows = Rows(point, POINT_ROWS)
        self._list_versions = ListVersions(version, clock)
        self.one, self.all = self._point.one, self._point.all
        slow_reads = PoolReads(slow)
        self.slow = slow_reads
        self.snapshot = slow_reads.snapshot
        self.replica: Reads = self
        self._replicas: Replicas | None = None
        if read_url:
            known = positions or MemoryPositions()
            self._replicas = Replicas(each_host(read_url), settings, options, known)
            slowly = ReplicatedReads(self._replicas, lambda one: one.slow, slow_reads)
            self.replica = ReplicatedReads(
                self._replicas, lambda one: one.short, self._point, slowly
            )

    async def open(self) -> None:
        try:
            await self._try()
        except BaseException:
            await self.close()
            raise
        self._listener = asyncio.ensure_future(self._listen())
        if self._replicas is not None:
            await self._replicas.open()

    async def _try(self) -> None:
        """Connects once. Raises `Unavailable` if the server does not answer or is unsuitable, and
        `WrongDatabase` if the database's encoding is."""
        try:
            async with self._pools["point"].connection() as connection:
                version, encoding = await connection.fetchrow(_SUITS)
                is_split = self._direct is not self._hosts and not await self._leads_to(connection)
        except REFUSED_PREPARED as error:
            raise Unavailable(NOT_PREPARED) from error
        except (*OUTAGES, asyncpg.PostgresError, ValueError) as error:
            raise Unavailable(f"{self._place} cannot be used: {reason(error)}.") from error
        if int(version) < OLDEST_SERVER:
            raise Unavailable(f"{self._place} is too old: Portico needs version 14 or newer.")
        if encoding not in ENCODINGS:
            raise WrongDatabase(
                f"{self._place} has the encoding {encoding}, which lacks letters: name a"
                " database in database_url that was created with ENCODING 'UTF8' TEMPLATE"
                " template0."
            )
        if self._direct is not self._hosts and not self._direct.keeps_sessions:
            raise Unavailable("database_listen_url leads to a pooler: name PostgreSQL itself.")
        if is_split:
            raise Unavailable("database_listen_url leads to another database than database_url.")

    async def _leads_to(self, connection: Any) -> bool:
        """Whether `listen_url` leads to the same database. True for a pooler, refused later."""
        direct = await self._direct.connect()
        try:
            if not self._direct.keeps_sessions:
                return True
            return is_same(await identity(direct), await identity(connection))
        finally:
            direct.terminate()

    async def prepare(self) -> None:
        """Creates the schema if there is none, also if several processes start at the same time.
        Raises `Unavailable` while a backup is being restored: the restored schema is not complete
        and may be removed again."""
        async with self.transaction() as tx:
            if not (await tx.all(_LOCK))[0][0]:
                raise Unavailable("The database is being restored: wait until that has ended.", 2)
            if await tx.one(_HAS_SCHEMA, {"schema": self._schema}) is None:
                await tx.script(f'CREATE SCHEMA "{self._schema}"')

    async def apart(self, tx: Transaction, sql: str) -> None:
        # Otherwise `tx` keeps its last snapshot, and building an index waits for its end.
        await tx.script(_WAITS)
        with faults():
            connection = await self._direct.connect()
            try:
                if not await connection.fetchval(_BUILD):
                    raise Unavailable("An index is being built.", 2, "locked")
                await connection.execute(sql, timeout=SCRIPT_SECONDS)
                await connection.execute(_BUILT)
            finally:
                connection.terminate()

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.cancel()
        with suppress(*OUTAGES):  # does not wait for a server that does not answer
            async with asyncio.timeout(CONNECT_SECONDS):
                if self._replicas is not None:
                    await self._replicas.close()
                await asyncio.gather(*(pool.close() for pool in self._pools.values()))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[PostgresWrites]:
        tx: PostgresWrites | None = None
        try:
            with faults():
                async with AsyncExitStack() as stack:
                    tx = PostgresWrites(stack, self._writes, self._hosts, self._shared)
                    if not self._hosts.keeps_sessions:
                        await tx.connect()  # ids and rows must come from one session
                    try:
                        yield tx
                        await tx.commit()
                    except TimeoutError:
                        raise  # a silent server would not answer ROLLBACK either: the pool ends it
                    except BaseException:
                        await tx.undo()
                        raise
        except Unavailable as error:
            if tx and tx.committing and isinstance(error.__cause__, LOST):
                raise OutcomeUnknown from error
            if error.why == FULL:
                self._full_until = self._clock() + FULL_SECONDS
            if error.why == "read_only":
                for pool in self._pools.values():  # another server may be the primary by now
                    await pool.expire()
            raise
        finally:
            if tx and tx.committing:
                self._notices.stored(tx.touched)
                if tx.touched_all:
                    self._notices.forget()
        if self._replicas is not None:
            await self._replicas.stored(self._point)

    def version(self, *parts: Dependency) -> int:
        return self._notices.version(parts)

    async def row(self, rows: Identified, row_id: int) -> Row | None:
        return await self._rows.one(rows.by_ids, row_id)

    async def version_of(self, part: Dependency) -> Version | None:
        # Read from the database: the notification of another host's commit may arrive after its
        # writer was answered. Only for lists: reading a row takes as long as reading its version.
        # Not with replicas or a pooler: one server's list may be older than another's version.
        from_one = self._replicas is None and self._hosts.keeps_sessions
        if not isinstance(part, ListDependency) or not from_one:
            return None
        return await self._list_versions.of(part)

    def pools(self) -> Mapping[str, PoolUse]:
        here = {name: pool.use() for name, pool in self._pools.items()}
        return here if self._replicas is None else here | self._replicas.pools()

    def replicas(self) -> Mapping[str, ReplicaState]:
        return {} if self._replicas is None else self._replicas.states()

    def is_full(self) -> bool:
        return self._clock() < self._full_until

    def listening(self) -> bool:
        return self._notices.complete

    def _heard(self, _connection: object, _pid: int, _channel: str, text: str) -> None:
        if text in RINGS:
            self.signal.notify()
        else:
            self._notices.hear(text)

    async def _check(self) -> None:
        """Checks periodically that all notifications arrived, by the same route by which cached
        data is read."""
        while True:
            pause = CHECK_SECONDS
            with suppress(Unavailable, asyncpg.PostgresError):  # such as before any migration
                check = self._notices.begin()
                row = await self._checks.one(NUMBER) or (0, 0)
                if not self._notices.end(check, *row):
                    pause = RETRY_SECONDS
            await asyncio.sleep(pause)

    async def _listen(self) -> None:
        """Listens for changes of other processes, and reconnects when the connection is lost. If
        the server fell silent, ends the connections of all who wait for it: at once if another
        server is found, else when connecting has timed out."""
        silent = False
        while True:
            try:
                connection = await self._direct.connect()
            except (*OUTAGES, asyncpg.PostgresError) as error:
                if silent and isinstance(error, TimeoutError):
                    self._hosts.disconnect()
                await asyncio.sleep(LISTEN_RETRY_SECONDS)
                continue
            if self._direct is self._hosts:
                self._hosts.disconnect(but=connection)
            elif silent:
                self._hosts.disconnect()
            try:
                silent = await self._follow(connection)
            except asyncpg.PostgresError:  # from a standby, until it is promoted
                silent = False
                await asyncio.sleep(LISTEN_RETRY_SECONDS)

    async def _follow(self, connection: Any) -> bool:
        """Listens until the connection ends (False) or the server falls silent (True). Raises
        `asyncpg.PostgresError` if the server refuses LISTEN."""
        gone = asyncio.Event()
        connection.add_termination_listener(lambda *_: gone.set())
        checks: asyncio.Task[None] | None = None
        try:
            if self._replicas is not None:
                async with asyncio.timeout(CONNECT_SECONDS):
                    self._replicas.log.database = await identity(connection)
            if self._direct.keeps_sessions:  # a pooler would deliver no notifications
                async with asyncio.timeout(CONNECT_SECONDS):
                    await connection.add_listener(self._schema, self._heard)
                self.signal.notify()  # earlier notifications were missed
                checks = asyncio.ensure_future(self._check())
            while not gone.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(BEAT_SECONDS):
                        await gone.wait()
                async with in_time(SILENT_SECONDS):
                    await self._beat(connection)
        except TimeoutError:
            return True
        except OUTAGES:
            pass
        finally:
            if checks is not None:
                checks.cancel()
            self._notices.lose()
            connection.terminate()
        return False

    async def _beat(self, connection: Any) -> None:
        """Checks that the server answers; with replicas, also reads the position of its log."""
        if self._replicas is None:
            await connection.execute("SELECT 1")
        else:
            asked = self._replicas.log.begin()
            self._replicas.log.note(asked, *await connection.fetchrow(POSITION))


def _place(url: str) -> str:
    """The database of a URL, for messages; never its password, however it is encoded."""
    address, _, query = url.partition("//")[2].partition("?")
    return "PostgreSQL" if "@" in query else f"PostgreSQL at {address.rpartition('@')[2]}"
