"""Reminds owners by mail that an API key expires soon."""

import asyncio

from portico.domain.audit import SYSTEM
from portico.jobs.runner import Wait
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.letters import tell
from portico.storage.api_keys import ApiKeys
from portico.storage.mails import Mails
from portico.storage.users import Users

REMIND_PERIOD = 10.0

BATCH = 50

MOST_WAITING = 1_000
"""No reminders are queued while this many mails wait: the rest of the queue is for urgent ones."""

PAUSE_SECONDS = 0.01
"""The pause between two batches, for other writers."""


class Remind:
    """One environment's reminders, each sent by one process.

    A key is claimed for good in the transaction that queues the mail, so that no owner is told
    twice, even if a process is killed.
    """

    def __init__(self, env: Environment, wait: Wait = asyncio.sleep) -> None:
        self._env = env
        self._wait = wait

    async def run(self) -> None:
        """Reminds the owners of all keys for which it is time. Raises `Unavailable`; then the next
        run does the rest."""
        env = self._env
        while await env[ApiKeys].are_ending(env.clock()) and await env.change(SYSTEM, self._remind):
            await self._wait(PAUSE_SECONDS)

    async def _remind(self, change: Change) -> bool:
        """Reminds the owners of some keys; returns whether there may be more."""
        env = self._env
        if await env[Mails].count(change.tx, MOST_WAITING) == MOST_WAITING:
            return False
        change.noted_elsewhere()  # only the mail tells of it
        keys = await env[ApiKeys].remind(change.tx, change.now, BATCH)
        page = f"{env.addresses.dashboard}/keys"
        for key in keys:
            owner, until = await env[Users].get(key.user_id), key.expires_at
            if owner is None or until is None:
                continue
            name, hint = key.name, key.hint
            await tell(env, change, owner, "key-ends", name=name, hint=hint, until=until, page=page)
        return len(keys) == BATCH
