"""Reminds owners by mail that an API key expires soon."""

import asyncio

from portico.domain.api_keys import REMINDED_AHEAD
from portico.domain.audit import SYSTEM
from portico.domain.times import DAY
from portico.jobs.lease import Lease
from portico.jobs.runner import Wait
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.letters import tell

REMIND_PERIOD = 10.0

BATCH = 50

MOST_WAITING = 1_000
"""No reminders are queued while this many mails wait: the rest of the queue is for urgent ones."""

PAUSE_SECONDS = 0.01
"""The pause between two batches, for other writers."""


class Remind:
    """One environment's reminders, sent by one process at a time; each key gets one.

    It is recorded in the transaction that queues the mail, so that no key gets two, even if a
    process is killed. Only one that was sent too early, while the clock was ahead, is repeated.
    """

    def __init__(self, env: Environment, holder: str, wait: Wait = asyncio.sleep) -> None:
        """`holder` is a name that no other process uses."""
        self._env = env
        self._lease = Lease(env, "reminders", holder)
        self._wait = wait
        self._ran_at = 0
        self._doubted = True
        """Whether some may have been sent while the clock was ahead, which is unknown at the
        start."""

    async def run(self) -> None:
        """Reminds the owners of all keys for which it is time. Raises `Unavailable`; then the next
        run does the rest."""
        now = self._env.clock()
        await self._correct_times(now)
        if not await self._env.api_keys.ending(now, now + REMINDED_AHEAD, 1):
            return
        async with self._lease.held() as mine:
            while mine and await self._batch():
                await self._wait(PAUSE_SECONDS)

    async def _correct_times(self, now: int) -> None:
        """Clears some reminders that were sent more than a day too early."""
        self._doubted |= now < self._ran_at - DAY
        self._ran_at = now
        if self._doubted:
            latest = now + DAY
            if early := await self._env.api_keys.reminded_after(latest, BATCH):
                async with self._env.db.transaction() as tx:
                    await self._env.api_keys.forget_reminders(tx, early, latest)
            self._doubted = len(early) == BATCH

    async def _batch(self) -> bool:
        """Reminds the owners of some keys; returns whether there may be more."""
        env, now = self._env, self._env.clock()
        keys = await env.api_keys.ending(now, now + REMINDED_AHEAD, BATCH)
        owners = {key.id: await env.users.get(key.user_id) for key in keys}
        page = f"{env.addresses.dashboard}/keys"

        async def work(change: Change) -> bool:
            if not await self._lease.renewed(change.tx):
                return False
            if await env.mails.count(change.tx, MOST_WAITING) == MOST_WAITING:
                return False
            change.noted_elsewhere()  # only the mail tells of it
            for key in keys:
                owner, until = owners[key.id], key.expires_at
                noted = await env.api_keys.remind(change.tx, key.id, now)
                if not noted or owner is None or until is None:
                    continue
                name, hint = key.name, key.hint
                await tell(
                    env, change, owner, "key-ends", name=name, hint=hint, until=until, page=page
                )
            return len(keys) == BATCH

        return await env.change(SYSTEM, work)
