"""The metrics of several workers, shared by files and added up."""

import logging
import os
from pathlib import Path

import pytest

from driving import FakeClock
from jobs.conftest import Waiting
from portico.core.errors import Unavailable
from portico.features.operations.metrics import (
    FAMILIES,
    Key,
    SharedMetrics,
    Snapshot,
    families,
    total,
)
from portico.jobs.runner import Job, Runner

REFUSALS: Key = ("portico_limiter_refusals", "live")
LISTENING: Key = ("portico_database_listening", "live")
QUEUE: Key = ("portico_password_queue",)
SERVING: Key = ("portico_workers", "serving")
SILENT: Key = ("portico_workers", "silent")
AT_WORK = Snapshot({REFUSALS: 1}, {LISTENING: 1, QUEUE: 3, SERVING: 1, SILENT: 0})


async def test_metrics_that_cannot_be_shared_are_logged_once_and_shared_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    waiting, directory = Waiting(), tmp_path / "run"
    one, other = SharedMetrics(directory, 1), SharedMetrics(directory, 2)
    runner = Runner(FakeClock(), waiting)

    async def share() -> None:
        one.keep(Snapshot({REFUSALS: runner.runs[0].failures}))

    runner.start([Job("", "metrics", 0.5, share)])
    for _ in range(3):
        await waiting.pass_by()
    assert runner.runs[0].failures == 3
    assert other.others() == []
    directory.mkdir()
    await waiting.pass_by()
    await waiting.pass_by()
    await runner.stop()

    assert [found.counters for found in other.others()] == [{REFUSALS: 3}]
    missing = f"[Errno 2] No such file or directory: '{directory / 'worker-1.new'}'"
    fault = f"The metrics of this worker are not shared: {missing}"
    assert [record.getMessage() for record in caplog.records] == [
        f"the job metrics fails and is tried again: {fault}",
        "the job metrics works again",
    ]


def test_worker_that_cannot_write_its_metrics_is_not_silent(tmp_path: Path) -> None:
    one, other = SharedMetrics(tmp_path, 1), SharedMetrics(tmp_path, 2)
    one.keep(AT_WORK)
    os.utime(tmp_path / "worker-1.metrics", (0, 0))
    assert [found.gauges[SILENT] for found in other.others()] == [1]
    (tmp_path / "worker-1.new").mkdir()  # as where the disk is full, nothing can be written
    with pytest.raises(Unavailable):
        one.keep(Snapshot({REFUSALS: 2}))
    assert other.others() == [AT_WORK]


def test_silent_worker_keeps_its_counters_and_hears_no_notices(tmp_path: Path) -> None:
    one, other = SharedMetrics(tmp_path, 1), SharedMetrics(tmp_path, 2)
    one.keep(AT_WORK)
    os.utime(tmp_path / "worker-1.metrics", (0, 0))
    (silent,) = other.others()
    assert silent == Snapshot({REFUSALS: 1}, {LISTENING: 0, SERVING: 0, SILENT: 1})
    both = total([AT_WORK, silent])
    assert both == Snapshot({REFUSALS: 2}, {LISTENING: 0, QUEUE: 3, SERVING: 1, SILENT: 1})
    one.keep(AT_WORK)
    assert other.others() == [AT_WORK], "it shares again, though nothing was counted"


def test_worker_that_replaces_another_starts_from_its_counters_alone(tmp_path: Path) -> None:
    SharedMetrics(tmp_path, 1).keep(AT_WORK)
    assert SharedMetrics(tmp_path, 1).earlier() == Snapshot({REFUSALS: 1})


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("portico_limiter_refusals", 58),
        ("portico_workers", 58),
        ("portico_database_listening", 0),
        ("portico_database_replica_lag_seconds", 49),
        ("portico_password_queue", 49),
        ("portico_backup_last_success_timestamp_seconds", 49),
        ("portico_certificate_expiry_timestamp_seconds", 0),
    ],
)
def test_value_of_several_workers_is_their_sum_worst_or_latest(name: str, expected: int) -> None:
    labels = ["x"] * len(FAMILIES[name].labels)
    workers = [Snapshot(), Snapshot(), Snapshot()]
    for snapshot, value in zip(workers, (9, 49, 0), strict=True):
        snapshot.set(name, value, *labels)
    both = total(workers)
    assert {**both.counters, **both.gauges} == {(name, *labels): expected}


def test_histogram_has_cumulative_buckets_and_the_sum_of_the_latencies() -> None:
    series = ("portico_http_request_duration_seconds", "live", "GET", "/users", "200")
    counts: dict[Key, float] = {(*series, "0"): 2.0, (*series, "3"): 1.0, (*series, "sum"): 0.5}
    (metric,) = families(Snapshot(counts))
    buckets = [one.value for one in metric.samples if one.name.endswith("_bucket")]
    assert buckets[:4] == [2, 2, 2, 3]
    assert buckets[-1] == 3
    assert {one.name: one.value for one in metric.samples if "le" not in one.labels} == {
        "portico_http_request_duration_seconds_count": 3,
        "portico_http_request_duration_seconds_sum": 0.5,
    }
