"""One process's share of a queue: what it has claimed, what it works on, and what it releases.

Every process of every host claims due rows before it works on them, so that no other does so
meanwhile. If it dies, they are due again when the claim ends. So a row may be worked on twice, but
none is lost.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from portico.core.errors import Unavailable
from portico.core.times import SECOND
from portico.data.database import Contended, Waiter
from portico.data.queue import Queue
from portico.environment import Environment

POLL_SECONDS = 5.0
"""How often to check for due rows without a signal, such as those that a killed process left."""

DATABASE_RETRY_SECONDS = 1.0
"""How long until the next try after the database did not answer."""

CLOSE_SECONDS = 3.0
"""How long a stop waits for what is being claimed, and then for what is being worked on."""

R = TypeVar("R", bound=msgspec.Struct)
Work = Callable[[], Coroutine[Any, Any, None]]

log = logging.getLogger(__name__)


class Claimed(msgspec.Struct, frozen=True):
    """A row that this process has claimed `until` then (epoch milliseconds), and what to do."""

    id: int
    until: int
    work: Work


class Channel:
    """Rows that hold up no others: at most `places` are worked on at the same time.

    Up to `most` are claimed, including those that wait for a place. With a `pause`, in seconds,
    they are worked on one by one. `params` say which rows they are (`data.queue.Room`).
    """

    def __init__(self, places: int) -> None:
        self.params: dict[str, object] = {}
        self.places = self.most = places
        self.pause = 0.0
        self.waiting: deque[Claimed] = deque()
        self.under_way: dict[asyncio.Task[None], Claimed] = {}

    @property
    def claimed(self) -> int:
        """How many rows this process has claimed."""
        return len(self.waiting) + len(self.under_way)

    def cancel(self) -> None:
        """Ends the work that is under way, and begins no more."""
        self.waiting.clear()
        for task in self.under_way:
            task.cancel()


class Consumer(Generic[R]):
    """Claims rows of one queue and works on them."""

    def __init__(
        self,
        env: Environment,
        queue: Queue[R],
        signal: Waiter,
        begin: Callable[[list[R]], Awaitable[Iterable[tuple[Channel, int, Work]]]],
        *,
        claim_seconds: int,
        attempt_seconds: int = 0,
        pause: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """`begin` returns the channel, the id and the work of each claimed row. Work begins only if
        the claim lasts for `attempt_seconds` more. `pause` is the pause of channels that have none
        of their own."""
        self._env = env
        self._queue = queue
        self._signal = signal
        self._begin = begin
        self._claim_milliseconds = claim_seconds * SECOND
        self._attempt_milliseconds = attempt_seconds * SECOND
        self._pause = pause
        self._claiming: asyncio.Task[float] | None = None
        self._wait = 0.0

    async def wait(self) -> None:
        """Waits until there may be something to do."""
        await self._signal.wait(self._wait)
        self._wait = DATABASE_RETRY_SECONDS  # unless this run knows better

    async def due(self, channels: Iterable[Channel]) -> dict[Channel, int]:
        """The channels with room and due rows, and since when the first one is due."""
        now = self._env.clock()
        free = [channel for channel in channels if channel.claimed < channel.most]
        found = await self._queue.next_due([(one.params, 0) for one in free]) if free else {}
        next_due = min(found.values(), default=now + round(POLL_SECONDS * SECOND))
        if next_due > now:
            self._wait = min(POLL_SECONDS, (next_due - now) / SECOND)
        return {free[place]: at for place, at in found.items() if at <= now}

    async def claim(self, channels: Collection[Channel]) -> None:
        """Claims due rows of these channels, as far as there is room, and works on them."""
        if channels:
            # Shielded: if this run is cancelled, `close` waits for it.
            self._claiming = asyncio.create_task(self._claim(channels))
            self._wait = await asyncio.shield(self._claiming)

    async def _claim(self, channels: Collection[Channel]) -> float:
        """Returns in how many seconds more may be due."""
        rooms = [(channel.params, channel.most - channel.claimed) for channel in channels]
        now = self._env.clock()
        until = now + self._claim_milliseconds
        async with self._env.db.transaction() as tx:
            rows = await self._queue.claim(tx, rooms, now=now, until=until)
        for channel, row_id, work in await self._begin(rows):
            channel.waiting.append(Claimed(row_id, until, work))
        for channel in channels:
            self._fill(channel)
        # A due row that cannot be claimed is locked by another process, perhaps for long.
        return 0.0 if rows else DATABASE_RETRY_SECONDS

    def _fill(self, channel: Channel) -> None:
        """Begins to work on waiting rows, as far as there are places."""
        places = 1 if channel.pause or self._pause() else channel.places
        while channel.waiting and len(channel.under_way) < places:
            claim = channel.waiting.popleft()
            # Otherwise it is due again when the claim ends.
            if claim.until >= self._env.clock() + self._attempt_milliseconds:
                task = asyncio.create_task(claim.work())
                channel.under_way[task] = claim
                task.add_done_callback(partial(self._ended, channel))

    def _ended(self, channel: Channel, task: asyncio.Task[None]) -> None:
        channel.under_way.pop(task, None)
        if task.cancelled():
            return
        if error := task.exception():
            log.error("one of the %s ended unexpectedly", self._queue.name, exc_info=error)
        if pause := channel.pause or self._pause():
            asyncio.get_running_loop().call_later(pause, self._go_on, channel)
        else:
            self._go_on(channel)

    def _go_on(self, channel: Channel) -> None:
        self._fill(channel)
        if channel.claimed < min(channel.places, channel.most):
            self._signal.hear()

    @asynccontextmanager
    async def kept(self, row_id: int, every: float) -> AsyncIterator[None]:
        """Renews the claim of a row after each so many seconds, however long that lasts."""
        async with asyncio.TaskGroup() as meanwhile:
            keeping = meanwhile.create_task(self._keep(row_id, every))
            yield
            keeping.cancel()

    async def _keep(self, row_id: int, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            try:
                async with self._env.db.transaction() as tx:
                    until = self._env.clock() + self._claim_milliseconds
                    await self._queue.move(tx, [row_id], until)
            except Exception as error:  # noqa: BLE001 - whatever it is, the work goes on
                name, reason = self._queue.name, type(error).__name__
                log.warning("one of the %s under way may be sent twice: %s", name, reason)

    async def finish(self, row_id: int, again: int | None) -> None:
        """As `Queue.finish`, as soon as the database takes it."""
        while True:
            try:
                async with self._env.db.transaction() as tx:
                    await self._queue.finish(tx, row_id, again)
            except (Unavailable, Contended):
                await asyncio.sleep(DATABASE_RETRY_SECONDS)
            else:
                return

    async def close(self, channels: Iterable[Channel]) -> None:
        """Waits a little for what is being claimed or worked on, which would otherwise be done
        twice; then cancels that, and releases everything else."""
        if self._claiming is not None:
            await asyncio.wait([self._claiming], timeout=CLOSE_SECONDS)
            self._claiming.cancel()
        left: list[Claimed] = []
        under_way: dict[asyncio.Task[None], Claimed] = {}
        for channel in channels:
            left += channel.waiting
            channel.waiting.clear()
            under_way |= channel.under_way
        if under_way:
            await asyncio.wait(under_way, timeout=CLOSE_SECONDS)
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
        left += [claim for task, claim in under_way.items() if task.cancelled()]
        if not left:
            return
        try:
            async with self._env.db.transaction() as tx:
                await self._queue.move(tx, [claim.id for claim in left], self._env.clock())
        except (Unavailable, Contended):
            name, seconds = self._queue.name, self._claim_milliseconds // SECOND
            log.warning("%s under way may be sent again in %d s", name, seconds)
