"""Streams of events, synchronous and for asyncio."""

import asyncio
import contextlib
import threading
from typing import Any, Self, TypeVar

from portico_client.drivers import AsyncClosing, AsyncDriver, Closed, Closing, Driver
from portico_client.errors import PorticoError
from portico_client.events import Event
from portico_client.flow import Flow
from portico_client.following import Following

T = TypeVar("T")


class EventStream(Closing):
    """An iterator of events as they happen. Use it in a `with` statement, which opens and closes
    it.

    A broken connection is reestablished automatically and resumes where it was: no event is missed
    and none comes twice. Threads may share a stream; each event goes to one of them. Closing it
    does not interrupt a thread that is connecting: that thread finds the end after its attempt.
    """

    def __init__(self, driver: Driver, following: Following) -> None:
        self._driver = driver
        self._following = following
        self._lock = threading.Lock()
        self._closing = threading.Event()

    def __enter__(self) -> Self:
        """Opens the stream. Raises `Gone` if events after `after` are no longer kept, another
        `APIError` if the service refuses the stream, and `ConnectionFailed`."""
        self._until_closed(self._following.begin())
        return self

    def __iter__(self) -> Self:
        """The next events, until the stream is closed."""
        return self

    def __next__(self) -> Event:
        event = self._until_closed(self._following.next())
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        """Ends the stream, also for callers that wait for its next event."""
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
    """An asynchronous iterator of events as they happen. Use it in an `async with` statement, which
    opens and closes it.

    A broken connection is reestablished automatically and resumes where it was: no event is missed
    and none comes twice. Tasks may share a stream; each event goes to one of them. A wait that a
    deadline (`asyncio.timeout`) ends can be repeated: the connection stays.
    """

    def __init__(self, driver: AsyncDriver, following: Following) -> None:
        self._driver = driver
        self._following = following
        self._lock = asyncio.Lock()
        self._running: asyncio.Future[Any] | None = None
        """The running read or connection. It goes on when the caller that waits is cancelled."""

    def __del__(self) -> None:
        if self._running is not None:
            with contextlib.suppress(RuntimeError):  # the loop and its tasks are closed
                self._running.get_loop().call_soon_threadsafe(self._running.cancel)

    async def __aenter__(self) -> Self:
        """Opens the stream. Raises `Gone` if events after `after` are no longer kept, another
        `APIError` if the service refuses the stream, and `ConnectionFailed`."""
        try:
            await self._until_closed(self._following.begin())
        except asyncio.CancelledError:
            await self._stop()  # `__aexit__` will not be called
            raise
        return self

    def __aiter__(self) -> Self:
        """The next events, until the stream is closed."""
        return self

    async def __anext__(self) -> Event:
        # Nothing is awaited between taking an event and returning it: a task that is cancelled
        # there would lose the event.
        while (event := self._following.received()) is None:
            if not await self._until_closed(self._following.more()):
                raise StopAsyncIteration
        return event

    async def close(self) -> None:
        """Ends the stream, also for callers that wait for its next event."""
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
                await asyncio.wait([running])  # goes on if the caller is cancelled
                returned: T = running.result()
            except (asyncio.CancelledError, PorticoError):
                if not self._following.closed or _cancellations() > before:
                    raise  # the caller was cancelled, not the stream closed
                return None
            finally:
                if running.done():
                    self._running = None
            return returned


def _seen(running: asyncio.Future[Any]) -> None:
    """Retrieves the exception, so that asyncio does not log it if no caller waits any more."""
    if not running.cancelled():
        running.exception()


def _cancellations() -> int:
    """How many cancellations of the current task are pending."""
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()
