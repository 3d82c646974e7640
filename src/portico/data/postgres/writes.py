"""Write transactions on PostgreSQL: each on its own connection, or several in one statement."""

import re
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from functools import cache, partial
from itertools import chain, islice
from typing import Any

import asyncpg

from portico.data.database import NOTHING, Contended, Dependency, Params
from portico.data.postgres.batches import Batches
from portico.data.postgres.hosts import Hosts
from portico.data.postgres.pool import Pool
from portico.data.postgres.statements import LOST, Statements, call, positional

LARGEST = 8
"""The most changes in one statement: with twice as many, each takes no less time."""

MANY = 64
"""The most changes that get their ids from one statement."""

_LOCK_TIMEOUT = "set_config('lock_timeout', '300ms', true)"
"""Ends a statement of several changes that waits for a lock, which only one of them may need."""

_NEXT_IDS = """
SELECT nextval(pg_get_serial_sequence(:table, 'id'))
FROM generate_series(1, CAST(:count AS BIGINT))"""
_UNMET = "PO001"
"""The error code with which the SQL function `demand` ends a statement."""

_Last = tuple[str, Params, Exception | None]
"""A statement, its values, and the exception to raise if it returns no row."""

_Insert = tuple["PostgresWrites", Sequence[_Last]]
"""A change and all its statements."""

_PLACE = re.compile(r"\$([0-9]+)")
_CHANGES = re.compile(r"\s*(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")
_ADDS = re.compile(r"\s*INSERT INTO ")


@cache
def _table(sql: str) -> str:
    """The table that a statement changes."""
    found = _CHANGES.match(sql)
    return found[1] if found else ""


def _renumbered(by: int, place: re.Match[str]) -> str:
    return f"${int(place[1]) + by}"


@cache
def _joined(statements: tuple[str, ...], demanded: tuple[bool, ...], *further: str) -> str:
    """Joins statements into one, which fails as a whole if one of the demanded statements returns
    no row. Their parameters are numbered consecutively. `further` is selected first."""
    if len(statements) == 1 and not demanded[0]:
        return positional(statements[0])[0]
    parts: list[str] = []
    before = 0
    for place, sql in enumerate(statements):
        text, names = positional(sql)
        parts.append(f"part_{place} AS ({_PLACE.sub(partial(_renumbered, before), text)})")
        before += len(names)
    asked = [
        f"demand({place}, EXISTS (SELECT FROM part_{place}))"
        for place, is_demanded in enumerate(demanded)
        if is_demanded
    ]
    return f"WITH {', '.join(parts)} SELECT {', '.join([*further, *asked])}"


def _shape(asked: Sequence[_Last]) -> tuple[tuple[str, ...], tuple[bool, ...]]:
    """The arguments of `_joined` for these statements."""
    return (
        tuple(sql for sql, _, _ in asked),
        tuple(otherwise is not None for _, _, otherwise in asked),
    )


async def _run(connection: Any, *changes: Sequence[_Last]) -> None:
    """Runs the statements of changes as one. Raises the exception of a statement that returned no
    row."""
    asked = [*chain.from_iterable(changes)]
    further = [_LOCK_TIMEOUT] if len(changes) > 1 else []
    values = [params[name] for sql, params, _ in asked for name in positional(sql)[1]]
    try:
        await connection.execute(_joined(*_shape(asked), *further), *values)
    except asyncpg.PostgresError as error:
        otherwise = asked[int(error.args[0])][2] if error.sqlstate == _UNMET else None
        if otherwise is None:
            raise
        raise otherwise from None


class SharedStatement:
    """Statements for changes that have no connection of their own; many changes share one."""

    def __init__(self, pool: Pool, hosts: Hosts) -> None:
        self._pool = pool
        self._ids = Batches(pool, MANY)
        self._inserts = Batches(pool, LARGEST, rounded=True)
        self._hosts = hosts

    async def next_ids(self, table: str, count: int) -> tuple[int, Sequence[int]]:
        """The timeline of the server that assigns the ids, and ids for new rows of a table."""

        async def answer(
            connection: Any, counts: Sequence[int]
        ) -> Sequence[tuple[int, Sequence[int]]]:
            text, values = call(_NEXT_IDS, {"table": table, "count": sum(counts)})
            rows = iter(await connection.fetch(text, *values))
            timeline = self._hosts.timeline(connection)
            return [(timeline, [row[0] for row in islice(rows, count)]) for count in counts]

        given: tuple[int, Sequence[int]] = await self._ids.ask(table, answer, count)
        return given

    async def insert(self, change: "PostgresWrites", asked: Sequence[_Last]) -> None:
        """Stores the rows of a change together with those of others. If that fails, stores them
        alone, so that the change neither waits for another's lock nor gets another's error."""
        if await self._inserts.ask(_shape(asked), self._together, (change, asked)):
            return
        async with self._pool.connection() as connection:
            change.mark_sent(self._hosts.timeline(connection))
            await _run(connection, asked)

    async def _together(self, connection: Any, changes: Sequence[_Insert]) -> Sequence[bool]:
        """Stores all changes, or none if one of them fails; returns for each whether it is stored.
        Raises `LOST`."""
        try:
            for change, _ in changes:
                change.mark_sent(self._hosts.timeline(connection))
            await _run(connection, *(asked for _, asked in changes))
        except LOST:
            raise
        except Exception:  # noqa: BLE001 - each is then stored alone, which shows the faulty one
            for change, _ in changes:
                change.committing = False
            return [False] * len(changes)
        return [True] * len(changes)


