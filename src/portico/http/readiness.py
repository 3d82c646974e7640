"""Whether load balancers should send requests to this process, and the state of its stores.

An unreachable store does not make the process unready: all hosts share it, so the answer only
reports its state. A probe does what requests do, so it also detects a store that responds but
refuses writes.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from portico.contract.envelope import encode
from portico.domain.errors import Unavailable
from portico.domain.health import BEHIND, FAILING, FULL, OK, PRIMARY, SILENT
from portico.domain.times import MINUTE
from portico.http.messages import JSON, Reply, Request
from portico.services.environment import Environment
from portico.storage.leases import Leases

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

    async def answer(self, _request: Request) -> Reply:
        """GET /readyz: 200 while the process should get requests, else 503."""
        behind = {"database"} if self.is_behind else set()
        states = {
            store: BEHIND if store in behind else await _worst(probes)
            for store, probes in self._probes.items()
        }
        replicas = [state for env in self._environments for state in env.db.replicas().values()]
        if replicas:
            wrong = (state.word for state in replicas if state.word not in (OK, PRIMARY))
            states["database_read"] = next(wrong, OK)
        ready = not (self.leaving or self.is_behind)
        body = encode({"ready": ready, "stores": states})
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
