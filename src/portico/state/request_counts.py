"""How many requests of each kind were made, and which failed, until that is stored."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain

from portico.domain.requests import MOST_FAILED, FailedRequest, Kind

MOST_ACCOUNTS = 1_000
"""Of how many accounts failed requests are kept until they are stored."""


class RequestCounts:
    """What nobody has taken away yet; bounded by the accounts, keys, routes and statuses there
    are."""

    def __init__(self) -> None:
        self._counts: dict[Kind, list[int]] = {}
        self._failed: dict[int, deque[FailedRequest]] = {}

    def count(self, kind: Kind) -> None:
        """Counts one request. Runs for every one: so the kind is looked up once, where its number
        stands in a list."""
        try:
            self._counts[kind][0] += 1
        except KeyError:
            self._counts[kind] = [1]

    def failed(self, request: FailedRequest) -> None:
        """Keeps a request that failed, if there is room, instead of its account's oldest."""
        kept = self._failed.get(request.user_id)
        if kept is None:
            if len(self._failed) == MOST_ACCOUNTS:
                return
            kept = self._failed[request.user_id] = deque(maxlen=MOST_FAILED)
        kept.append(request)

    def take(self) -> tuple[Mapping[Kind, int], Sequence[FailedRequest]]:
        """What was counted, and what failed, since the last call."""
        counts, failed = self._counts, self._failed
        self._counts, self._failed = {}, {}
        made = {kind: requests for kind, (requests,) in counts.items()}
        return made, list(chain.from_iterable(failed.values()))
