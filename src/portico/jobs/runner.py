"""Runs jobs periodically, beside requests. Each has its own task, so that one that fails or takes
long does not hold up the others."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager

import msgspec

from portico.core.errors import Unavailable
from portico.core.times import MINUTE, SECOND, Clock
from portico.data.database import Transaction
from portico.data.leases import Leases
from portico.environment import Environment

RETRY_SECONDS = 60.0
"""A job that failed runs again after its period, or after this time if that is shorter."""

LAST_SECONDS = 10.0
"""How long the last run of each job may take when the server stops."""

Wait = Callable[[float], Awaitable[None]]
"""Waits for a number of seconds, as `asyncio.sleep` does. Tests pass their own."""

log = logging.getLogger(__name__)


class Job(msgspec.Struct, frozen=True):
    """A function to call at the start, and `period` seconds after each return.

    A job that waits for a signal does so within `run`, and has a period of 0. `environment` is
    empty for a job of both environments. A job with `last` runs once more when the server stops.
    `run` must leave nothing half-done, wherever it is cancelled.
    """

    environment: str
    name: str
    period: float
    run: Callable[[], Awaitable[None]]
    last: bool = False


class Runs(msgspec.Struct):
    """The results of one job's runs. `succeeded_at` is in epoch seconds, 0 before the first
    success."""

    environment: str
    job: str
    succeeded_at: float = 0.0
    failures: int = 0


class Runner:
    """The jobs of one process."""

    def __init__(self, clock: Clock, wait: Wait = asyncio.sleep) -> None:
        self._clock = clock
        self._wait = wait
        self._jobs: list[tuple[Job, Runs]] = []
        self._reasons: dict[str, set[str]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.runs: list[Runs] = []
        """The results of every job, for the metrics."""

    def start(self, jobs: Iterable[Job]) -> None:
        """Starts these jobs."""
        self._jobs = [(job, Runs(job.environment, job.name)) for job in jobs]
        self.runs += (runs for _, runs in self._jobs)
        self._tasks = [asyncio.create_task(self._repeat(*job)) for job in self._jobs]

    async def stop(self) -> None:
        """Cancels all jobs, then runs those with `last` once more, so that nothing in memory is
        lost."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for job, runs in self._jobs:
            if job.last and not await self._run_once(job, runs, LAST_SECONDS):
                log.error("the last run of the job %s failed; its data is lost", _name(job))

    async def _repeat(self, job: Job, runs: Runs) -> None:
        while True:
            succeeded = await self._run_once(job, runs)
            await self._wait(job.period if succeeded else min(job.period, RETRY_SECONDS))

    async def _run_once(self, job: Job, runs: Runs, seconds: float | None = None) -> bool:
        """Runs a job once, for at most this many seconds, and records the result."""
        try:
            async with asyncio.timeout(seconds):
                await job.run()
        except Exception as error:  # noqa: BLE001 - whatever it is, the next run may succeed
            runs.failures += 1
            self._log_failure(job, error)
            return False
        runs.succeeded_at = self._clock() / SECOND
        if self._reasons.pop(_name(job), None) is not None:
            log.info("the job %s works again", _name(job))
        return True

    def _log_failure(self, job: Job, error: Exception) -> None:
        """Logs why a job fails: each reason once until it succeeds, since two may alternate."""
        expected = isinstance(error, Unavailable)
        reason = str(error) if expected else type(error).__name__
        logged = self._reasons.setdefault(_name(job), set())
        if reason not in logged:
            logged.add(reason)
            log.log(
                logging.WARNING if expected else logging.ERROR,
                "the job %s fails and is tried again: %s",
                _name(job),
                reason,
                exc_info=None if expected else error,
            )


def _name(job: Job) -> str:
    return f"{job.environment} {job.name}".strip()


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
