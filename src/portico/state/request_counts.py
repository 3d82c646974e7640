"""Counts answered requests by kind, and keeps failed ones, until a job stores them."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain

from portico.domain.requests import MOST_FAILED, FailedRequest, Kind

MOST_ACCOUNTS = 1_000
"""The most accounts whose failed requests are kept."""


class RequestCounts:
    """The counts since the last `take`. Bounded by the number of accounts, keys, routes and
    statuses."""

    def __init__(self) -> None:
        self._counts: dict[Kind, list[int]] = {}
        self._failed: dict[int, deque[FailedRequest]] = {}

    def count(self, kind: Kind) -> None:
        """Counts one request. Runs for every request: a count is a list of one number, so that the
        kind is looked up only once."""
        try:
            self._counts[kind][0] += 1
        except KeyError:
            self._counts[kind] = [1]

    def failed(self, request: FailedRequest) -> None:
        """Keeps a failed request, replacing the oldest of its account if there are too many. Drops
        it if failed requests of `MOST_ACCOUNTS` other accounts are kept."""
        kept = self._failed.get(request.user_id)
        if kept is None:
            if len(self._failed) == MOST_ACCOUNTS:
                return
            kept = self._failed[request.user_id] = deque(maxlen=MOST_FAILED)
        kept.append(request)

    def take(self) -> tuple[Mapping[Kind, int], Sequence[FailedRequest]]:
        """The counts by kind and the failed requests since the last call."""
        counts, failed = self._counts, self._failed
        self._counts, self._failed = {}, {}
        made = {kind: requests for kind, (requests,) in counts.items()}
        return made, list(chain.from_iterable(failed.values()))
