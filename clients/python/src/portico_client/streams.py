"""Streams of events, for callers that block and for asyncio."""

import asyncio
import contextlib
import threading
from typing import Any, Self, TypeVar

from portico_client.drivers import AsyncClosing, AsyncDriver, Closed, Closing, Driver
from portico_client.errors import PorticoError
from portico_client.flow import Flow
from portico_client.following import Following
from portico_client.models import Event

T = TypeVar("T")


class EventStream(Closing):
    """Events as they happen: an iterator, to be used by `with`, which begins and closes it.

    A connection that breaks is made again by itself. It goes on where it was: no event is missed,
    and none comes twice. Threads may share it; each event goes to one of them. One that is
    connecting while it is closed finds the end with that attempt.
    """

    def __init__(self, driver: Driver, following: Following) -> None:
        self._driver = driver
        self._following = following
        self._lock = threading.Lock()
        self._closing = threading.Event()

    def __enter__(self) -> Self:
        """Begins it. Raises `Gone` where events after `after` are no longer kept, any other
        `APIError` where the service refuses it, and `ConnectionFailed`."""
        self._until_closed(self._following.begin())
        return self

    def __iter__(self) -> Self:
        """The events to come, until it is closed."""
        return self

    def __next__(self) -> Event:
        event = self._until_closed(self._following.next())
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        """Ends the stream, also for whoever waits for its next event."""
        self._following.closed = True
        self._closing.set()
        if self._lock.acquire(blocking=False):
            try:
                self._driver.run(self._following.next())
            finally:
                self._lock.release()
        elif self._following.body is not None:
            self._following.body.wake()

    def _until_closed(self, flow: Flow[T]) -> T | None:
        with self._lock:
            try:
                return self._driver.run(flow, self._closing)
            except (Closed, PorticoError):
                if not self._closing.is_set():
                    raise
                return None


class AsyncEventStream(AsyncClosing):
    """Events as they happen: an iterator, to be used by `with`, which begins and closes it.

    A connection that breaks is made again by itself. It goes on where it was: no event is missed,
    and none comes twice. Tasks may share it; each event goes to one of them. Who waits with a
    deadline (`asyncio.timeout`) may do so again: the connection stays.
    """

    def __init__(self, driver: AsyncDriver, following: Following) -> None:
        self._driver = driver
        self._following = following
        self._lock = asyncio.Lock()
        self._running: asyncio.Future[Any] | None = None
        """What is waited for; also while nobody does, after whoever did was cancelled."""

    def __del__(self) -> None:
        if self._running is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and all that ran in it
                self._running.get_loop().call_soon_threadsafe(self._running.cancel)

    async def __aenter__(self) -> Self:
        """Begins it. Raises `Gone` where events after `after` are no longer kept, any other
        `APIError` where the service refuses it, and `ConnectionFailed`."""
        try:
            await self._until_closed(self._following.begin())
        except asyncio.CancelledError:
            await self._stop()  # nobody will close it
            raise
        return self

    def __aiter__(self) -> Self:
        """The events to come, until it is closed."""
        return self

    async def __anext__(self) -> Event:
        # An event is taken when nothing can come between: what a cancelled task took would be lost.
        while (event := self._following.received()) is None:
            if not await self._until_closed(self._following.more()):
                raise StopAsyncIteration
        return event

    async def close(self) -> None:
        """Ends the stream, also for whoever waits for its next event."""
        self._following.closed = True
        await self._stop()
        await self._until_closed(self._following.more())

    async def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.wait([running])

    async def _until_closed(self, flow: Flow[T]) -> T | None:
        async with self._lock:
            before = _cancellations()
            if self._running is None:
                self._running = asyncio.ensure_future(self._driver.run(flow))
                self._running.add_done_callback(_seen)
            running = self._running
            try:
                returned: T = await asyncio.shield(running)
            except (asyncio.CancelledError, PorticoError):
                if not self._following.closed or _cancellations() > before:
                    raise  # whoever waits was cancelled, not this
                return None
            finally:
                if running.done():
                    self._running = None
            return returned


def _seen(running: asyncio.Future[Any]) -> None:
    """Has asyncio not complain where nobody waits any more."""
    if not running.cancelled():
        running.exception()


def _cancellations() -> int:
    """How often the current task was cancelled so far, and went on."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
