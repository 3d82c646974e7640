"""What is known in memory first and written in batches: rate counters, and the last uses of
credentials; and forgetting what has expired."""

import asyncio
import logging

from portico.domain.errors import Unavailable
from portico.domain.times import DAY, MINUTE
from portico.services.credentials import Credentials, Uses
from portico.services.environment import Environment
from portico.services.mirrors import follow_all
from portico.state.protocol import Volatile
from portico.storage.rate_counters import Counter

SECONDS = 0.5
"""Between two batches: what a crash may forget."""

TIDY_MILLISECONDS = 60 * MINUTE
"""Between two looks for what has expired."""

log = logging.getLogger(__name__)


class Upkeep:
    """One environment's batches."""

    def __init__(
        self, env: Environment, credentials: Credentials, limiter: Volatile | None
    ) -> None:
        """`limiter` is the environment's, where a restart would empty it."""
        self._env = env
        self._credentials = credentials
        self._limiter = limiter
        self._counters: dict[str, Counter] = {}
        self._uses = Uses()
        self._tidied_at = 0

    async def restore(self) -> None:
        """Takes up the counters of the last run, and what mirrors missed."""
        if self._limiter is not None:
            self._limiter.restore(await self._env.rate_counters.since(self._oldest_day()))
        await follow_all(self._env)

    async def flush(self) -> None:
        """Writes what has gathered. Raises `Unavailable`, and then keeps it for the next time."""
        if self._limiter is not None:
            self._counters.update((row[0], row) for row in self._limiter.changes())
        self._uses.update(self._credentials.take_uses())
        use, self._env.use = self._env.use, {}
        if not self._counters and not self._uses and not use:
            return
        counters, self._counters = self._counters, {}
        uses, self._uses = self._uses, Uses()
        try:
            async with self._env.db.transaction() as tx:
                await self._env.rate_counters.save(tx, counters.values(), day=self._oldest_day())
                await self._env.api_keys.record_use(tx, uses.keys)
                await self._env.grants.record_use(tx, uses.grants)
                await self._env.sessions.record_seen(tx, uses.sessions)
                await self._env.daily_use.add(tx, use)
        except BaseException:  # also when it is cancelled; whatever is written twice stays the same
            self._counters = counters | self._counters
            uses.update(self._uses)
            self._uses = uses
            for day, count in use.items():
                self._env.use[day] = self._env.use.get(day, 0) + count
            raise

    async def tidy(self) -> None:
        """Forgets what has expired: sessions, grants, codes, e-mailed tokens, kept answers, and old
        use.

        Raises `Unavailable`.
        """
        now = self._env.clock()
        if now - self._tidied_at < TIDY_MILLISECONDS:
            return
        async with self._env.db.transaction() as tx:
            await self._env.sessions.delete_ended(tx, now)
            # A code that comes back once more must still be known for what it was exchanged.
            await self._env.grants.forget(tx, now, codes_until=now - DAY)
            await self._env.email_tokens.delete_expired(tx, now)
            await self._env.idempotency_keys.forget(tx, now)
            await self._env.daily_use.forget(tx, now // DAY)
        self._tidied_at = now

    async def run(self) -> None:
        """Flushes and tidies for as long as the server runs."""
        while True:
            await asyncio.sleep(SECONDS)
            try:
                await self.flush()
                await self.tidy()
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
