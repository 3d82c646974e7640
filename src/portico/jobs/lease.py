"""The right to do a job that only one process may do at a time.

It ends by itself after a minute, by the holder's clock, so that a process that died holds up nobody
for much longer, also where that clock was ahead (`storage.leases.LONGEST`). It spares work and
holds no truth: what two processes did at once would be done twice.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from portico.domain.times import MINUTE
from portico.services.environment import Environment
from portico.storage.database import Transaction

MILLISECONDS = MINUTE


class Lease:
    """One process's claim to one job of an environment."""

    def __init__(self, env: Environment, name: str, holder: str) -> None:
        """`holder` is a name that no other process has."""
        self._env = env
        self._name = name
        self._holder = holder

    async def renewed(self, tx: Transaction) -> bool:
        """Takes the lease for another minute; False where another process has it."""
        now = self._env.clock()
        return await self._env.leases.take(
            tx, self._name, self._holder, now=now, until=now + MILLISECONDS
        )

    @asynccontextmanager
    async def held(self) -> AsyncIterator[bool]:
        """Takes the lease, and gives it back at the end; tells whether it was free."""
        mine = False
        try:
            async with self._env.db.transaction() as tx:
                mine = await self.renewed(tx)
            yield mine
        finally:
            if mine:  # also where the server stops before it is known to be stored
                await self._env.leases.release(self._name, self._holder)
