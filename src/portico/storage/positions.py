"""How far the log of the database had come when a caller's last change was stored.

Every host must know it, so that none shows a caller what was before. `state.valkey_positions` keeps
it where all hosts see it.
"""

import time
from typing import Protocol

LAG_SECONDS = 1.0
"""How much older than the primary's what a replica shows may be."""

LIFE_SECONDS = 10.0
"""Much longer than that."""


class Positions(Protocol):
    """The position of each caller's last change, by the account's id."""

    async def note(self, caller: int, position: int) -> None:
        """Keeps a caller's position for `LIFE_SECONDS`, or the one that is kept if that is farther.
        Raises `errors.Unavailable`."""
        ...

    async def of(self, caller: int) -> int:
        """A caller's position, 0 where none is kept. Raises `errors.Unavailable`."""
        ...

    async def close(self) -> None:
        """Closes every connection."""
        ...


class MemoryPositions:
    """Positions in the memory of the only process that there is."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[int, float]] = {}

    async def note(self, caller: int, position: int) -> None:
        """See `Positions`."""
        now = time.monotonic()
        before, _ = self._kept.pop(caller, (0, 0.0))
        self._kept[caller] = max(before, position), now + LIFE_SECONDS
        while self._kept[oldest := next(iter(self._kept))][1] < now:
            del self._kept[oldest]

    async def of(self, caller: int) -> int:
        """See `Positions`."""
        position, until = self._kept.get(caller, (0, 0.0))
        return position if until > time.monotonic() else 0

    async def close(self) -> None:
        """There is none."""
