"""The memory limiter's counters, stored so that they survive a restart."""

from collections.abc import Iterable

from portico.storage.database import Database, Transaction

Counter = tuple[str, int, int, int, int]
"""Caller, minute window, its count, day window, its count."""

_COLUMNS = ("caller", "minute", "minute_count", "day", "day_count")
_ALL = f"SELECT {', '.join(_COLUMNS)} FROM rate_counters WHERE day >= :day"
_SAVE = """
INSERT INTO rate_counters (caller, minute, minute_count, day, day_count)
VALUES (:caller, :minute, :minute_count, :day, :day_count)
ON CONFLICT (caller) DO UPDATE SET minute = excluded.minute,
    minute_count = excluded.minute_count, day = excluded.day, day_count = excluded.day_count"""


class RateCounters:
    """The stored counters of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def since(self, day: int) -> list[Counter]:
        """The counters of this day (days since the epoch) and later."""
        rows = await self._db.slow.all(_ALL, {"day": day})
        return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]

    async def save(self, tx: Transaction, counters: Iterable[Counter]) -> None:
        """Stores counters."""
        await tx.run_many(_SAVE, [dict(zip(_COLUMNS, row, strict=True)) for row in counters])
