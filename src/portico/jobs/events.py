"""Giving events their numbers as soon as they are committed."""

from portico.services.environment import Environment

LOOK_SECONDS = 5.0
"""How often is looked for events that nobody rang for: their process was killed."""


class SettleEvents:
    """One environment's events, where the engine commits in no order. Every process does it: what
    one has settled, another does not find."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._bell = env.db.bell.listener()

    async def run(self) -> None:
        """Waits for the bell, then settles all there is. Raises `Unavailable`, and then the next
        run settles it."""
        await self._bell.wait(LOOK_SECONDS)
        while await self._env.events.settle():
            pass
