"""How many requests of each kind were answered, and which failed, until a job stores that."""

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
        """Counts one request. Runs for every request, hence the lists of one number: the kind is
        looked up only once."""
        try:
            self._counts[kind][0] += 1
        except KeyError:
            self._counts[kind] = [1]

    def failed(self, request: FailedRequest) -> None:
        """Keeps a failed request, in place of its account's oldest where that has too many.
        Requests of further accounts beyond `MOST_ACCOUNTS` are dropped."""
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
