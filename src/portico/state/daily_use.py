"""How many requests each account made on each UTC day, until that is stored."""

from collections.abc import Mapping


class DailyCounts:
    """Requests by account and day that nobody has taken away yet; bounded by the accounts."""

    def __init__(self) -> None:
        self._counts: dict[tuple[int, int], int] = {}

    def count(self, user_id: int, day: int) -> None:
        """Counts one request on a day since the epoch. Runs for every request."""
        key = (user_id, day)
        self._counts[key] = self._counts.get(key, 0) + 1

    def take(self) -> Mapping[tuple[int, int], int]:
        """What was counted since the last call, by user id and day."""
        taken, self._counts = self._counts, {}
        return taken
