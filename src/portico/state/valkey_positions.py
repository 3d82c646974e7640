"""The positions of `storage.positions` in Valkey or Redis.

One that was started anew, or has succeeded another, may have lost what was kept last. Whoever
connects to it does not know, and so takes nothing for known for as long as that matters.
"""

import time
from typing import Any

from valkey.exceptions import ValkeyError

from portico.domain.errors import Unavailable
from portico.state.valkey_client import Command, answer_of, store

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
        """As `state.valkey.ValkeyLimiter`; `life` is for how many seconds a position is kept, `lag`
        how many seconds old what a replica shows may be."""
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
        except (TypeError, ValueError) as error:  # it is no such server, or somebody else's key
            raise Unavailable(NO_ANSWER) from error
        if time.monotonic() - self._store.connected < self._lag:
            raise Unavailable("The store of positions may have lost the last ones.")
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
