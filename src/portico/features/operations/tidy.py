"""Removes expired rows and empty blocks. `bounds` has the retention periods."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from portico.core.audit import KEPT_SECONDS
from portico.core.oauth import ACCESS_SECONDS
from portico.core.sessions import DEVICE_SECONDS
from portico.core.times import DAY, SECOND
from portico.data.database import Transaction
from portico.data.filtered_totals import EmptyBlocks
from portico.data.table import Aging, Expiry
from portico.environment import Environment
from portico.features.access.storage import Clients
from portico.features.events.storage import Deliveries, Events
from portico.features.operations.requests import DAYS, FAILED_DAYS, HOURS
from portico.features.people.rules import KEPT
from portico.jobs.runner import Lease, Wait
from portico.resource.uploads import KEPT as KEPT_UPLOADS

Forget = Callable[[Transaction], Awaitable[bool]]
"""Removes some rows of one kind; returns whether there may be more."""

TIDY_PERIOD = 3600.0

FLUSH_DAYS = 35
"""How long the number of a process's last batch is kept."""

UNUSED_CLIENT_DAYS = 30
"""How long an OAuth client that made itself known is kept while nobody allows it anything."""

PAUSE_SECONDS = 0.01
"""The pause between two batches, for other writers."""


def bounds(now: int) -> dict[Aging, int]:
    """For each kind, in the order of removal: rows before this are removed, in the unit of the
    kind's column."""
    today = now // DAY
    return {
        Aging.SESSIONS: now,
        # The last access token of a grant expires after the refresh token of the same row.
        Aging.TOKENS: now - ACCESS_SECONDS * SECOND,
        # If a code is used again, it must still be known which grant it was exchanged for.
        Aging.CODES: now - DAY,
        Aging.DEVICE_CODES: now - DAY,
        Aging.GRANTS: now,
        Aging.CHALLENGES: now,
        Aging.USED_CHALLENGES: now,
        Aging.PENDING_SIGN_INS: now,
        Aging.PROVIDER_VISITS: now,
        Aging.EMAIL_TOKENS: now,
        Aging.INVITATIONS: now - KEPT,
        Aging.SHOWN_ONCE: now,
        Aging.KNOWN_ADDRESSES: now - DEVICE_SECONDS * SECOND,
        Aging.KNOWN_DEVICES: now - DEVICE_SECONDS * SECOND,
        Aging.IDEMPOTENCY_KEYS: now - KEPT_SECONDS * SECOND,
        Aging.REQUEST_HOURS: HOURS.first(now),
        Aging.REQUEST_DAYS: DAYS.first(now),
        Aging.FAILED_REQUESTS: now - FAILED_DAYS * DAY,
        Aging.RATE_COUNTERS: today,
        Aging.FLUSHES: now - FLUSH_DAYS * DAY,
        Aging.UPLOADS: now - KEPT_UPLOADS,
        # Left by processes that were killed.
        Aging.LEASES: now - DAY,
    }


class _Removal:
    """Removes old rows of one kind, each batch `after` the one before."""

    def __init__(self, forget: Callable[..., Awaitable[int | None]]) -> None:
        """`forget` takes the transaction and `after`, and returns the next `after`, if any."""
        self._forget = forget
        self._after = 0

    async def __call__(self, tx: Transaction) -> bool:
        following = await self._forget(tx, after=self._after)
        self._after = following or self._after
        return following is not None


class Tidy:
    """Removes old rows of one environment, in one process at a time."""

    def __init__(self, env: Environment, holder: str, wait: Wait = asyncio.sleep) -> None:
        """`holder` is a name that no other process uses."""
        self._env = env
        self._lease = Lease(env, "tidy", holder)
        self._wait = wait

    async def run(self) -> None:
        """Removes everything that is due, in batches. Raises `Unavailable`; then the next run does
        the rest."""
        due = [forget async for forget in self._due(self._env.clock())]
        if not due:
            return
        async with self._lease.held() as mine:
            for forget in due if mine else ():
                while await self._batch(forget):
                    await self._wait(PAUSE_SECONDS)

    async def _due(self, now: int) -> AsyncIterator[Forget]:
        env = self._env
        kinds = bounds(now)
        for kind in await env[Expiry].due(kinds):
            yield _Removal(partial(env[Expiry].forget, kind=kind, before=kinds[kind]))
        before = now - env.settings.events_days * DAY
        for log in (env[Deliveries], env[Events]):  # a delivery without its event cannot be sent
            if await log.is_due(before):
                yield _Removal(partial(log.forget, before=before))
        unused = now - UNUSED_CLIENT_DAYS * DAY
        if await env[Clients].are_unused(unused):
            yield partial(env[Clients].forget_unused, before=unused)
        if await env[EmptyBlocks].are_due():
            yield env[EmptyBlocks].forget

    async def _batch(self, forget: Forget) -> bool:
        """Removes some rows; returns whether there may be more and this process has the lease."""
        async with self._env.db.transaction() as tx:
            return await self._lease.renewed(tx) and await forget(tx)
