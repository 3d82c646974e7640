"""The endpoints for operators: health, readiness and metrics, without limits or an API version."""

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from portico.contract.envelope import encode
from portico.http.measure import Measure
from portico.http.messages import JSON, Handler, Reply, Request
from portico.http.metrics import SharedMetrics, Snapshot, families, snapshot, total
from portico.http.readiness import Readiness
from portico.http.representations import Representations
from portico.http.routing import Access, Route
from portico.jobs.runner import Runs
from portico.services.credentials import Credentials
from portico.services.environment import Environment

SHARE_PERIOD = 0.5
"""Seconds between two snapshots that a worker shares."""


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
        return families(total([self._own(), *(self._shared.others() if self._shared else ())]))

    def of_process(self) -> Iterator[Metric]:
        """The metrics of this process alone, since its start."""
        return families(self._now())

    def _own(self) -> Snapshot:
        now = self._now()
        return now if self._earlier is None else total([self._earlier, now])

    def _now(self) -> Snapshot:
        return snapshot(
            self._measure,
            self._kept,
            self._environments,
            self._credentials,
            self._runs,
            self.certificate_expires_at,
        )


def _get(path: str, handler: Handler, summary: str, access: Access = Access.ANYONE) -> Route:
    return Route(
        method="GET", path=path, handler=handler, access=access, summary=summary, no_store=True
    )
