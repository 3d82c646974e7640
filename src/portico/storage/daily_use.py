"""How many requests each account made on each UTC day."""

from collections.abc import Mapping

from portico.storage.database import Database, Transaction

KEPT_DAYS = 35

_ADD = """
INSERT INTO daily_use AS d (user_id, day, requests) VALUES (:user_id, :day, :requests)
ON CONFLICT (user_id, day) DO UPDATE SET requests = d.requests + excluded.requests"""
_OF_USER = """
SELECT day, requests FROM daily_use WHERE user_id = :user_id AND day >= :since ORDER BY day"""


class DailyUse:
    """The use that accounts made of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, tx: Transaction, used: Mapping[tuple[int, int], int]) -> None:
        """Adds requests: (user id, days since the epoch) to how many more."""
        # In one order, so that two servers that add at once never wait for each other in a ring.
        await tx.run_many(
            _ADD,
            [
                {"user_id": user_id, "day": day, "requests": count}
                for (user_id, day), count in sorted(used.items())
            ],
        )

    async def of_user(self, user_id: int, since: int) -> dict[int, int]:
        """A user's requests by day, from the day `since` on; days without any are left out."""
        rows = await self._db.all(_OF_USER, {"user_id": user_id, "since": since})
        return {int(day): int(requests) for day, requests in rows}
