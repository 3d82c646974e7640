"""What operators and their tools ask: health, readiness, metrics. Outside limits and versions."""

import asyncio
from collections.abc import Iterator, Sequence

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from portico.contract.envelope import encode
from portico.domain.errors import Unavailable
from portico.http.measure import BUCKETS, Measure
from portico.http.messages import JSON, Reply
from portico.services.environment import Environment
from portico.services.passwords import Passwords

READY_SECONDS = 3.0

_PROBE = "SELECT 1"


class Operations(Collector):
    """The state of this process and of its stores."""

    def __init__(
        self, environments: Sequence[Environment], passwords: Passwords, measure: Measure
    ) -> None:
        self._environments = environments
        self._passwords = passwords
        self._measure = measure
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def health(self) -> Reply:
        """GET /healthz: the process serves."""
        return Reply(200, encode({"status": "ok"}), [("content-type", JSON)])

    async def readiness(self) -> Reply:
        """GET /readyz: 200 when every store answers, else 503 with those that do not."""
        silent: list[str] = []
        for environment in self._environments:
            try:
                async with asyncio.timeout(READY_SECONDS):
                    await environment.db.slow.one(_PROBE)
            except (Unavailable, TimeoutError):
                silent.append(f"{environment.name} database")
            try:
                async with asyncio.timeout(READY_SECONDS):
                    await environment.limiter.ping()
            except (Unavailable, TimeoutError):
                silent.append(f"{environment.name} limiter")
        if silent:
            body = encode({"status": "unavailable", "silent": silent})
            return Reply(503, body, [("content-type", JSON), ("retry-after", "1")])
        return Reply(200, encode({"status": "ready"}), [("content-type", JSON)])

    def metrics(self) -> Reply:
        """GET /metrics: Prometheus text."""
        return Reply(200, generate_latest(self._registry), [("content-type", CONTENT_TYPE_LATEST)])

    def collect(self) -> Iterator[Metric]:
        """See `prometheus_client.registry.Collector`."""
        latency = HistogramMetricFamily(
            "portico_request_seconds",
            "Requests and their latency.",
            labels=("environment", "method", "route", "status"),
        )
        for (endpoint, status), series in list(self._measure.series.items()):
            total = 0
            buckets: list[tuple[str, float]] = []
            for bound, count in zip((*BUCKETS, "+Inf"), series.buckets, strict=True):
                total += count
                buckets.append((str(bound), total))
            where = (
                (endpoint.environment, endpoint.route.method, endpoint.path)
                if endpoint
                else ("", "", "")
            )
            latency.add_metric((*where, str(status)), buckets, series.seconds)
        yield latency
        refusals = CounterMetricFamily(
            "portico_limiter_refusals", "Requests over a limit.", labels=("environment",)
        )
        pool = GaugeMetricFamily(
            "portico_database_waiting", "Callers waiting for the database.", labels=("environment",)
        )
        for environment in self._environments:
            name = environment.name
            refusals.add_metric((name,), self._measure.refusals.get(name, 0))
            pool.add_metric((name,), environment.db.waiting())
        yield refusals
        yield pool
        yield GaugeMetricFamily(
            "portico_password_queue", "Passwords being hashed or waiting.", self._passwords.waiting
        )
