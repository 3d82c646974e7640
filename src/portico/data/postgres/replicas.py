"""Reads from standbys that follow their primary closely, for data that is shown to callers.

A standby answers a read if it has replayed the primary's log up to where it was a second ago, on
the same timeline, and up to where it was when the caller's last change was stored. That is checked
before each read, on the connection that reads. No caller waits for a standby: one that is behind,
silent or gone is skipped, and a read that fails there is repeated on the primary.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

import asyncpg

from portico.core.errors import BEHIND, FAILING, FOREIGN, OK, PRIMARY, SILENT, Unavailable
from portico.data.database import (
    NOTHING,
    Engine,
    Params,
    PoolUse,
    Reader,
    ReplicaState,
    Row,
    acting_for,
    in_time,
)
from portico.data.postgres.hosts import Hosts, identity, is_same, reason
from portico.data.postgres.pool import Pool, PoolReads
from portico.data.postgres.statements import OUTAGES

T = TypeVar("T")

LAG_SECONDS = 1.0
"""How far a replica may be behind the primary."""

LIFE_SECONDS = 10.0
"""How long a position is kept: much longer than the permitted lag."""

TIMEOUT_SECONDS = 0.5
"""How long a replica may take to give a connection, and to report its position."""

LOCK_TIMEOUT = "500ms"
"""How long a read may wait for a lock on the replica. The primary has released it long ago, but the
replica keeps it while its replay waits for other reads."""

LONG_SECONDS = 5.0
"""A read that timed out after longer than this is not repeated on the primary."""

BEAT_SECONDS = 0.5
"""How often to check that a server answers, the primary too."""

SILENT_SECONDS = 0.75
"""How long the check may take before the server counts as silent."""

SHORT_CONNECTIONS = 4
SLOW_CONNECTIONS = 4
REMEMBERED = 120
"""For how many beats the primary's position is remembered."""

POSITION = """
SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint,
    pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"""
"""The primary's timeline and the position of its log, in bytes."""

# A standby's own files show its timeline to every account, but only after the next checkpoint. Its
# WAL receiver shows it at once, but only to accounts that may read statistics. It never receives a
# timeline that it could not replay.
_REPLAYED = """
SELECT CASE WHEN pg_is_in_recovery()
        THEN greatest(checkpoint.timeline_id, recovery.min_recovery_end_timeline,
            (SELECT received_tli FROM pg_stat_wal_receiver))::bigint
        ELSE 0 END,
    coalesce(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'), 0)::bigint
FROM pg_control_checkpoint() AS checkpoint, pg_control_recovery() AS recovery"""


class Positions(Protocol):
    """The position in the primary's log at which each caller's last change was stored, by the
    account's id. Every host must know it, so that none shows the caller older data."""

    async def note(self, caller: int, position: int) -> None:
        """Keeps a caller's position for `LIFE_SECONDS`, or the kept one if that is higher. Raises
        `errors.Unavailable`."""
        ...

    async def of(self, caller: int) -> int:
        """The caller's position, or 0 if none is kept. Raises `errors.Unavailable`."""
        ...

    async def close(self) -> None:
        """Closes every connection."""
        ...


