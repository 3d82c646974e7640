"""The endpoints for operators: health, readiness and metrics, without limits or an API version."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial

from prometheus_client.core import Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from portico.core.errors import BEHIND, FAILING, FULL, OK, PRIMARY, SILENT, Unavailable
from portico.core.times import MINUTE
from portico.data.leases import Leases
from portico.environment import Environment
from portico.features.access.credentials import Credentials
from portico.features.operations.metrics import SharedMetrics, Snapshot, families, snapshot, total
from portico.jobs.runner import Runs
from portico.resource.tables import require_none
from portico.web.envelope import encode
from portico.web.measure import Measure
from portico.web.messages import JSON, Handler, Reply, Request
from portico.web.representations import Representations
from portico.web.routing import Access, Route

PROBE_PERIOD = 1.0
"""For how many seconds the result of a probe is reused."""

PROBE_SECONDS = 1.0
"""How long a store may take to respond."""

log = logging.getLogger(__name__)


class Probe:
    """Probes a store as requests use it: at most once per period, and one probe at a time."""

    def __init__(
        self, ask: Callable[[], Awaitable[None]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`ask` raises `Unavailable` if the store fails; `clock` is in seconds."""
        self._ask = ask
        self._clock = clock
        self._begun = 0.0
        self._asking: asyncio.Task[str] | None = None

    async def state(self) -> str:
        """`OK`, or a word for what is wrong. A store that has not responded in time is `SILENT`
        until it does; it is not asked again meanwhile."""
        asking, now = self._asking, self._clock()
        if asking is None or (asking.done() and now - self._begun >= PROBE_PERIOD):
            self._begun = now
            self._asking = asking = asyncio.create_task(self._outcome())
        left = max(self._begun + PROBE_SECONDS - now, 0.0)
        await asyncio.wait([asking], timeout=left)
        return asking.result() if asking.done() else SILENT

    async def _outcome(self) -> str:
        try:
            await self._ask()
        except Unavailable as error:
            return error.why
        except Exception:
            log.exception("a store could not be probed")
            return FAILING
        return OK


class Readiness:
    """Answers `/readyz`."""

    def __init__(self, environments: Sequence[Environment], process: str) -> None:
        """`process` is a name unique to this process."""
        self.leaving = False
        """Whether the process is about to stop and should get no new requests."""
        self.is_behind = False
        """Whether migrations are pending; the databases are not probed then."""
        self._environments = environments
        self._probes = {
            "database": [Probe(partial(_check_writes, env, process)) for env in environments],
            "limiter": [Probe(env.limiter.probe) for env in environments],
        }
        self._kinds = [
            Probe(env.check_kinds or partial(require_none, env.db)) for env in environments
        ]
        """Whether the database is kept for the same files of kinds. A note alone."""

    async def answer(self, _request: Request) -> Reply:
        """GET /readyz: 200 while the process should get requests, else 503."""
        behind = {"database"} if self.is_behind else set()
        states = {
            store: BEHIND if store in behind else await _worst(probes)
            for store, probes in self._probes.items()
        }
        kinds = await _worst(self._kinds) if states["database"] == OK else OK
        replicas = [state for env in self._environments for state in env.db.replicas().values()]
        if replicas:
            wrong = (state.word for state in replicas if state.word not in (OK, PRIMARY))
            states["database_read"] = next(wrong, OK)
        ready = not (self.leaving or self.is_behind)
        body = encode(
            {"ready": ready, "stores": states} | ({} if kinds == OK else {"kinds": kinds})
        )
        if not ready:
            return Reply(503, body, [("content-type", JSON), ("retry-after", "1")])
        return Reply(200, body, [("content-type", JSON)])


async def _worst(probes: Sequence[Probe]) -> str:
    """`OK` if every environment's store is, else the first other state."""
    states = await asyncio.gather(*(probe.state() for probe in probes))
    return next((state for state in states if state != OK), OK)


async def _check_writes(env: Environment, process: str) -> None:
    """Writes a row that belongs to this process. Raises `Unavailable` if it cannot be written, or
    if the disk has no room for larger ones."""
    now = env.clock()
    await env[Leases].prove(f"readiness:{process}", process, now=now, until=now + MINUTE)
    if env.db.is_full():
        raise Unavailable("The database's disk is full.", why=FULL)


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
