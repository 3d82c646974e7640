"""Wakes tasks that wait for something to be written, in this or another process."""

import asyncio
from weakref import WeakSet


class Listener:
    """Waits for a bell. A ring before the wait is not lost."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def hear(self) -> None:
        """Ends the current wait, or the next one."""
        self._rung.set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits until the bell has rung since the last wait, for at most this many seconds; returns
        whether it has."""
        try:
            async with asyncio.timeout(seconds):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True


class Bell:
    """Rings when there may be something new."""

    def __init__(self) -> None:
        self._listeners: WeakSet[Listener] = WeakSet()

    def ring(self) -> None:
        """Wakes every listener."""
        for listener in self._listeners:
            listener.hear()

    def listener(self) -> Listener:
        """A new listener. It hears the bell for as long as the caller keeps a reference to it."""
        listener = Listener()
        self._listeners.add(listener)
        return listener
