"""One PostgreSQL statement for many callers that ask the same kind of question at the same time:
for rows, and for the versions of lists."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any

import asyncpg

from portico.core.errors import Unavailable
from portico.data.database import Dependency, ListDependency, Row
from portico.data.filtered_totals import list_versions
from portico.data.postgres.pool import Pool
from portico.data.postgres.statements import faults, read_faults

_Asked = list[tuple[Any, asyncio.Future[Any]]]
"""Questions, each with the future for its answer."""

_Answer = Callable[[Any, Sequence[Any]], Awaitable[Sequence[Any]]]
"""Answers all questions on a connection, in their order."""


class _Queue:
    """The callers of one kind of question, and how many tasks wait for a connection for them."""

    __slots__ = ("asked", "tasks")

    def __init__(self) -> None:
        self.asked: _Asked = []
        self.tasks = 0


class Batches:
    """Collects questions that are asked at the same time, and answers them with a pool's
    connections."""

    def __init__(self, pool: Pool, largest: int, *, rounded: bool = False) -> None:
        """`largest` is the most questions to answer at a time. If `rounded`, their number is always
        a power of two, so that there are few different statements to prepare."""
        self._pool = pool
        self._largest = largest
        self._rounded = rounded
        self._queues: dict[Hashable, _Queue] = {}
        """The questions that are not sent yet, by kind."""
        self._running: set[asyncio.Task[None]] = set()

    async def ask(self, kind: Hashable, answer: _Answer, question: object) -> Any:
        """The answer to `question`, from one call of `answer` for all callers with the same `kind`.
        The cancellation of a caller does not stop what was sent. Raises as `Reader.one`."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(kind, _Queue()).asked.append((question, future))
        self._start_tasks(kind, answer)
        return await future  # keeps no reference to the answers of other callers

    def _start_tasks(self, kind: Hashable, answer: _Answer) -> None:
        """Starts as many tasks that wait for a connection as the waiting callers need: with one for
        all, they would wait longer than if each waited by itself."""
        queue = self._queues[kind]
        while queue.tasks * self._largest < len(queue.asked):
            queue.tasks += 1
            task = asyncio.create_task(self._run(kind, answer))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        if not queue.tasks:
            del self._queues[kind]

    async def _run(self, kind: Hashable, answer: _Answer) -> None:
        asked: _Asked | None = None
        try:
            with faults():
                async with self._pool.connection() as connection:
                    asked = self._take(kind, answer, rounded=self._rounded)
                    questions = [question for question, _ in asked]
                    answers = await answer(connection, questions) if questions else []
        except BaseException as error:  # every waiting caller gets it, whatever it is
            for _, future in self._take(kind, answer) if asked is None else asked:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, future), found in zip(asked, answers, strict=True):
                if not future.done():
                    future.set_result(found)

    def _take(self, kind: Hashable, answer: _Answer, *, rounded: bool = False) -> _Asked:
        """Takes the callers that asked first, to be answered now; later callers are answered later.
        Leaves out callers that were cancelled."""
        queue = self._queues[kind]
        waiting = [each for each in queue.asked if not each[1].done()]
        size = min(len(waiting), self._largest)
        if rounded and size:
            size = 1 << size.bit_length() - 1
        queue.asked, queue.tasks = waiting[size:], queue.tasks - 1
        self._start_tasks(kind, answer)
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


CALLERS = 1_024
"""The most callers that share a statement, which stays short, since there are few lists."""

VERSION_SECONDS = 0.5
"""How long to wait for the version of a list before the list is read without it; up to twice that
if the connection must be opened or is in use."""

PAUSE_SECONDS = 2.0
"""After a version did not come, no caller asks for this long; then one does."""


class ListVersions:
    """The versions of the lists of one schema, read by a connection of their own. If one does not
    come in time, the list is read without it."""

    def __init__(self, pool: Pool, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds."""
        self._rows = Rows(pool, CALLERS, VERSION_SECONDS)
        self._clock = clock
        self._known: dict[Dependency, str] = {}
        """The last version of each list by key, so that all cached answers share one string."""
        self._pause_ends = 0.0
        """0 if the last version came."""

    async def of(self, part: ListDependency) -> str | None:
        """The current version of a list, or None if it does not come in time."""
        if self._pause_ends:
            if self._clock() < self._pause_ends:
                return None
            self._pause()  # for all other callers: this one may wait
        try:
            row = await self._rows.one(list_versions(part.table), part.key)
        except (Unavailable, asyncpg.PostgresError):
            self._pause()
            return None
        self._pause_ends = 0.0
        if row is None:
            return None
        version: str = row[1]
        if (known := self._known.get(part[:2])) == version:
            return known
        self._known[part[:2]] = version
        return version

    def _pause(self) -> None:
        self._pause_ends = self._clock() + PAUSE_SECONDS
