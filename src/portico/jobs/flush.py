"""Stores, in batches, what changes in memory first: rate counters and last uses of credentials."""

import msgspec

from portico.domain.times import DAY
from portico.services.credentials import Credentials, Uses
from portico.services.environment import Environment
from portico.state.protocol import Volatile
from portico.storage.api_keys import ApiKeys
from portico.storage.grants import Grants
from portico.storage.rate_counters import Counter, RateCounters
from portico.storage.sessions import Sessions

FLUSH_PERIOD = 0.5
"""Seconds between two batches: how much a crash may lose."""


class _Batch(msgspec.Struct):
    """The changes between two runs."""

    counters: list[Counter]
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
        self._batch = _Batch([], Uses())

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

    def _gathered(self) -> _Batch:
        return _Batch(
            self._limiter.changes() if self._limiter is not None else [],
            self._credentials.take_uses(),
        )

    async def _store(self, batch: _Batch) -> None:
        env = self._env
        async with env.db.transaction() as tx:
            await env[RateCounters].save(tx, batch.counters)
            await env[ApiKeys].record_use(tx, batch.uses.keys)
            await env[Grants].record_use(tx, batch.uses.grants)
            await env[Sessions].record_seen(tx, batch.uses.sessions)
        self._batch = _Batch([], Uses())
