"""The metrics of one server's workers, added up.

Each worker writes snapshots into a shared directory, and the worker that is asked for the metrics
adds the others' to its own. A worker that replaces another one starts from its last snapshot, so
that no counter ever decreases.
"""

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import add, and_
from pathlib import Path
from typing import TypeVar

import msgspec

from portico.domain.errors import Unavailable
from portico.http.measure import Measure
from portico.http.representations import Representations
from portico.jobs.runner import Runs
from portico.services.credentials import Credentials
from portico.services.environment import Environment
from portico.services.passwords import Passwords
from portico.storage.database import PoolUse, ReplicaState

K = TypeVar("K")
V = TypeVar("V")

log = logging.getLogger(__name__)

SILENT_SECONDS = 5.0
"""A worker that has written no snapshot for so long hangs or has ended."""


class Requests(msgspec.Struct, frozen=True, array_like=True):
    """The requests to one endpoint that were answered with one status. `buckets` are counts, not
    cumulative; `seconds` is the sum of the latencies."""

    environment: str
    method: str
    route: str
    status: int
    buckets: list[int]
    seconds: float

    @property
    def labels(self) -> tuple[str, str, str, str]:
        """The labels that identify this series."""
        return self.environment, self.method, self.route, str(self.status)


class CacheUse(msgspec.Struct, frozen=True, array_like=True):
    """Use of the kept answers: requests answered from memory, those that could have been, and the
    size in bytes."""

    hits: int = 0
    misses: int = 0
    size: int = 0

    def merged_with(self, other: "CacheUse") -> "CacheUse":
        """Both together."""
        return CacheUse(self.hits + other.hits, self.misses + other.misses, self.size + other.size)


class CredentialUse(msgspec.Struct, frozen=True, array_like=True):
    """How many credentials were cached, and how many had to be looked up."""

    hits: int = 0
    misses: int = 0

    def merged_with(self, other: "CredentialUse") -> "CredentialUse":
        """Both together."""
        return CredentialUse(self.hits + other.hits, self.misses + other.misses)


class Snapshot(msgspec.Struct):
    """Counters since the start, and current values."""

    requests: list[Requests] = []
    refusals: dict[str, int] = {}
    """Requests over a limit, by environment."""
    pools: dict[str, dict[str, PoolUse]] = {}
    """Use of the database connections, by environment and pool."""
    listening: dict[str, bool] = {}
    """Whether every worker receives change notifications, by environment."""
    replicas: dict[str, dict[str, ReplicaState]] = {}
    """The state of the read replicas, by environment and address."""
    hashing: int = 0
    """Passwords being hashed or waiting for it, in the fullest worker, since each worker has a
    limit of its own."""
    jobs: list[Runs] = []
    mails: dict[str, int] = {}
    """Waiting mails of all processes, by environment, as last seen by this one."""
    kept: CacheUse = CacheUse()
    credentials: dict[str, CredentialUse] = {}
    """By environment."""
    workers: dict[str, int] = {}
    """How many workers are `serving`, and how many `silent`."""
    certificate_expires_at: int = 0
    """When the first served certificate expires, in epoch milliseconds; 0 without one."""
    backed_up_at: int = 0
    """When the last backup was made, in epoch milliseconds; 0 if none is known."""


def snapshot(
    measure: Measure,
    kept: Representations,
    environments: Sequence[Environment],
    credentials: Mapping[str, Credentials],
    passwords: Passwords,
    jobs: Sequence[Runs],
    certificate_expires_at: int,
) -> Snapshot:
    """This process's snapshot."""
    requests = []
    for (endpoint, status), series in measure.series.items():
        where = (
            (endpoint.environment, endpoint.route.method, endpoint.path)
            if endpoint
            else ("", "", "")
        )
        requests.append(Requests(*where, status, list(series.buckets), series.seconds))
    return Snapshot(
        requests,
        {env.name: measure.refusals.get(env.name, 0) for env in environments},
        {env.name: dict(env.db.pools()) for env in environments},
        {env.name: env.db.listening() for env in environments},
        {env.name: dict(env.db.replicas()) for env in environments},
        passwords.waiting,
        [*jobs],
        {env.name: env.waiting_mails for env in environments},
        CacheUse(kept.hits, kept.misses, kept.size),
        {name: CredentialUse(one.hits, one.misses) for name, one in credentials.items()},
        {"serving": 1, "silent": 0},
        certificate_expires_at,
        max(env.backed_up_at for env in environments),
    )


