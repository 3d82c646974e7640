"""Updates mirror users that could not be updated when their account changed."""

from portico.jobs.lease import Lease
from portico.services.environment import Environment
from portico.services.mirrors import outdated_mirrors, update_mirror

FOLLOW_PERIOD = 0.5

COMPARED_RUNS = 1_200
"""The runs, ten minutes, between two comparisons of all mirrors. They find mirrors left behind by a
process that has died."""


class FollowMirrors:
    """The mirrors of one environment's accounts. They are compared at the start, as soon as this
    process knows that one is behind, and every ten minutes."""

    def __init__(self, env: Environment, holder: str) -> None:
        """`holder` is a name that no other process uses."""
        self._env = env
        self._lease = Lease(env, "mirrors", holder)
        self._left = 0

    async def run(self) -> None:
        """Compares all mirrors if that is due. Raises `Unavailable`; then it stays due."""
        if self._left and not self._env.mirror_is_behind.is_set():
            self._left -= 1
            return
        self._left = 0
        # Before the comparison, so that a mirror that falls behind meanwhile is compared again.
        self._env.mirror_is_behind.clear()
        behind = await outdated_mirrors(self._env)
        if behind:
            async with self._lease.held() as mine:
                if not mine:  # the next run compares again
                    return
                for account_id in behind:
                    await update_mirror(self._env, account_id)
        self._left = COMPARED_RUNS
