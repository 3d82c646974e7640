"""Accounts that have used much of their month's limit, until the event about it is stored."""

from portico.core.plans import QUOTA_PERCENTS, Plan
from portico.core.times import month_of

Reached = tuple[int, int]
"""A month, as `month_of` numbers it, and how many percent of its limit are used."""


class Quotas:
    """What this process has seen. Bounded by the number of accounts."""

    def __init__(self) -> None:
        self._seen: dict[int, Reached] = {}
        self.waiting: dict[int, Reached] = {}
        """What is not known to be stored, by account."""

    def used(self, user_id: int, plan: Plan, used: int, now: int) -> None:
        """Takes note of how much of the month of `now` (epoch milliseconds) an account has used.
        Each request says it anew, so what a killed process had not stored is stored yet."""
        limit = plan.per_month or 0
        percent = max((one for one in QUOTA_PERCENTS if used * 100 >= one * limit), default=0)
        reached = (month_of(now), percent)
        if percent and reached > self._seen.get(user_id, (0, 0)):
            self._seen[user_id] = self.waiting[user_id] = reached
