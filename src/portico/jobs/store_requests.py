"""How many requests were made, and which failed: known in memory first, and stored in batches."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count, islice

import msgspec

from portico.domain.requests import FailedRequest, Kind
from portico.services.environment import Environment

STORE_PERIOD = 5.0
"""Seconds between two runs: how late requests are shown, and what a crash may forget."""

BATCH = 100
"""Kinds of requests, and failed ones, that are stored at once: 3 ms of SQLite's event loop."""


class _Batch(msgspec.Struct):
    """A part of what was gathered between two runs."""

    number: int
    counts: Mapping[Kind, int]
    failed: Sequence[FailedRequest]


class StoreRequests:
    """One environment's requests, of this process.

    Batches are tried, one after the other, until each is stored, and only then the next are
    gathered. A batch's number is stored with it: thus each request is added once wherever a run is
    cancelled, and whatever became of its commit.
    """

    def __init__(self, env: Environment, writer: str) -> None:
        """`writer` is a name that no other process has, or had."""
        self._env = env
        self._writer = writer
        self._numbers = count(1)
        self._waiting: deque[_Batch] = deque()

    async def run(self) -> None:
        """Stores what has gathered. Raises `Unavailable`, and then keeps it for the next time."""
        await self._store()
        self._gather()
        await self._store()

    def _gather(self) -> None:
        counts, failed = self._env.request_counts.take()
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
                if await env.flushes.begin(tx, self._writer, batch.number, env.clock()):
                    await env.requests.add(tx, batch.counts, batch.failed, env.clock())
            self._waiting.popleft()