def total(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The sum of the snapshots; for current values the worst or the largest."""
    result = Snapshot()
    requests: dict[tuple[str, ...], Requests] = {}
    jobs: dict[tuple[str, str], Runs] = {}
    for one in snapshots:
        _merge(requests, ((mine.labels, mine) for mine in one.requests), _sum)
        _merge(result.refusals, one.refusals.items(), add)
        for name, pools in one.pools.items():
            _merge(result.pools.setdefault(name, {}), pools.items(), PoolUse.merged_with)
        _merge(result.listening, one.listening.items(), and_)
        for name, replicas in one.replicas.items():
            _merge(result.replicas.setdefault(name, {}), replicas.items(), ReplicaState.merged_with)
        _merge(jobs, (((runs.environment, runs.job), runs) for runs in one.jobs), Runs.merged_with)
        _merge(result.mails, one.mails.items(), max)
        _merge(result.credentials, one.credentials.items(), CredentialUse.merged_with)
        _merge(result.workers, one.workers.items(), add)
        ends = [result.certificate_expires_at, one.certificate_expires_at]
        result.certificate_expires_at = min(filter(None, ends), default=0)
        result.backed_up_at = max(result.backed_up_at, one.backed_up_at)
        result.hashing = max(result.hashing, one.hashing)
        result.kept = result.kept.merged_with(one.kept)
    result.requests = list(requests.values())
    result.jobs = list(jobs.values())
    return result


def _merge(into: dict[K, V], items: Iterable[tuple[K, V]], join: Callable[[V, V], V]) -> None:
    for key, value in items:
        into[key] = join(into[key], value) if key in into else value


def _counters(found: Snapshot) -> Snapshot:
    """A snapshot's counters, without its current values."""
    pools = {
        name: {pool: PoolUse(seconds=use.seconds) for pool, use in pools.items()}
        for name, pools in found.pools.items()
    }
    return msgspec.structs.replace(
        found,
        pools=pools,
        listening={},
        replicas={},
        hashing=0,
        mails={},
        kept=msgspec.structs.replace(found.kept, size=0),
        workers={},
        certificate_expires_at=0,
    )


def _as_silent(found: Snapshot) -> Snapshot:
    """The last snapshot of a worker that now is silent."""
    return msgspec.structs.replace(
        _counters(found),
        listening=dict.fromkeys(found.listening, False),
        workers={"serving": 0, "silent": 1},
    )


def _sum(one: Requests, other: Requests) -> Requests:
    buckets = [a + b for a, b in zip(one.buckets, other.buckets, strict=True)]
    return msgspec.structs.replace(one, buckets=buckets, seconds=one.seconds + other.seconds)


class SharedMetrics:
    """The snapshots of several workers, as files in one directory."""

    def __init__(self, directory: Path, worker: int) -> None:
        """`worker` is this process's number among the workers."""
        self._directory = directory
        self._own = directory / f"worker-{worker}.json"
        self._written = b""

    def earlier(self) -> Snapshot:
        """The counters of this worker's predecessor; its queues and kept answers are gone."""
        found = self._read(self._own)
        return _counters(found) if found else Snapshot()

    def others(self) -> list[Snapshot]:
        """The latest snapshots of the other workers."""
        paths = [path for path in self._directory.glob("worker-*.json") if path != self._own]
        return [found for path in sorted(paths) if (found := self._latest(path)) is not None]

    def keep(self, own: Snapshot) -> None:
        """Writes this worker's snapshot for the others. Raises `Unavailable`."""
        encoded = msgspec.json.encode(own)
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
        found = self._read(path)
        if found is None:
            return None
        try:
            age = time.time() - path.stat().st_mtime
        except FileNotFoundError:  # the server has just stopped and removed the files
            return None
        return found if age < SILENT_SECONDS else _as_silent(found)

    def _read(self, path: Path) -> Snapshot | None:
        try:
            return msgspec.json.decode(path.read_bytes(), type=Snapshot)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            log.warning("metrics of another worker are left out: %s", error)
            return None
