"""What many callers ask PostgreSQL for at one time: one statement answers them all."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any

from portico.storage.database import Row
from portico.storage.postgres_pool import Pool
from portico.storage.postgres_statements import faults, read_faults

_Asked = list[tuple[Any, asyncio.Future[Any]]]
"""What each asks for, and where the answer goes."""

_Answer = Callable[[Any, Sequence[Any]], Awaitable[Sequence[Any]]]
"""The answers, by a connection, to what was asked, in that order."""


class _Line:
    """Those who ask for the same, and how many connections are waited for on their behalf."""

    __slots__ = ("asked", "coming")

    def __init__(self) -> None:
        self.asked: _Asked = []
        self.coming = 0


class Batches:
    """Answers for all who ask for the same at one time, by the connections of one pool."""

    def __init__(self, pool: Pool, largest: int, *, rounded: bool = False) -> None:
        """No more than `largest` are answered at once; where that is `rounded`, as many as a power
        of two, so that there are few statements to be prepared."""
        self._pool = pool
        self._largest = largest
        self._rounded = rounded
        self._lines: dict[Hashable, _Line] = {}
        """By what is not sent yet."""
        self._running: set[asyncio.Task[None]] = set()

    async def ask(self, line: Hashable, answer: _Answer, what: object) -> Any:
        """The answer to `what`, as `answer` gives it to all who ask with the same `line`. What is
        sent is sent whoever goes away meanwhile. Raises as `Reader.one`."""
        told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(line, _Line()).asked.append((what, told))
        self._come(line, answer)
        return await told  # and holds nobody else's answer meanwhile

    def _come(self, line: Hashable, answer: _Answer) -> None:
        """Has as many places among the pool's callers as those who wait need: with one for all,
        they would wait longer than each by itself."""
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
        except BaseException as error:  # whatever it is, whoever waits is told
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
        """Those who asked first, and are answered now: who asks from here on is answered later.
        Who has gone away asks for nothing."""
        one = self._lines[line]
        waiting = [each for each in one.asked if not each[1].done()]
        size = min(len(waiting), self._largest)
        if rounded and size:
            size = 1 << size.bit_length() - 1
        one.asked, one.coming = waiting[size:], one.coming - 1
        self._come(line, answer)
        return waiting[:size]


class Rows:
    """Rows by one value each, read by the connections of one pool."""

    def __init__(self, pool: Pool, largest: int, seconds: float | None = None) -> None:
        """A statement is for no more than `largest` who ask, and may take so many `seconds`; None:
        as long as any other."""
        self._batches = Batches(pool, largest)
        self._seconds = seconds

    async def one(self, sql: str, value: object) -> Row | None:
        """The row that begins with `value`. `sql` finds such rows by its one parameter, an array of
        values; it shows what was committed before this was asked for. Raises as `Reader.one`."""

        async def answer(connection: Any, values: Sequence[object]) -> Sequence[Row | None]:
            rows = await connection.fetch(sql, [*set(values)], timeout=self._seconds)
            known = {row[0]: row for row in rows}
            return [known.get(value) for value in values]

        with read_faults():
            row: Row | None = await self._batches.ask(sql, answer, value)
        return row
