"""Stores the counted requests and the failed ones, which are kept in memory first, in batches."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count, islice

import msgspec

from portico.domain.requests import FailedRequest, Kind
from portico.services.environment import Environment
from portico.state.request_counts import RequestCounts
from portico.storage.flushes import Flushes
from portico.storage.requests import Requests

STORE_PERIOD = 5.0
"""Seconds between two runs: how late requests are shown, and how many seconds a crash may lose."""

BATCH = 100
"""Kinds of requests, and failed requests, to store at a time: 3 ms on SQLite's event loop."""


class _Batch(msgspec.Struct):
    """A part of the requests between two runs."""

    number: int
    counts: Mapping[Kind, int]
    failed: Sequence[FailedRequest]


class StoreRequests:
    """One environment's requests in this process.

    Each batch is tried until it is stored, one after the other, and only then are the next ones
    gathered. A batch's number is stored with it, so each request is added exactly once, wherever a
    run is cancelled and whatever the outcome of its commit.
    """

    def __init__(self, env: Environment, writer: str) -> None:
        """`writer` is a name that no other process uses or has used."""
        self._env = env
        self._writer = writer
        self._numbers = count(1)
        self._waiting: deque[_Batch] = deque()

    async def run(self) -> None:
        """Stores what was counted. Raises `Unavailable`, and then keeps it for the next run."""
        await self._store()
        self._gather()
        await self._store()

    def _gather(self) -> None:
        counts, failed = self._env[RequestCounts].take()
        parts = iter(counts.items())
        for start in range(0, max(len(counts), len(failed)), BATCH):
            self._waiting.append(
                _Batch(
                    next(self._numbers),
                    dict(islice(parts, BATCH)),
                    failed[start : start + BATCH],
                )
            )

    async def _store(self) -> None:
        env = self._env
        while self._waiting:
            batch = self._waiting[0]
            async with env.db.transaction() as tx:
                if await env[Flushes].begin(tx, self._writer, batch.number, env.clock()):
                    await env[Requests].add(tx, batch.counts, batch.failed)
            self._waiting.popleft()
