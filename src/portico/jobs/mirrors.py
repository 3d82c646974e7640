"""Bringing up mirror users that could not be reached when their account changed."""

from portico.jobs.lease import Lease
from portico.services.environment import Environment
from portico.services.mirrors import bring, lagging

FOLLOW_PERIOD = 0.5

COMPARED_RUNS = 1_200
"""From one comparison of all mirrors to the next, ten minutes, for what a process has missed that
ended since."""


class FollowMirrors:
    """The mirrors of one environment's accounts. They are compared at the start, as soon as this
    process knows that one is behind, and now and then."""

    def __init__(self, env: Environment, holder: str) -> None:
        """`holder` is a name that no other process has."""
        self._env = env
        self._lease = Lease(env, "mirrors", holder)
        self._left = 0

    async def run(self) -> None:
        """Compares all mirrors where that is due. Raises `Unavailable`, and then it stays due."""
        if self._left and not self._env.mirror_is_behind.is_set():
            self._left -= 1
            return
        self._left = 0
        # Before the comparison: what falls behind meanwhile is due again.
        self._env.mirror_is_behind.clear()
        behind = await lagging(self._env)
        if behind:
            async with self._lease.held() as mine:
                if not mine:  # else the next run sees whether anything was left
                    return
                for account_id in behind:
                    await bring(self._env, account_id)
        self._left = COMPARED_RUNS
