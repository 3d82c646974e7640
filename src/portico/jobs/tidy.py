"""Forgetting what has expired, and how long everything stays."""

import asyncio

from portico.domain.idempotency import KEPT_SECONDS
from portico.domain.oauth import ACCESS_SECONDS
from portico.domain.times import DAY, SECOND
from portico.jobs.lease import Lease
from portico.jobs.runner import Wait
from portico.services.environment import Environment
from portico.storage.daily_use import KEPT_DAYS
from portico.storage.expiry import Aging

TIDY_PERIOD = 3600.0

BREATH_SECONDS = 0.01
"""Between two batches, for whoever else writes."""


def bounds(now: int) -> dict[Aging, int]:
    """Before when each kind is forgotten, in the unit of its column; the order is theirs too."""
    today = now // DAY
    return {
        Aging.SESSIONS: now,
        # At the end of a family an access token outlives the refresh token beside it.
        Aging.TOKENS: now - ACCESS_SECONDS * SECOND,
        # A code that comes back once more must still be known for what it was exchanged.
        Aging.CODES: now - DAY,
        Aging.GRANTS: now,
        Aging.EMAIL_TOKENS: now,
        Aging.KNOWN_ADDRESSES: now - 365 * DAY,
        Aging.IDEMPOTENCY_KEYS: now - KEPT_SECONDS * SECOND,
        Aging.DAILY_USE: today - KEPT_DAYS,
        # Yesterday's stay, for a clock that is set back over midnight.
        Aging.RATE_COUNTERS: today - 1,
        Aging.FLUSHES: now - KEPT_DAYS * DAY,
    }


class Tidy:
    """One environment's forgetting, by one process at a time."""

    def __init__(self, env: Environment, holder: str, wait: Wait = asyncio.sleep) -> None:
        """`holder` is a name that no other process has."""
        self._env = env
        self._lease = Lease(env, "tidy", holder)
        self._wait = wait

    async def run(self) -> None:
        """Forgets all that is due, in batches. Raises `Unavailable`; what is left then goes the
        next time."""
        due = [
            (kind, before)
            for kind, before in bounds(self._env.clock()).items()
            if await self._env.expiry.is_due(kind, before)
        ]
        if not due:
            return
        async with self._lease.held() as mine:
            for kind, before in due if mine else ():
                while await self._batch(kind, before):
                    await self._wait(BREATH_SECONDS)

    async def _batch(self, kind: Aging, before: int) -> bool:
        """Forgets some; tells whether there may be more, and whether they are this process's."""
        async with self._env.db.transaction() as tx:
            return await self._lease.renewed(tx) and await self._env.expiry.forget(tx, kind, before)
