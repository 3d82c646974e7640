"""The right to do a job that only one process may do at a time.

It expires after a minute by the holder's clock, so that a process that died does not hold up others
for longer. It only saves work: if two processes did the job at the same time, nothing would break,
but work would be done twice.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from portico.domain.times import MINUTE
from portico.services.environment import Environment
from portico.storage.database import Transaction
from portico.storage.leases import Leases


class Lease:
    """One process's claim to one job of an environment."""

    def __init__(self, env: Environment, name: str, holder: str) -> None:
        """`holder` is a name that no other process uses."""
        self._env = env
        self._name = name
        self._holder = holder

    async def renewed(self, tx: Transaction) -> bool:
        """Takes or renews the lease for a minute; False if another process has it."""
        now = self._env.clock()
        return await self._env[Leases].take(
            tx, self._name, self._holder, now=now, until=now + MINUTE
        )

    @asynccontextmanager
    async def held(self) -> AsyncIterator[bool]:
        """Takes the lease, and releases it at the end; yields whether it was free."""
        mine = False
        try:
            async with self._env.db.transaction() as tx:
                mine = await self.renewed(tx)
            yield mine
        finally:
            if mine:  # also if the server stops before the commit is known to be stored
                await self._env[Leases].release(self._name, self._holder)
