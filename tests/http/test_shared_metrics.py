"""What workers tell each other of their counts."""

import logging
from pathlib import Path

import pytest

from driving import FakeClock
from jobs.conftest import Waiting
from portico.http.shared_metrics import SharedMetrics, Snapshot
from portico.jobs.runner import Job, Runner


async def test_a_worker_that_cannot_share_its_counts_says_so_once_and_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    waiting, directory = Waiting(), tmp_path / "run"
    one, other = SharedMetrics(directory, 1), SharedMetrics(directory, 2)
    runner = Runner(FakeClock(), waiting)

    async def share() -> None:
        failures = {"live": runner.runs[0].failures}
        one.keep(Snapshot([], failures, {}, {}, {}, 0, [], {}))

    runner.start([Job("", "metrics", 0.5, share)])
    for _ in range(3):
        await waiting.pass_by()
    assert runner.runs[0].failures == 3
    assert other.others() == []
    directory.mkdir()
    await waiting.pass_by()
    await waiting.pass_by()
    await runner.stop()

    assert [found.refusals for found in other.others()] == [{"live": 3}]
    missing = f"[Errno 2] No such file or directory: '{directory / 'worker-1.new'}'"
    told = f"The metrics of this worker are not shared: {missing}"
    assert [record.getMessage() for record in caplog.records] == [
        f"the job metrics fails and is tried again: {told}",
        "the job metrics works again",
    ]
