"""The endpoints for operators: health, readiness and metrics, without limits or an API version."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from portico.contract.envelope import encode
from portico.domain.health import OK
from portico.domain.times import SECOND
from portico.http.measure import BUCKETS, Measure
from portico.http.messages import JSON, Handler, Reply, Request
from portico.http.readiness import Readiness
from portico.http.representations import Representations
from portico.http.routing import Access, Route
from portico.http.shared_metrics import CacheUse, SharedMetrics, Snapshot, snapshot, total
from portico.jobs.runner import Runs
from portico.services.credentials import Credentials
from portico.services.environment import Environment
from portico.version import version

SHARE_PERIOD = 0.5
"""Seconds between two snapshots that a worker shares."""

REQUEST_LABELS = ("environment", "method", "route", "status")

Family = TypeVar("Family", CounterMetricFamily, GaugeMetricFamily)


class Operations(Collector):
    """Reports the state of the server and its stores."""

    def __init__(
        self,
        environments: Sequence[Environment],
        credentials: Mapping[str, Credentials],
        measure: Measure,
        kept: Representations,
        shared: SharedMetrics | None,
        runs: Sequence[Runs],
        process: str,
    ) -> None:
        """`credentials` are by environment. `shared` has the metrics of the server's workers, None
        if this process is the only one. `runs` are those of this process's jobs, and `process` is a
        name unique to it."""
        self._environments = environments
        self._credentials = credentials
        self._passwords = environments[0].passwords  # all environments share one
        self._measure = measure
        self._kept = kept
        self._shared = shared
        self._runs = runs
        self.readiness = Readiness(environments, process)
        self.certificate_expires_at = 0
        """When the served certificate expires, in epoch milliseconds; 0 without one."""
        self._earlier = None if shared is None else shared.earlier()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def routes(self) -> tuple[Route, ...]:
        """The endpoints."""
        return (
            _get("/healthz", self.health, "Whether the process serves"),
            _get("/readyz", self.readiness.answer, "Whether to send requests here"),
            _get("/metrics", self.metrics, "What Prometheus reads", Access.OPERATOR),
        )

    async def health(self, _request: Request) -> Reply:
        """GET /healthz: the process serves."""
        return Reply(200, encode({"status": "ok"}), [("content-type", JSON)])

    async def metrics(self, _request: Request) -> Reply:
        """GET /metrics: Prometheus text."""
        return Reply(200, generate_latest(self._registry), [("content-type", CONTENT_TYPE_LATEST)])

    async def share(self) -> None:
        """Shares this worker's metrics with the other workers."""
        if self._shared is not None:
            self._shared.keep(self._own())

    def collect(self) -> Iterator[Metric]:
        """See `prometheus_client.registry.Collector`. Covers all workers."""
        return _families(total([self._own(), *(self._shared.others() if self._shared else ())]))

    def of_process(self) -> Iterator[Metric]:
        """The metrics of this process alone, since its start."""
        return _families(self._now())

    def _own(self) -> Snapshot:
        now = self._now()
        return now if self._earlier is None else total([self._earlier, now])

    def _now(self) -> Snapshot:
        return snapshot(
            self._measure,
            self._kept,
            self._environments,
            self._credentials,
            self._passwords,
            self._runs,
            self.certificate_expires_at,
        )


def _families(totals: Snapshot) -> Iterator[Metric]:
    by_environment = ("environment",)
    yield _latency(totals)
    refusals = CounterMetricFamily(
        "portico_limiter_refusals", "Requests over a limit.", labels=by_environment
    )
    yield _with_values(refusals, totals.refusals)
    yield from _database(totals)
    mails = GaugeMetricFamily(
        "portico_mails_waiting", "Mails waiting to be sent.", labels=by_environment
    )
    yield _with_values(mails, totals.mails)
    yield GaugeMetricFamily(
        "portico_password_queue",
        "Passwords being hashed or waiting, in the fullest worker.",
        totals.hashing,
    )
    yield from _cache_use(totals.kept)
    yield from _credential_use(totals)
    yield from _jobs(totals.jobs)
    workers = GaugeMetricFamily(
        "portico_workers", "Workers that serve, and that hang or have ended.", labels=("state",)
    )
    yield _with_values(workers, totals.workers)
    if totals.certificate_expires_at:
        yield GaugeMetricFamily(
            "portico_certificate_expiry_timestamp_seconds",
            "When the served certificate expires, in Unix time.",
            totals.certificate_expires_at / SECOND,
        )
    yield GaugeMetricFamily(
        "portico_backup_last_success_timestamp_seconds",
        "When portico backup last made a backup, in Unix time; 0 if the audit log has none.",
        totals.backed_up_at / SECOND,
    )
    build = GaugeMetricFamily(
        "portico_build_info", "The running version; always 1.", labels=("version",)
    )
    yield _with_values(build, {version(): 1})


