"""Requests as an account's owner sees them: how many of each kind there were, which failed, and how
much of the month's limit they have used."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain

import msgspec

from portico.core.plans import QUOTA_PERCENTS, Plan
from portico.core.times import month_of

EVERYBODY = 0
"""Stands for all accounts together, including requests without an account."""

NOBODY = -1
"""Stands for requests without an account, or whose account is unknown."""

NO_KEY = 0
"""Stands for every credential that is not an API key: sessions, logins, applications."""

NOWHERE = ""
"""Stands for every unknown path, and every method that a path does not support."""

REFUSED = 429

MOST_FAILED = 100
"""How many failed requests are kept for each account: the latest ones."""


Kind = tuple[int, int, str, int, int]
"""Requests that are counted together: the account, the hour since the epoch, the route (a method
and a pattern, never a path), the status and the API key. A plain tuple, because one is made for
every request."""


Counted = tuple[int, int]
"""How many requests, and what they took from their account's limits."""


class FailedRequest(msgspec.Struct, frozen=True, gc=False):
    """A request of an account that was answered with an error. `at` is when it arrived, `code` the
    error code of the answer."""

    user_id: int
    at: int
    route: str
    status: int
    code: str
    key_id: int
    request_id: str


class Sums(msgspec.Struct, frozen=True, gc=False):
    """How many requests there were in all; of these, how many got an error, and how many were
    refused because a limit was reached (429)."""

    requests: int = 0
    failed: int = 0
    refused: int = 0

    @property
    def answered(self) -> int:
        """How many succeeded."""
        return self.requests - self.failed - self.refused

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(
            self.requests + other.requests,
            self.failed + other.failed,
            self.refused + other.refused,
        )


MOST_ACCOUNTS = 1_000
"""The most accounts whose failed requests are kept."""


class RequestCounts:
    """The counts since the last `take`. Bounded by the number of accounts, keys, routes and
    statuses."""

    def __init__(self) -> None:
        self._counts: dict[Kind, list[int]] = {}  # as `Counted`
        self._failed: dict[int, deque[FailedRequest]] = {}

    def count(self, kind: Kind, cost: int) -> None:
        """Counts one request that took `cost` from the limits. Runs for every request: a count is
        a list, so that the kind is looked up only once."""
        try:
            counted = self._counts[kind]
        except KeyError:
            self._counts[kind] = [1, cost]
        else:
            counted[0] += 1
            counted[1] += cost

    def failed(self, request: FailedRequest) -> None:
        """Keeps a failed request, replacing the oldest of its account if there are too many. Drops
        it if failed requests of `MOST_ACCOUNTS` other accounts are kept."""
        kept = self._failed.get(request.user_id)
        if kept is None:
            if len(self._failed) == MOST_ACCOUNTS:
                return
            kept = self._failed[request.user_id] = deque(maxlen=MOST_FAILED)
        kept.append(request)

    def take(self) -> tuple[Mapping[Kind, Counted], Sequence[FailedRequest]]:
        """The counts by kind and the failed requests since the last call."""
        counts, failed = self._counts, self._failed
        self._counts, self._failed = {}, {}
        made = {kind: (requests, cost) for kind, (requests, cost) in counts.items()}
        return made, list(chain.from_iterable(failed.values()))


Reached = tuple[int, int]
"""A month, as `month_of` numbers it, and how many percent of its limit are used."""


class Quotas:
    """Accounts that have used much of their month's limit, as this process has seen. Bounded by the
    number of accounts."""

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
