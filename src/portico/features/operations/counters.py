"""The memory limiter's counters, stored so that they survive a restart."""

from collections.abc import Iterable

from portico.data.database import Database, Transaction

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


_BEGIN = """
INSERT INTO flushes AS f (writer, number, at) VALUES (:writer, :number, :at)
ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = excluded.at
WHERE f.number < excluded.number RETURNING number"""


class Flushes:
    """The stored batches of one environment."""

    async def begin(self, tx: Transaction, writer: str, number: int, at: int) -> bool:
        """Begins to store a process's batch; False if it was stored before. The numbers of one
        process only grow, and a batch is stored before the next one begins."""
        values = {"writer": writer, "number": number, "at": at}
        return await tx.one(_BEGIN, values) is not None
