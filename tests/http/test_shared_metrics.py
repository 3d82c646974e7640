"""What workers tell each other of their counts."""

import logging
import os
from pathlib import Path

import msgspec
import pytest

from driving import FakeClock
from jobs.conftest import Waiting
from portico.domain.errors import Unavailable
from portico.http.shared_metrics import CacheUse, SharedMetrics, Snapshot, total
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
        one.keep(Snapshot(refusals=failures))

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


def test_a_worker_whose_counts_find_no_room_is_not_told_as_silent(tmp_path: Path) -> None:
    one, other = SharedMetrics(tmp_path, 1), SharedMetrics(tmp_path, 2)
    serving = Snapshot(refusals={"live": 1}, workers={"serving": 1, "silent": 0})
    one.keep(serving)
    os.utime(tmp_path / "worker-1.json", (0, 0))
    assert [found.workers["silent"] for found in other.others()] == [1]
    (tmp_path / "worker-1.new").mkdir()  # as where the disk is full, nothing can be written

    with pytest.raises(Unavailable):
        one.keep(msgspec.structs.replace(serving, refusals={"live": 2}))

    assert other.others() == [serving]


@pytest.mark.parametrize(("ends", "first"), [((0, 0), 0), ((0, 7), 7), ((9, 7), 7), ((7, 9), 7)])
def test_the_certificate_that_ends_first_counts(ends: tuple[int, int], first: int) -> None:
    told = [Snapshot(certificate_expires_at=one) for one in ends]
    assert total(told).certificate_expires_at == first


def test_the_newest_backup_that_a_worker_knows_of_counts() -> None:
    told = [Snapshot([], {}, {}, {}, {}, 0, [], {}, backed_up_at=one) for one in (0, 9, 7)]
    assert total(told).backed_up_at == 9


def test_a_worker_that_tells_nothing_any_more_keeps_its_counts_and_hears_of_nothing(
    tmp_path: Path,
) -> None:
    one, other = SharedMetrics(tmp_path, 1), SharedMetrics(tmp_path, 2)
    serving = {"serving": 1, "silent": 0}
    told = Snapshot([], {"live": 1}, {}, {"live": True}, {}, 3, [], {"live": 2}, workers=serving)
    one.keep(told)
    os.utime(tmp_path / "worker-1.json", (0, 0))

    (found,) = other.others()

    assert (found.refusals, found.listening) == ({"live": 1}, {"live": False})
    assert (found.hashing, found.mails) == (0, {})
    assert found.workers == {"serving": 0, "silent": 1}


def test_a_worker_in_the_place_of_another_goes_on_with_its_counts_alone(tmp_path: Path) -> None:
    serving, kept = {"serving": 1, "silent": 0}, CacheUse(hits=5, misses=2, size=4_000)
    told = Snapshot([], {"live": 1}, {}, {}, {}, 3, [], {"live": 2}, kept, workers=serving)
    told.certificate_expires_at = 7
    SharedMetrics(tmp_path, 1).keep(told)

    found = SharedMetrics(tmp_path, 1).earlier()

    assert (found.refusals, found.kept) == ({"live": 1}, CacheUse(hits=5, misses=2))
    assert (found.hashing, found.mails, found.workers) == (0, {}, {})
    assert found.certificate_expires_at == 0
