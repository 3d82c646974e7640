"""What is known in memory first and written in batches: rate counters and last uses of keys."""

import asyncio
import logging

from portico.domain.errors import Unavailable
from portico.domain.times import DAY
from portico.services.api_keys import KeyRing
from portico.services.environment import Environment
from portico.services.mirrors import follow_all
from portico.state.protocol import Volatile
from portico.storage.rate_counters import Counter

SECONDS = 0.5
"""Between two batches: what a crash may forget."""

log = logging.getLogger(__name__)


class Upkeep:
    """One environment's batches."""

    def __init__(self, env: Environment, keys: KeyRing, limiter: Volatile | None) -> None:
        """`limiter` is the environment's, where a restart would empty it."""
        self._env = env
        self._keys = keys
        self._limiter = limiter
        self._counters: dict[str, Counter] = {}
        self._used: dict[int, int] = {}

    async def restore(self) -> None:
        """Takes up the counters of the last run, and what mirrors missed."""
        if self._limiter is not None:
            self._limiter.restore(await self._env.rate_counters.since(self._oldest_day()))
        await follow_all(self._env)

    async def flush(self) -> None:
        """Writes what has gathered. Raises `Unavailable`, and then keeps it for the next time."""
        if self._limiter is not None:
            self._counters.update((row[0], row) for row in self._limiter.changes())
        self._used.update(self._keys.take_used())
        use, self._env.use = self._env.use, {}
        if not self._counters and not self._used and not use:
            return
        counters, self._counters = self._counters, {}
        used, self._used = self._used, {}
        try:
            async with self._env.db.transaction() as tx:
                await self._env.rate_counters.save(tx, counters.values(), day=self._oldest_day())
                await self._env.api_keys.record_use(tx, used)
                await self._env.daily_use.add(tx, use)
        except BaseException:  # also when it is cancelled; whatever is written twice stays the same
            self._counters = counters | self._counters
            self._used = used | self._used
            for day, count in use.items():
                self._env.use[day] = self._env.use.get(day, 0) + count
            raise

    async def run(self) -> None:
        """Flushes for as long as the server runs."""
        while True:
            await asyncio.sleep(SECONDS)
            try:
                await self.flush()
                if self._env.mirror_is_behind:
                    await follow_all(self._env)
            except Unavailable as error:
                log.warning("counters are not stored yet: %s", error.message)
            except Exception:
                # Whatever it was: the next batch may be stored.
                log.exception("counters are not stored yet")

    def _oldest_day(self) -> int:
        """Yesterday: a clock that is set back over midnight finds its counters again."""
        return self._env.clock() // DAY - 1
