"""Telling people that an API key of theirs ends soon."""

import asyncio

from portico.domain.times import DAY
from portico.jobs.lease import Lease
from portico.jobs.runner import Wait
from portico.services.environment import Environment
from portico.services.letters import tell

REMIND_PERIOD = 10.0

AHEAD = 7 * DAY
"""How long before a key's end its owner is reminded, in milliseconds."""

BATCH = 50

BREATH_SECONDS = 0.01
"""Between two batches, for whoever else writes."""


class Remind:
    """One environment's reminders, by one process at a time; each key has one.

    It is noted before the mail is written, so that no key has two, whoever is killed when. Where
    some mails wait, the other keys do too: a stop has three seconds to send what it holds.
    """

    def __init__(self, env: Environment, holder: str, wait: Wait = asyncio.sleep) -> None:
        """`holder` is a name that no other process has."""
        self._env = env
        self._lease = Lease(env, "reminders", holder)
        self._wait = wait

    async def run(self) -> None:
        """Reminds the owners of all keys for which it is time. Raises `Unavailable`; what is left
        then comes the next time."""
        now = self._env.clock()
        if not await self._env.api_keys.ending(now, now + AHEAD, 1):
            return
        async with self._lease.held() as mine:
            while mine and self._env.mail_queue.is_short and await self._batch():
                await self._wait(BREATH_SECONDS)

    async def _batch(self) -> bool:
        """Reminds some; tells whether there may be more."""
        env, now = self._env, self._env.clock()
        keys = await env.api_keys.ending(now, now + AHEAD, BATCH)
        owners = {key.id: await env.users.get(key.user_id) for key in keys}
        async with env.db.transaction() as tx:
            if not await self._lease.renewed(tx):
                return False
            noted = [key for key in keys if await env.api_keys.remind(tx, key.id, now)]
        page = f"{env.addresses.dashboard}/keys"
        for key in noted:
            owner, until = owners[key.id], key.expires_at
            if owner is not None and until is not None:
                name, hint = key.name, key.hint
                tell(env, owner, "key-ends", name=name, hint=hint, until=until, page=page)
        return len(keys) == BATCH
