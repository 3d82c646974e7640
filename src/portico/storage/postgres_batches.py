"""What many callers ask PostgreSQL for at one time: one statement answers them all."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Any

from portico.storage.database import Row
from portico.storage.postgres_pool import Pool
from portico.storage.postgres_statements import faults

_Asked = list[tuple[Any, asyncio.Future[Any]]]
"""What each asks for, and where the answer goes."""

_Answer = Callable[[Any, Sequence[Any]], Awaitable[Sequence[Any]]]
"""The answers, by a connection, to what was asked, in that order."""

_NEXT_IDS = """
SELECT nextval(pg_get_serial_sequence($1, 'id')) FROM generate_series(1, CAST($2 AS BIGINT))"""


class Batches:
    """Statements for all who ask at one time, by the connections of one pool."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._asked: dict[str, _Asked] = {}
        """Of each statement that is not sent yet."""
        self._running: set[asyncio.Task[None]] = set()

    async def one(self, sql: str, value: object) -> Row | None:
        """The row that begins with `value`. `sql` finds such rows by its one parameter, an array of
        values; it shows what was committed before this was asked for. Raises as `Reader.one`."""

        async def answer(connection: Any, values: Sequence[object]) -> Sequence[Row | None]:
            known = {row[0]: row for row in await connection.fetch(sql, [*set(values)])}
            return [known.get(value) for value in values]

        row: Row | None = await self._ask(sql, answer, value)
        return row

    async def next_ids(self, table: str, count: int) -> Sequence[int]:
        """See `Transaction`."""

        async def answer(connection: Any, counts: Sequence[int]) -> Sequence[Sequence[int]]:
            rows = iter(await connection.fetch(_NEXT_IDS, table, sum(counts)))
            return [[row[0] for row in islice(rows, count)] for count in counts]

        ids: Sequence[int] = await self._ask(table, answer, count)
        return ids

    async def _ask(self, line: str, answer: _Answer, what: object) -> Any:
        asked = self._asked.get(line)
        if asked is None:
            asked = self._asked[line] = []
            task = asyncio.create_task(self._run(line, answer))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        asked.append((what, told))
        return await told

    async def _run(self, line: str, answer: _Answer) -> None:
        asked: _Asked | None = None
        try:
            with faults():
                async with self._pool.connection() as connection:
                    # Who asks from here on is answered by the next one.
                    asked = self._asked.pop(line)
                    answers = await answer(connection, [what for what, _ in asked])
        except BaseException as error:  # whatever it is, whoever waits is told
            for _, told in asked or self._asked.pop(line):
                if not told.done():
                    told.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, told), found in zip(asked, answers, strict=True):
                if not told.done():
                    told.set_result(found)