class PostgresWrites(Statements):
    """One write transaction.

    It takes a connection and begins with the first statement of a method other than `conclude`,
    whose statements are sent as one. If there are no others, that one is the whole transaction, so
    no row stays locked while this process does something else. If all are INSERTs, they are sent
    together with those of other changes.
    """

    def __init__(
        self, stack: AsyncExitStack, pool: Pool, hosts: Hosts, shared: SharedStatement
    ) -> None:
        """The connection is taken from `pool` and released by `stack`."""
        super().__init__(None)
        self._stack = stack
        self._pool = pool
        self._hosts = hosts
        self._shared = shared
        self._timeline: int | None = None
        """The timeline of the server in use."""
        self._begun = False
        self._transaction: Any = None
        self._last: dict[str, _Last] = {}
        self.committing = False
        """Whether its outcome would be unknown if the server were lost now."""

    async def connect(self) -> None:
        """Takes a connection from the pool."""
        self._connection = await self._stack.enter_async_context(self._pool.connection())
        self._require_timeline(self._hosts.timeline(self._connection))
        self._begun = not self._hosts.keeps_sessions  # then the pool has begun, and commits

    async def conclude(
        self, sql: str, params: Params = NOTHING, otherwise: Exception | None = None
    ) -> None:
        # Of two statements that change one table, the second may refer to a row of the first.
        if (table := _table(sql)) in self._last:
            await self._ready()
        self._last[table] = sql, params, otherwise

    async def defer(self, sql: str, rows: Iterable[Params]) -> None:
        for row in rows:
            await self.conclude(sql, row)

    async def next_ids(self, table: str, count: int) -> Sequence[int]:
        # A rollback would not return the ids, so no transaction is begun for them.
        if self._connection is not None:
            text, values = call(_NEXT_IDS, {"table": table, "count": count})
            return [row[0] for row in await self._connection.fetch(text, *values)]
        timeline, ids = await self._shared.next_ids(table, count)
        self._require_timeline(timeline)
        return ids

    async def commit(self) -> None:
        """Commits the transaction."""
        if self._last and self._connection is None:
            if all(_ADDS.match(sql) for sql, _, _ in self._last.values()):
                await self._shared.insert(self, self._take_last())
            else:
                await self.connect()
        if self._last:
            self.committing = not self._begun
            await _run(self._connection, self._take_last())
        self.committing = True
        transaction, self._transaction = self._transaction, None  # also if the commit fails
        if transaction is not None:
            await transaction.commit()

    def mark_sent(self, timeline: int) -> None:
        """Notes that the whole change is being sent to a server. Raises as `_require_timeline`."""
        self._require_timeline(timeline)
        self.committing = True

    async def undo(self) -> None:
        """Rolls back the transaction."""
        if self._transaction is not None:
            await self._transaction.rollback()

    async def _ready(self) -> Any:
        if self._connection is None:
            await self.connect()
        if not self._begun:
            transaction = self._connection.transaction(isolation="read_committed")
            try:
                await transaction.start()
            except BaseException:
                self._connection.terminate()  # the driver would nest the next transaction in it
                raise
            self._transaction, self._begun = transaction, True
        if self._last:
            await _run(self._connection, self._take_last())
        return self._connection

    def _take_last(self) -> Sequence[_Last]:
        asked, self._last = [*self._last.values()], {}
        return asked

    def _require_timeline(self, timeline: int) -> None:
        """Raises `Contended` if ids were assigned by a former primary: its successor may assign
        them again."""
        if self._timeline not in (None, timeline):
            raise Contended
        self._timeline = timeline

    def invalidate(self, *parts: Dependency) -> None:
        # For this process only, which need not wait for the notification.
        self.touched.update(parts)

    def invalidate_all(self) -> None:
        self.touched_all = True
