"""The metrics of a server: those of its workers, added up.

Each worker writes snapshots into a shared directory, and the worker that is asked for the metrics
adds the others' to its own. A worker that replaces another one starts from the counters of its last
snapshot, so that none ever decreases.
"""

import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import add
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from portico.core.errors import OK, Unavailable
from portico.core.times import SECOND
from portico.environment import Environment
from portico.features.access.credentials import Credentials
from portico.features.mail.storage import Mails
from portico.features.people.passwords import Passwords
from portico.jobs.runner import Runs
from portico.version import version
from portico.web.measure import BUCKETS, Measure
from portico.web.representations import Representations

log = logging.getLogger(__name__)

SILENT_SECONDS = 5.0
"""A worker that has written no snapshot for so long hangs or has ended."""

Key = tuple[str, ...]
"""The name of a metric, then the values of its labels. Of a histogram also the number of the
bucket, whose counts are not cumulative, or `SUM`."""

SUM = "sum"


class Family(NamedTuple):
    """A metric: what it is, and how the values of two workers become one."""

    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    merge: Callable[[float, float], float] = add


_LATENCY = "portico_http_request_duration_seconds"
_LISTENING = "portico_database_listening"
_WORKERS = "portico_workers"
_BY_ENVIRONMENT = ("environment",)
_BY_POOL = ("environment", "pool")
_BY_REPLICA = ("environment", "replica")
_BY_JOB = ("environment", "job")

FAMILIES = {
    _LATENCY: Family(
        "histogram",
        "Seconds until a request was answered.",
        ("environment", "method", "route", "status"),
    ),
    "portico_limiter_refusals": Family("counter", "Requests over a limit.", _BY_ENVIRONMENT),
    "portico_database_connections_in_use": Family("gauge", "Connections in use.", _BY_POOL),
    "portico_database_waiting": Family("gauge", "Callers waiting for a connection.", _BY_POOL),
    "portico_database_wait_seconds": Family(
        "counter", "Seconds that callers have waited for a connection.", _BY_POOL
    ),
    _LISTENING: Family(
        "gauge",
        "1 while every worker receives change notifications.",
        _BY_ENVIRONMENT,
        min,
    ),
    "portico_database_replica_used": Family(
        "gauge", "1 while every worker reads from it.", _BY_REPLICA, min
    ),
    "portico_database_replica_lag_seconds": Family(
        "gauge", "Seconds that the replica is behind.", _BY_REPLICA, max
    ),
    "portico_mails_waiting": Family("gauge", "Mails waiting to be sent.", _BY_ENVIRONMENT, max),
    "portico_password_queue": Family(
        "gauge", "Passwords being hashed or waiting, in the fullest worker.", (), max
    ),
    "portico_kept_representations_hits": Family("counter", "Requests answered with a kept answer."),
    "portico_kept_representations_misses": Family(
        "counter", "Requests whose answer can be kept, but was not."
    ),
    "portico_kept_representations_bytes": Family("gauge", "Memory used by kept answers."),
    "portico_credentials_hits": Family("counter", "Credentials that were cached.", _BY_ENVIRONMENT),
    "portico_credentials_misses": Family(
        "counter",
        "Credentials that were looked up, or refused without a look-up.",
        _BY_ENVIRONMENT,
    ),
    "portico_job_last_success_timestamp_seconds": Family(
        "gauge", "When a job last succeeded, in Unix time.", _BY_JOB, max
    ),
    "portico_job_failures": Family("counter", "Runs of a job that failed.", _BY_JOB),
    _WORKERS: Family("gauge", "Workers that serve, and that hang or have ended.", ("state",)),
    "portico_certificate_expiry_timestamp_seconds": Family(
        "gauge", "When the served certificate expires, in Unix time.", (), min
    ),
    "portico_backup_last_success_timestamp_seconds": Family(
        "gauge",
        "When portico backup last made a backup, in Unix time; 0 if the audit log has none.",
        (),
        max,
    ),
    "portico_build_info": Family("gauge", "The running version; always 1.", ("version",), max),
}
"""Every metric, by its name; that of a counter is shown with `_total`."""


class Snapshot(msgspec.Struct):
    """Counters since the start, histograms among them, and current values."""

    counters: dict[Key, float] = {}
    gauges: dict[Key, float] = {}

    def set(self, name: str, value: float, *labels: str) -> None:
        """Sets the value of a counter or gauge."""
        values = self.gauges if FAMILIES[name].kind == "gauge" else self.counters
        values[name, *labels] = float(value)  # which also takes whether something is so


