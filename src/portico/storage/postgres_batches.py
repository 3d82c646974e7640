"""Reads of one row by many callers: those who ask at one time are answered by one statement."""

import asyncio
from collections import defaultdict

from portico.storage.database import Row
from portico.storage.postgres_pool import Pool
from portico.storage.postgres_statements import faults

_Waiting = defaultdict[object, list[asyncio.Future[Row | None]]]
"""Who waits for the row of each value."""


class Batches:
    """Rows by one value each, read by the connections of one pool."""

    def __init__(self, pool: Pool, seconds: float | None = None) -> None:
        """A statement may take so many `seconds`; None: as long as any other."""
        self._pool = pool
        self._seconds = seconds
        self._asked: dict[str, _Waiting] = {}
        """Of each statement that is not sent yet."""
        self._running: set[asyncio.Task[None]] = set()

    async def one(self, sql: str, value: object) -> Row | None:
        """The row that begins with `value`. `sql` finds such rows by its one parameter, an array of
        values; it shows what was committed before this was asked for. Raises as `Reader.one`."""
        waiting = self._asked.get(sql)
        if waiting is None:
            waiting = self._asked[sql] = defaultdict(list)
            task = asyncio.create_task(self._read(sql))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        found: asyncio.Future[Row | None] = asyncio.get_running_loop().create_future()
        waiting[value].append(found)
        return await found

    async def _read(self, sql: str) -> None:
        waiting: _Waiting | None = None
        try:
            with faults():
                async with self._pool.connection() as connection:
                    # Who asks from here on is answered by the next one.
                    waiting = self._asked.pop(sql)
                    rows = await connection.fetch(sql, list(waiting), timeout=self._seconds)
        except BaseException as error:  # whatever it is, whoever waits is told
            for callers in (waiting or self._asked.pop(sql)).values():
                for found in callers:
                    if not found.done():
                        found.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            known = {row[0]: row for row in rows}
            for value, callers in waiting.items():
                for found in callers:
                    if not found.done():
                        found.set_result(known.get(value))
