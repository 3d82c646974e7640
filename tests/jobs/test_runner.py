"""Each job runs by itself, again and again, whatever becomes of it and of the others."""

import asyncio
import logging

import pytest

from driving import FakeClock
from jobs.conftest import Waiting
from portico.core.errors import Unavailable
from portico.jobs.runner import Job, Runner, Runs


class Work:
    """A job that a test makes fail."""

    def __init__(self) -> None:
        self.done = 0
        self.failure: Exception | None = None

    async def run(self) -> None:
        """Fails as it is told to."""
        if self.failure is not None:
            raise self.failure
        self.done += 1


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_job_runs_at_the_start_and_after_each_period(waiting: Waiting) -> None:
    work, clock = Work(), FakeClock()
    runner = Runner(clock, waiting)
    runner.start([Job("live", "work", 30.0, work.run)])
    for done in range(1, 4):
        assert await waiting.pass_by() == 30.0
        assert work.done == done
        assert runner.runs == [Runs("live", "work", clock() / 1000, 0)]
        clock.advance(seconds=30)
    await runner.stop()


async def test_a_failure_is_told_once_and_the_job_goes_on(
    waiting: Waiting, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    work = Work()
    runner = Runner(FakeClock(), waiting)
    work.failure = Unavailable("The database is away.")
    runner.start([Job("live", "work", 3600.0, work.run)])
    for _ in range(3):
        assert await waiting.pass_by() == 60.0, "sooner than in an hour"
    seconds, go_on = await waiting.next()
    assert runner.runs == [Runs("live", "work", 0.0, 4)]
    work.failure = None
    go_on.set_result(None)
    assert (seconds, await waiting.pass_by()) == (60.0, 3600.0)
    assert [record.getMessage() for record in caplog.records] == [
        "the job live work fails and is tried again: The database is away.",
        "the job live work works again",
    ]
    assert caplog.records[0].exc_info is None
    await runner.stop()


async def test_a_job_that_takes_for_ever_holds_up_no_other(waiting: Waiting) -> None:
    work = Work()
    runner = Runner(FakeClock(), waiting)
    runner.start([Job("", "long", 1.0, forever), Job("", "work", 2.0, work.run)])
    for done in range(1, 6):
        assert await waiting.pass_by() == 2.0
        assert work.done == done
    await runner.stop()


async def test_stopping_runs_those_once_more_that_keep_something(waiting: Waiting) -> None:
    keeps, other = Work(), Work()
    runner = Runner(FakeClock(), waiting)
    runner.start(
        [
            Job("", "long", 1.0, forever),
            Job("", "keeps", 2.0, keeps.run, last=True),
            Job("", "other", 3.0, other.run),
        ]
    )
    for _ in range(2):
        await waiting.next()
    await runner.stop()
    assert (keeps.done, other.done) == (2, 1)