def snapshot(
    measure: Measure,
    kept: Representations,
    environments: Sequence[Environment],
    credentials: Mapping[str, Credentials],
    jobs: Sequence[Runs],
    certificate_expires_at: int,
) -> Snapshot:
    """This process's snapshot. `credentials` are by environment, and `certificate_expires_at` is in
    epoch milliseconds, 0 without a certificate."""
    made = Snapshot()
    for (endpoint, status), series in measure.series.items():
        labels = ("", "", "")
        if endpoint is not None:
            labels = (endpoint.environment, endpoint.route.method, endpoint.path)
        for number, count in enumerate(series.buckets):
            if count:
                made.counters[_LATENCY, *labels, str(status), str(number)] = count
        made.counters[_LATENCY, *labels, str(status), SUM] = series.seconds
    for env in environments:
        name, db, known = env.name, env.db, credentials[env.name]
        made.set("portico_limiter_refusals", measure.refusals.get(name, 0), name)
        for pool, use in db.pools().items():
            made.set("portico_database_connections_in_use", use.busy, name, pool)
            made.set("portico_database_waiting", use.waiting, name, pool)
            made.set("portico_database_wait_seconds", use.seconds, name, pool)
        made.set(_LISTENING, db.listening(), name)
        for address, state in db.replicas().items():
            made.set("portico_database_replica_used", state.word == OK, name, address)
            made.set("portico_database_replica_lag_seconds", state.lag, name, address)
        made.set("portico_mails_waiting", env[Mails].waiting, name)
        made.set("portico_credentials_hits", known.hits, name)
        made.set("portico_credentials_misses", known.misses, name)
    made.set("portico_password_queue", environments[0][Passwords].waiting)  # they share one
    made.set("portico_kept_representations_hits", kept.hits)
    made.set("portico_kept_representations_misses", kept.misses)
    made.set("portico_kept_representations_bytes", kept.size)
    for runs in jobs:
        made.set("portico_job_failures", runs.failures, runs.environment, runs.job)
        if runs.succeeded_at:
            job = "portico_job_last_success_timestamp_seconds"
            made.set(job, runs.succeeded_at, runs.environment, runs.job)
    made.set(_WORKERS, 1, "serving")
    made.set(_WORKERS, 0, "silent")
    if certificate_expires_at:
        expiry = certificate_expires_at / SECOND
        made.set("portico_certificate_expiry_timestamp_seconds", expiry)
    backed_up_at = max(env.backed_up_at for env in environments)
    made.set("portico_backup_last_success_timestamp_seconds", backed_up_at / SECOND)
    made.set("portico_build_info", 1, version())
    return made


def total(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The snapshots of several workers as one."""
    result = Snapshot()
    for one in snapshots:
        for key, value in one.counters.items():
            result.counters[key] = result.counters.get(key, 0) + value
        for key, value in one.gauges.items():
            before = result.gauges.get(key)
            merge = FAMILIES[key[0]].merge
            result.gauges[key] = value if before is None else merge(before, value)
    return result


def families(found: Snapshot) -> Iterator[Metric]:
    """The metrics with their values, as Prometheus' client library takes them; without those that
    have no value."""
    series: defaultdict[str, list[tuple[Key, float]]] = defaultdict(list)
    for key, value in (*found.counters.items(), *found.gauges.items()):
        series[key[0]].append((key[1:], value))
    for name, family in FAMILIES.items():
        if name not in series:
            continue
        if family.kind == "histogram":
            yield _histogram(name, family, series[name])
            continue
        made = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
        metric = made(name, family.help, labels=family.labels)
        for labels, value in series[name]:
            metric.add_metric(labels, value)
        yield metric


def _histogram(name: str, family: Family, series: Iterable[tuple[Key, float]]) -> Metric:
    metric = HistogramMetricFamily(name, family.help, labels=family.labels)
    parts: defaultdict[Key, dict[str, float]] = defaultdict(dict)
    for (*labels, part), value in series:
        parts[tuple(labels)][part] = value
    for key, counts in parts.items():
        upto, buckets = 0.0, []
        for number, bound in enumerate((*BUCKETS, "+Inf")):
            upto += counts.get(str(number), 0)
            buckets.append((str(bound), upto))
        metric.add_metric(key, buckets, counts[SUM])
    return metric


class SharedMetrics:
    """The snapshots of several workers, as files in one directory."""

    def __init__(self, directory: Path, worker: int) -> None:
        """`worker` is this process's number among the workers."""
        self._directory = directory
        self._own = directory / f"worker-{worker}.metrics"
        self._written = b""

    def earlier(self) -> Snapshot:
        """The counters of this worker's predecessor; its queues and kept answers are gone."""
        found = self._read(self._own)
        return Snapshot(found.counters) if found else Snapshot()

    def others(self) -> list[Snapshot]:
        """The latest snapshots of the other workers."""
        paths = [path for path in self._directory.glob("worker-*.metrics") if path != self._own]
        return [found for path in sorted(paths) if (found := self._latest(path)) is not None]

    def keep(self, own: Snapshot) -> None:
        """Writes this worker's snapshot for the others. Raises `Unavailable`."""
        encoded = msgspec.msgpack.encode(own)
        unfinished = self._own.with_suffix(".new")
        try:
            if encoded == self._written:
                os.utime(self._own)
                return
            unfinished.write_bytes(encoded)
            unfinished.replace(self._own)
        except OSError as error:
            with suppress(OSError):  # on a full disk, show at least that this worker serves
                os.utime(self._own)
            raise Unavailable(f"The metrics of this worker are not shared: {error}") from error
        self._written = encoded

    def _latest(self, path: Path) -> Snapshot | None:
        """A worker's snapshot; of one that is silent, its counters and that it hears nothing."""
        found = self._read(path)
        if found is None:
            return None
        try:
            age = time.time() - path.stat().st_mtime
        except FileNotFoundError:  # the server has just stopped and removed the files
            return None
        if age < SILENT_SECONDS:
            return found
        deaf = {key: 0.0 for key in found.gauges if key[0] == _LISTENING}
        return Snapshot(found.counters, {**deaf, (_WORKERS, "serving"): 0, (_WORKERS, "silent"): 1})

    def _read(self, path: Path) -> Snapshot | None:
        try:
            return msgspec.msgpack.decode(path.read_bytes(), type=Snapshot)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            log.warning("metrics of another worker are left out: %s", error)
            return None
