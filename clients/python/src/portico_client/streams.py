"""Streams of events, for callers that block and for asyncio."""

import asyncio
import threading
from types import TracebackType
from typing import Self

from portico_client.drivers import AsyncDriver, Driver
from portico_client.following import Following
from portico_client.models import Event


class EventStream:
    """Events as they happen: an iterator, to be used by `with`, which begins and closes it.

    A connection that breaks is made again by itself. It goes on where it was: no event is missed,
    and none comes twice. Threads may share it; each event goes to one of them.
    """

    def __init__(self, driver: Driver, following: Following) -> None:
        self._driver = driver
        self._following = following
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        """Begins it. Raises `Gone` where events after `after` are no longer kept, any other
        `APIError` where the service refuses it, and `ConnectionFailed`."""
        with self._lock:
            self._driver.run(self._following.begin())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        """The events to come, until it is closed."""
        return self

    def __next__(self) -> Event:
        with self._lock:
            event = self._driver.run(self._following.next())
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        """Ends the stream, also for whoever waits for its next event."""
        self._following.closed = True
        if self._lock.acquire(blocking=False):
            try:
                self._driver.run(self._following.next())
            finally:
                self._lock.release()
        elif self._following.body is not None:
            self._following.body.wake()


class AsyncEventStream:
    """Events as they happen: an iterator, to be used by `with`, which begins and closes it.

    A connection that breaks is made again by itself. It goes on where it was: no event is missed,
    and none comes twice. Tasks may share it; each event goes to one of them.
    """

    def __init__(self, driver: AsyncDriver, following: Following) -> None:
        self._driver = driver
        self._following = following
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Begins it. Raises `Gone` where events after `after` are no longer kept, any other
        `APIError` where the service refuses it, and `ConnectionFailed`."""
        async with self._lock:
            await self._driver.run(self._following.begin())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        """The events to come, until it is closed."""
        return self

    async def __anext__(self) -> Event:
        async with self._lock:
            event = await self._driver.run(self._following.next())
        if event is None:
            raise StopAsyncIteration
        return event

    async def close(self) -> None:
        """Ends the stream, also for whoever waits for its next event."""
        self._following.closed = True
        if not self._lock.locked():
            async with self._lock:
                await self._driver.run(self._following.next())
        elif self._following.body is not None:
            self._following.body.wake()
