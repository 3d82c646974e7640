"""Reminds owners by mail that an API key expires soon."""

import asyncio

from portico.domain.api_keys import REMINDED_AHEAD
from portico.domain.audit import SYSTEM
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
    process is killed.
    """

    def __init__(self, env: Environment, holder: str, wait: Wait = asyncio.sleep) -> None:
        """`holder` is a name that no other process uses."""
        self._env = env
        self._lease = Lease(env, "reminders", holder)
        self._wait = wait

    async def run(self) -> None:
        """Reminds the owners of all keys for which it is time. Raises `Unavailable`; then the next
        run does the rest."""
        now = self._env.clock()
        if not await self._env.api_keys.ending(now, now + REMINDED_AHEAD, 1):
            return
        async with self._lease.held() as mine:
            while mine and await self._batch():
                await self._wait(PAUSE_SECONDS)

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
