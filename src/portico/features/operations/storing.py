"""Stores, in batches, what changes in memory first: rate counters and last uses of credentials."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count, islice

import msgspec

from portico.core.requests import Counted, FailedRequest, Kind, RequestCounts
from portico.core.times import DAY
from portico.environment import Environment
from portico.features.access.credentials import Credentials, Uses
from portico.features.access.storage import ApiKeys, Grants
from portico.features.operations.requests import Flushes, RateCounter, RateCounters, Requests
from portico.features.signin.storage import Sessions
from portico.limits.protocol import Volatile

FLUSH_PERIOD = 0.5
"""Seconds between two batches: how much a crash may lose."""


class _FlushBatch(msgspec.Struct):
    """The changes between two runs."""

    counters: list[RateCounter]
    uses: Uses

    def __bool__(self) -> bool:
        return bool(self.counters or self.uses)


class Flush:
    """One environment's batches.

    A batch is tried until it is stored, and only then is the next one gathered. Counters and last
    uses are absolute values that may be stored twice, so they are exact wherever a run is cancelled
    and whatever the outcome of its commit.
    """

    def __init__(
        self, env: Environment, credentials: Credentials, limiter: Volatile | None
    ) -> None:
        """`limiter` is the environment's if a restart would lose its counters, else None."""
        self._env = env
        self._credentials = credentials
        self._limiter = limiter
        self._batch = _FlushBatch([], Uses())

    async def restore(self) -> None:
        """Restores the counters of the last process. Raises `Unavailable`."""
        if self._limiter is not None:
            today = self._env.clock() // DAY
            self._limiter.restore(await self._env[RateCounters].since(today))

    async def run(self) -> None:
        """Stores what has changed. Raises `Unavailable`, and then keeps it for the next run."""
        if self._batch:
            await self._store(self._batch)
        self._batch = self._gathered()
        if self._batch:
            await self._store(self._batch)

    def _gathered(self) -> _FlushBatch:
        return _FlushBatch(
            self._limiter.changes() if self._limiter is not None else [],
            self._credentials.take_uses(),
        )

    async def _store(self, batch: _FlushBatch) -> None:
        env = self._env
        async with env.db.transaction() as tx:
            await env[RateCounters].save(tx, batch.counters)
            await env[ApiKeys].record_use(tx, batch.uses.keys)
            await env[Grants].record_use(tx, batch.uses.grants)
            await env[Sessions].record_seen(tx, batch.uses.sessions)
        self._batch = _FlushBatch([], Uses())


STORE_PERIOD = 5.0
"""Seconds between two runs: how late requests are shown, and how many seconds a crash may lose."""

BATCH = 100
"""Kinds of requests, and failed requests, to store at a time: 3 ms on SQLite's event loop."""


class _RequestBatch(msgspec.Struct):
    """A part of the requests between two runs."""

    number: int
    counts: Mapping[Kind, Counted]
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
        self._waiting: deque[_RequestBatch] = deque()

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
                _RequestBatch(
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