class MemoryPositions:
    """Positions in memory, for a server of one process."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[int, float]] = {}

    async def note(self, caller: int, position: int) -> None:
        now = time.monotonic()
        before, _ = self._kept.pop(caller, (0, 0.0))
        self._kept[caller] = max(before, position), now + LIFE_SECONDS
        while self._kept[oldest := next(iter(self._kept))][1] < now:
            del self._kept[oldest]

    async def of(self, caller: int) -> int:
        position, until = self._kept.get(caller, (0, 0.0))
        return position if until > time.monotonic() else 0

    async def close(self) -> None:
        """There is nothing to close."""


class Behind(Exception):
    """A replica lacks data that the reader must see."""


class Log:
    """The recent positions of the primary's log, with their times, and the database's identity."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int, int]] = deque(maxlen=REMEMBERED)
        self.database: list[Any] = []
        """The `identity` of the primary's database; empty until it is known."""

    def begin(self) -> float:
        """The time at which the primary is asked, for `note`."""
        return time.monotonic()

    def note(self, asked: float, timeline: int, position: int) -> None:
        """Records the primary's answer to `POSITION`."""
        self._seen.append((asked, timeline, position))

    def required(self) -> tuple[int, int]:
        """The timeline, and the position that a replica must have reached to show nothing older
        than `LAG_SECONDS`. Raises `Behind` if that is not known."""
        since = time.monotonic() - LAG_SECONDS
        recent = [
            (timeline, position) for asked, timeline, position in self._seen if asked >= since
        ]
        if not recent:
            raise Behind
        return next(one for one in recent if one[0] == recent[-1][0])

    def lag(self, position: int) -> float:
        """For how many seconds the primary has been past a position."""
        now = time.monotonic()
        return next((now - asked for asked, _, reached in self._seen if reached > position), 0.0)


class Replica:
    """One standby, its connections, and whether it can be read from."""

    def __init__(
        self,
        url: str,
        settings: Mapping[str, str],
        options: Mapping[str, Any],
        log: Log,
        positions: Positions,
    ) -> None:
        """`url` names one host; for the other arguments see `Hosts` and `Replicas`."""
        settings = {**settings, "lock_timeout": LOCK_TIMEOUT}
        parts = urlsplit(url)
        self.name = f"{parts.hostname}:{parts.port or 5432}"
        self._hosts = Hosts(url, settings, options)
        self._log = log
        self._positions = positions
        self._position = 0
        self._word = SILENT
        self._reason = ""
        self._watcher: asyncio.Task[None] | None = None
        self.short = Pool(self._hosts, settings, SHORT_CONNECTIONS, TIMEOUT_SECONDS, self._check)
        self.slow = Pool(self._hosts, settings, SLOW_CONNECTIONS, TIMEOUT_SECONDS, self._check)

    @property
    def is_fit(self) -> bool:
        """Whether it could be read from when it was last checked."""
        return self._word == OK

    @property
    def state(self) -> ReplicaState:
        """Its state when it was last checked."""
        lag = 0.0 if self._word == PRIMARY else self._log.lag(self._position)
        return ReplicaState(self._word, lag, self._reason)

    async def open(self) -> None:
        """Begins to connect and watch in the background: a missing standby must not delay the
        start."""
        self._watcher = asyncio.ensure_future(self._watch())

    async def close(self) -> None:
        """Ends all connections at once, without waiting for reads."""
        if self._watcher is not None:
            self._watcher.cancel()
        self._hosts.disconnect()
        await asyncio.gather(self.short.close(), self.slow.close())

    async def _check(self, connection: Any) -> None:
        """Raises `Behind` if the current task must not read by this connection."""
        timeline, position = self._log.required()
        if (reader := acting_for.get()) is not None:
            position = max(position, await self._positions.of(reader))
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                reached = await connection.fetchrow(_REPLAYED)
        except TimeoutError:
            connection.terminate()
            raise
        if reached[0] != timeline or reached[1] < position:
            raise Behind

    async def _watch(self) -> None:
        """Checks its state periodically."""
        while True:
            try:
                connection = await self._hosts.connect()
            except (*OUTAGES, asyncpg.PostgresError, ValueError) as error:
                self._word, self._reason = SILENT, reason(error)
            else:
                self._reason = ""
                self._word = await self._follow(connection)
                self._hosts.disconnect()  # callers that wait for an answer read from the primary
            await asyncio.sleep(BEAT_SECONDS)

    async def _follow(self, connection: Any) -> str:
        """Asks for its position until that fails; returns the word for why it did."""
        try:
            async with in_time(SILENT_SECONDS):
                database = await identity(connection)
            while True:
                async with in_time(SILENT_SECONDS):
                    timeline, self._position = await connection.fetchrow(_REPLAYED)
                self._word = self._judge(database, timeline)
                await asyncio.sleep(BEAT_SECONDS)
        except OUTAGES:
            return SILENT
        except asyncpg.PostgresError:
            return FAILING

    def _judge(self, database: list[Any], timeline: int) -> str:
        if not is_same(database, self._log.database):
            return FOREIGN
        if not timeline:
            return PRIMARY
        try:
            wanted, position = self._log.required()
        except Behind:
            return BEHIND
        return OK if timeline == wanted and self._position >= position else BEHIND