def _with_values(family: Family, values: Mapping[str, float]) -> Family:
    """A family with one label, with these values by that label."""
    for label, value in values.items():
        family.add_metric((label,), value)
    return family


def _get(path: str, handler: Handler, summary: str, access: Access = Access.ANYONE) -> Route:
    return Route(
        method="GET", path=path, handler=handler, access=access, summary=summary, no_store=True
    )


def _database(totals: Snapshot) -> Iterator[Metric]:
    labels = ("environment", "pool")
    busy = GaugeMetricFamily(
        "portico_database_connections_in_use", "Connections in use.", labels=labels
    )
    waiting = GaugeMetricFamily(
        "portico_database_waiting", "Callers waiting for a connection.", labels=labels
    )
    seconds = CounterMetricFamily(
        "portico_database_wait_seconds",
        "Seconds that callers have waited for a connection.",
        labels=labels,
    )
    for environment, pools in totals.pools.items():
        for pool, use in pools.items():
            busy.add_metric((environment, pool), use.busy)
            waiting.add_metric((environment, pool), use.waiting)
            seconds.add_metric((environment, pool), use.seconds)
    listening = GaugeMetricFamily(
        "portico_database_listening",
        "1 while every worker receives change notifications.",
        labels=("environment",),
    )
    yield from (busy, waiting, seconds, _with_values(listening, totals.listening))
    labels = ("environment", "replica")
    used = GaugeMetricFamily(
        "portico_database_replica_used", "1 while every worker reads from it.", labels=labels
    )
    lag = GaugeMetricFamily(
        "portico_database_replica_lag_seconds",
        "Seconds that the replica is behind.",
        labels=labels,
    )
    for environment, replicas in totals.replicas.items():
        for address, state in replicas.items():
            used.add_metric((environment, address), state.word == OK)
            lag.add_metric((environment, address), state.lag)
    if used.samples:  # empty without replicas
        yield from (used, lag)


def _cache_use(totals: CacheUse) -> Iterator[Metric]:
    name = "portico_kept_representations"
    yield CounterMetricFamily(f"{name}_hits", "Requests answered with a kept answer.", totals.hits)
    yield CounterMetricFamily(
        f"{name}_misses", "Requests whose answer can be kept, but was not.", totals.misses
    )
    yield GaugeMetricFamily(f"{name}_bytes", "Memory used by kept answers.", totals.size)


def _credential_use(totals: Snapshot) -> Iterator[Metric]:
    hits = CounterMetricFamily(
        "portico_credentials_hits",
        "Credentials that were cached.",
        labels=("environment",),
    )
    misses = CounterMetricFamily(
        "portico_credentials_misses",
        "Credentials that were looked up, or refused without a look-up.",
        labels=("environment",),
    )
    for environment, known in totals.credentials.items():
        hits.add_metric((environment,), known.hits)
        misses.add_metric((environment,), known.misses)
    yield from (hits, misses)


def _jobs(totals: Sequence[Runs]) -> Iterator[Metric]:
    labels = ("environment", "job")
    succeeded = GaugeMetricFamily(
        "portico_job_last_success_timestamp_seconds",
        "When a job last succeeded, in Unix time.",
        labels=labels,
    )
    failures = CounterMetricFamily(
        "portico_job_failures", "Runs of a job that failed.", labels=labels
    )
    for runs in totals:
        if runs.succeeded_at:
            succeeded.add_metric((runs.environment, runs.job), runs.succeeded_at)
        failures.add_metric((runs.environment, runs.job), runs.failures)
    yield from (succeeded, failures)


def _latency(totals: Snapshot) -> Metric:
    latency = HistogramMetricFamily(
        "portico_http_request_duration_seconds",
        "Seconds until a request was answered.",
        labels=REQUEST_LABELS,
    )
    for requests in totals.requests:
        count = 0
        buckets: list[tuple[str, float]] = []
        for bound, more in zip((*BUCKETS, "+Inf"), requests.buckets, strict=True):
            count += more
            buckets.append((str(bound), count))
        latency.add_metric(requests.labels, buckets, requests.seconds)
    return latency
