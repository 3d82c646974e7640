"""The positions of `data.postgres.positions` in Valkey or Redis.

A server that was restarted, or has become the primary, may have lost the last positions. So for a
while after connecting to it, a missing position proves nothing.
"""

import time
from typing import Any

from valkey.exceptions import ValkeyError

from portico.core.errors import Unavailable
from portico.limits.valkey_client import Command, answer_of, store

NO_ANSWER = "The store of positions does not answer."

_NOTE = """
local before = tonumber(redis.call('GET', KEYS[1]) or 0)
local position = math.max(before, tonumber(ARGV[1]))
redis.call('SET', KEYS[1], string.format('%.0f', position), 'PX', ARGV[2])
return 1
"""


class ValkeyPositions:
    """One environment's positions in a Valkey or Redis server, or a cluster."""

    def __init__(self, url: str, environment: str, prefix: str, life: float, lag: float) -> None:
        """`url`, `environment` and `prefix` are as for `limits.valkey.ValkeyLimiter`. `life` is how
        long a position is kept, `lag` how far a replica may be behind, both in seconds."""
        self._store = store(url)
        self._life = int(life * 1000)
        self._lag = lag
        self._slot = f"{prefix}:{{{environment}:written"

    async def note(self, caller: int, position: int) -> None:
        """See `Positions`."""
        key = self._key(caller)
        await self._ask(key, ("EVAL", _NOTE, 1, key, position, self._life))

    async def of(self, caller: int) -> int:
        """See `Positions`."""
        key = self._key(caller)
        kept = await self._ask(key, ("GET", key))
        try:
            position = int(kept or 0)
        except (TypeError, ValueError) as error:  # another kind of server, or another program's key
            raise Unavailable(NO_ANSWER) from error
        if time.monotonic() - self._store.connected < self._lag:
            raise Unavailable("The store of positions may have lost the latest ones.")
        return position

    async def close(self) -> None:
        """See `Positions`."""
        await self._store.close()

    def _key(self, caller: int) -> str:
        return f"{self._slot}:{caller}}}"

    async def _ask(self, key: str, command: Command) -> Any:
        try:
            return await answer_of(self._store, key, command)
        except (ValkeyError, OSError) as error:
            raise Unavailable(NO_ANSWER) from error
