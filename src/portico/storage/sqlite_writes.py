"""SQLite's write transactions: what several that share a commit write, and what they leave for its
end."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Sequence

import apsw

from portico.storage.database import NOTHING, Params, Row
from portico.storage.parts import PartVersions

AT_ONCE = 25
"""Rows that one transaction writes before whatever else waits for the event loop has its turn: a
few are written in one go, since others wait for the transaction."""
LATER_PARTS = 64
"""Parts of rows, of `AT_ONCE` at most, that are held in memory for the end of a group."""

_LAST_ID = "SELECT seq FROM sqlite_sequence WHERE name = :table"


async def _in_turns(rows: Iterable[Params]) -> AsyncIterator[list[Params]]:
    """A few rows at a time, between which whatever else waits for the event loop has its turn."""
    left = iter(rows)
    part = list(itertools.islice(left, AT_ONCE))
    while part:
        yield part
        if part := list(itertools.islice(left, AT_ONCE)):
            await asyncio.sleep(0)


class Group:
    """Transactions that share one commit."""

    def __init__(self) -> None:
        self.committed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.members = 0
        self.later: list[tuple[str, Sequence[Params]]] = []
        """What is written before the commit, a statement and its rows each."""


class Writes:
    """The writer connection as a transaction sees it."""

    def __init__(self, connection: apsw.Connection, versions: PartVersions) -> None:
        self._execute = connection.execute
        self._many = connection.executemany
        self.group: Group
        self.touch = versions.touch
        self.touch_all = versions.touch_all

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

    async def last(
        self, sql: str, params: Params = NOTHING, otherwise: Exception | None = None
    ) -> None:
        row = self._execute(sql, params).fetchone()
        if otherwise is not None and row is None:
            raise otherwise

    async def later(self, sql: str, rows: Iterable[Params]) -> None:
        # FTS5 writes out what it holds whenever a savepoint begins or ends: a segment of its index
        # for each member, where one for the group will do.
        later = self.group.later
        async for part in _in_turns(rows):
            later.append((sql, part))
            if len(later) >= LATER_PARTS:
                for one, some in later:
                    self._many(one, some).fetchall()
                    await asyncio.sleep(0)
                later.clear()

    async def next_ids(self, table: str, count: int) -> Sequence[int]:
        # Nobody else takes them: a write transaction is alone.
        row = self._execute(_LAST_ID, {"table": table}).fetchone()
        last: int = row[0] if row else 0
        return range(last + 1, last + 1 + count)

    async def script(self, sql: str) -> None:
        self.touch_all()
        self._execute(sql).fetchall()