class Replicas:
    """The standbys in `database_read_url`."""

    def __init__(
        self,
        urls: Iterable[str],
        settings: Mapping[str, str],
        options: Mapping[str, Any],
        positions: Positions,
    ) -> None:
        """Each of `urls` names one host; for `settings` and `options` see `Hosts`."""
        self.log = Log()
        self._positions = positions
        self._all = deque(Replica(url, settings, options, self.log, positions) for url in urls)

    async def open(self) -> None:
        """Begins to watch them."""
        for replica in self._all:
            await replica.open()

    async def close(self) -> None:
        """Ends all connections."""
        await asyncio.gather(*(replica.close() for replica in self._all), self._positions.close())

    def states(self) -> dict[str, ReplicaState]:
        """Their states by address."""
        return {replica.name: replica.state for replica in self._all}

    def pools(self) -> dict[str, PoolUse]:
        """The use of their connections, all replicas together."""
        short = slow = PoolUse()
        for replica in self._all:
            short = short.merged_with(replica.short.use())
            slow = slow.merged_with(replica.slow.use())
        return {"replica": short, "replica_slow": slow}

    def one(self) -> Replica | None:
        """The next replica that can be read from, each in turn; None if there is none, or if the
        task acts for no account."""
        if acting_for.get() is not None:
            for _ in range(len(self._all)):
                self._all.rotate()
                if self._all[0].is_fit:
                    return self._all[0]
        return None

    async def stored(self, primary: Reader) -> None:
        """Ensures that the account in `acting_for` sees what was just stored on every host."""
        if (writer := acting_for.get()) is None:
            return
        try:
            row = await primary.one(POSITION)
            await self._positions.note(writer, row[1] if row else 0)
        except Unavailable:
            # After that, every replica that answers reads has replayed it.
            await asyncio.sleep(LAG_SECONDS)


class ReplicatedReads:
    """Reads from a replica that is up to date, else from the primary."""

    engine: Engine = "postgres"

    def __init__(
        self,
        replicas: Replicas,
        choose: Callable[[Replica], Pool],
        primary: PoolReads,
        slow: "ReplicatedReads | None" = None,
    ) -> None:
        """`choose` picks a pool of a replica, `primary` reads in place of a replica, and `slow` is
        for slow reads; None if this object is."""
        self._replicas = replicas
        self._choose = choose
        self._primary = primary
        self.slow: Reader = slow or self
        self._snapshots = slow or self

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        return await self.read(lambda reads: reads.one(sql, params))

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        return await self.read(lambda reads: reads.all(sql, params))

    async def snapshot(self, work: Callable[[Reader], Awaitable[T]]) -> T:
        return await self._snapshots.read(lambda reads: reads.snapshot(work))

    async def read(self, read: Callable[[PoolReads], Awaitable[T]]) -> T:
        """Calls `read` for a replica, or for the primary, and returns its result. `read` may run
        twice."""
        if (replica := self._replicas.one()) is not None:
            begun = time.monotonic()
            try:
                return await read(PoolReads(self._choose(replica)))
            except (Behind, asyncpg.PostgresError):
                pass  # a PostgresError if, for example, a new table is not there yet
            except Unavailable as error:
                took_long = time.monotonic() - begun > LONG_SECONDS
                if took_long and isinstance(error.__cause__, TimeoutError):
                    raise  # it would take as long at the primary
        return await read(self._primary)
