"""Waking those who wait for what is written, here or in another process."""

import asyncio
from weakref import WeakSet


class Listener:
    """One who waits for a bell. What rang while nobody waited is not lost."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def hear(self) -> None:
        """Lets the wait end, the present one or else the next."""
        self._rung.set()

    async def wait(self, seconds: float | None = None) -> bool:
        """Waits until the bell has rung since the last wait, so many seconds at most; tells whether
        it has."""
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
        """One who hears it from now on, for as long as somebody has it."""
        listener = Listener()
        self._listeners.add(listener)
        return listener
