"""One PostgreSQL statement for many callers that ask the same kind of question at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any

from portico.storage.database import Row
from portico.storage.postgres_pool import Pool
from portico.storage.postgres_statements import faults, read_faults

_Asked = list[tuple[Any, asyncio.Future[Any]]]
"""What each caller asks for, and the future for its answer."""

_Answer = Callable[[Any, Sequence[Any]], Awaitable[Sequence[Any]]]
"""Answers all questions on a connection, in their order."""


class _Line:
    """The callers of one kind of question, and how many tasks wait for a connection for them."""

    __slots__ = ("asked", "coming")

    def __init__(self) -> None:
        self.asked: _Asked = []
        self.coming = 0


class Batches:
    """Collects questions that are asked at the same time, and answers them with a pool's
    connections."""

    def __init__(self, pool: Pool, largest: int, *, rounded: bool = False) -> None:
        """`largest` is the most questions to answer at a time. If `rounded`, their number is always
        a power of two, so that there are few different statements to prepare."""
        self._pool = pool
        self._largest = largest
        self._rounded = rounded
        self._lines: dict[Hashable, _Line] = {}
        """The questions that are not sent yet, by kind."""
        self._running: set[asyncio.Task[None]] = set()

    async def ask(self, line: Hashable, answer: _Answer, what: object) -> Any:
        """The answer to `what`, from one call of `answer` for all callers with the same `line`. The
        cancellation of a caller does not stop what was sent. Raises as `Reader.one`."""
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(line, _Line()).asked.append((what, told))
        self._come(line, answer)
        return await told  # keeps no reference to the answers of other callers

    def _come(self, line: Hashable, answer: _Answer) -> None:
        """Starts as many tasks that wait for a connection as the waiting callers need: with one for
        all, they would wait longer than if each waited by itself."""
        one = self._lines[line]
        while one.coming * self._largest < len(one.asked):
            one.coming += 1
            task = asyncio.create_task(self._run(line, answer))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        if not one.coming:
            del self._lines[line]

    async def _run(self, line: Hashable, answer: _Answer) -> None:
        asked: _Asked | None = None
        try:
            with faults():
                async with self._pool.connection() as connection:
                    asked = self._take(line, answer, rounded=self._rounded)
                    whats = [what for what, _ in asked]
                    answers = await answer(connection, whats) if whats else []
        except BaseException as error:  # every waiting caller gets it, whatever it is
            for _, told in self._take(line, answer) if asked is None else asked:
                if not told.done():
                    told.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, told), found in zip(asked, answers, strict=True):
                if not told.done():
                    told.set_result(found)

    def _take(self, line: Hashable, answer: _Answer, *, rounded: bool = False) -> _Asked:
        """Takes the callers that asked first, to be answered now; later callers are answered later.
        Leaves out callers that were cancelled."""
        one = self._lines[line]
        waiting = [each for each in one.asked if not each[1].done()]
        size = min(len(waiting), self._largest)
        if rounded and size:
            size = 1 << size.bit_length() - 1
        one.asked, one.coming = waiting[size:], one.coming - 1
        self._come(line, answer)
        return waiting[:size]


class Rows:
    """Single rows by a value, read by the connections of one pool."""

    def __init__(self, pool: Pool, largest: int, seconds: float | None = None) -> None:
        """`largest` is the most callers that share a statement, which may take `seconds`; None: the
        usual timeout."""
        self._batches = Batches(pool, largest)
        self._seconds = seconds

    async def one(self, sql: str, value: object) -> Row | None:
        """The row whose first column is `value`. `sql` finds such rows by its only parameter, an
        array of values. The row shows everything that was committed before this call. Raises as
        `Reader.one`."""

        async def answer(connection: Any, values: Sequence[object]) -> Sequence[Row | None]:
            rows = await connection.fetch(sql, [*set(values)], timeout=self._seconds)
            known = {row[0]: row for row in rows}
            return [known.get(value) for value in values]

        with read_faults():
            row: Row | None = await self._batches.ask(sql, answer, value)
        return row
