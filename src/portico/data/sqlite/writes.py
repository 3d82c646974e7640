"""SQLite's write transactions: the writes of a group, and those deferred to its commit."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Sequence

import apsw

from portico.data.database import NOTHING, Params, PartVersions, Row

AT_ONCE = 25
"""Rows that one transaction writes before it yields to the event loop: several at a time, since
other transactions wait for this one."""
LATER_PARTS = 64
"""Batches of up to `AT_ONCE` rows that are held in memory for the end of a group."""

_LAST_ID = "SELECT seq FROM sqlite_sequence WHERE name = :table"


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
