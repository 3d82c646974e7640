"""The position in the database's log at which a caller's last change was stored.

Every host must know it, so that none shows the caller older data. `limits.valkey_positions` keeps
it where all hosts see it.
"""

import time
from typing import Protocol

LAG_SECONDS = 1.0
"""How far a replica may be behind the primary."""

LIFE_SECONDS = 10.0
"""How long a position is kept: much longer than the permitted lag."""


class Positions(Protocol):
    """The position of each caller's last change, by the account's id."""

    async def note(self, caller: int, position: int) -> None:
        """Keeps a caller's position for `LIFE_SECONDS`, or the kept one if that is higher. Raises
        `errors.Unavailable`."""
        ...

    async def of(self, caller: int) -> int:
        """The caller's position, or 0 if none is kept. Raises `errors.Unavailable`."""
        ...

    async def close(self) -> None:
        """Closes every connection."""
        ...


class MemoryPositions:
    """Positions in memory, for a server of one process."""

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
        """See `Positions`: there is nothing to close."""
