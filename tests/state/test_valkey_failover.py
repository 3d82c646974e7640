"""Counters, and positions, by Sentinels and in a cluster: primaries that die, slots that move, who
only seems to count."""

import asyncio
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from valkey import Valkey
from valkey.crc import key_slot
from valkey.exceptions import ValkeyError

from busy_machine import added, leave_time
from operating import TIMEOUT_SECONDS, until
from portico.core.errors import Unavailable
from portico.core.plans import Plan
from portico.data.postgres.replicas import LIFE_SECONDS
from portico.limits.guard import Backoff
from portico.limits.protocol import ACCOUNT, ADDRESS, GUARDED_ADDRESS, NETWORK, Caller
from portico.limits.valkey import ValkeyLimiter, ValkeyPositions
from portico.limits.valkey_client import SLOTS
from servers import RedisServer, SentinelServer, redis_servers

pytestmark = pytest.mark.xdist_group("valkey failover")  # they share their cluster

MIDNIGHT = 20_800 * 86_400_000
PLAN = Plan("any", 10**6, 10**6)
CALLERS: list[Caller] = [(ACCOUNT, number) for number in range(30)]
"""So many that every node of a cluster counts some."""

FAILOVER_SECONDS = 3.0
AT_ONCE = ("--repl-diskless-sync-delay", "0")
NODE = ("--cluster-enabled", "yes", "--cluster-node-timeout", "500", *AT_ONCE)


def asked(server: RedisServer, *words: str | int) -> Any:
    """What the server answers; None where that is an error."""
    client: Any = Valkey.from_url(server.url)
    with closing(client):
        try:
            return client.execute_command(*words)
        except ValkeyError:
            return None


def has_replica(server: RedisServer) -> bool:
    replication = asked(server, "INFO", "replication")
    return any(row["state"] == "online" for key, row in replication.items() if key == "slave0")


def has_all(server: RedisServer) -> bool:
    """Whether its replica has said that it has what was written."""
    replication = asked(server, "INFO", "replication")
    return bool(replication["slave0"]["offset"] >= replication["master_repl_offset"])


def clustered(servers: list[RedisServer]) -> bool:
    signs = b"cluster_state:ok", b"cluster_known_nodes:%d" % len(servers)
    return all(
        sign in asked(server, "CLUSTER", "INFO").split() for server in servers for sign in signs
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[list[RedisServer]]:
    """Three primaries that share the slots, and a replica of the first."""
    with redis_servers(NODE, NODE, NODE, NODE) as servers:
        *primaries, replica = servers
        for number, node in enumerate(primaries):
            first, end = (SLOTS * place // 3 for place in (number, number + 1))
            asked(node, "CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        for node in servers[1:]:
            asked(node, "CLUSTER", "MEET", "127.0.0.1", servers[0].port)
        own = asked(servers[0], "CLUSTER", "MYID").decode()
        until(lambda: bool(asked(replica, "CLUSTER", "REPLICATE", own)), "that it is known")
        until(lambda: has_replica(servers[0]), "the replica")
        until(lambda: clustered(servers), "the cluster")
        yield servers


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No node that is well is too slow."""
    leave_time(monkeypatch)


def limiter_of(cluster: list[RedisServer], environment: str) -> ValkeyLimiter:
    return ValkeyLimiter(url_of(cluster), environment)


def url_of(cluster: list[RedisServer]) -> str:
    """Names two nodes, and a place where none is."""
    nodes = ",".join(f"127.0.0.1:{port}" for port in (1, cluster[0].port, cluster[1].port))
    return f"valkey+cluster://{nodes}"


async def outage(limiter: ValkeyLimiter, positions: ValkeyPositions) -> float:
    """For how many seconds from now on anybody gets an error."""
    failed = begun = time.monotonic()
    while time.monotonic() - failed < 1.0:
        assert time.monotonic() - begun < TIMEOUT_SECONDS, "it does not come back"
        came = await asyncio.gather(
            *(limiter.take(caller, PLAN, MIDNIGHT) for caller in CALLERS),
            *(positions.note(number, 7) for number in range(len(CALLERS))),
            return_exceptions=True,
        )
        errors = [error for error in came if isinstance(error, BaseException)]
        assert {type(error) for error in errors} <= {Unavailable}, errors
        if errors:
            failed = time.monotonic()
        await asyncio.sleep(0.02)
    return failed - begun


async def loses_its_primary(url: str, primary: RedisServer) -> None:
    """Whoever is counted is counted on within `FAILOVER_SECONDS`, as positions are kept, and
    nothing that a replica has is forgotten."""
    environment = uuid.uuid4().hex
    limiter = ValkeyLimiter(url, environment)
    positions = ValkeyPositions(url, environment, "portico", LIFE_SECONDS, lag=0)
    with pytest.MonkeyPatch.context() as patch:
        leave_time(patch)
        for _ in range(5):
            for caller in CALLERS:
                await limiter.take(caller, PLAN, MIDNIGHT)
        for number in range(len(CALLERS)):
            await positions.note(number, 8)
    until(lambda: has_all(primary), "what the replica has")
    primary.stop(signal.SIGKILL)
    with added() as more:
        assert 0 < await outage(limiter, positions) < FAILOVER_SECONDS + more.seconds
    with pytest.MonkeyPatch.context() as patch:
        leave_time(patch)
        await limiter.probe()
        counted = [(await limiter.used(caller, MIDNIGHT))[0] for caller in CALLERS]
        assert min(counted) > 5
        assert {await positions.of(number) for number in range(len(CALLERS))} == {8}
    await limiter.close()
    await positions.close()


async def test_where_a_primary_dies_its_successor_is_found_by_a_sentinel(tmp_path: Path) -> None:
    with (
        redis_servers(AT_ONCE) as (primary,),
        redis_servers(("--replicaof", "127.0.0.1", str(primary.port))),
    ):
        sentinel = SentinelServer(tmp_path / "sentinel", primary, "shop")
        sentinel.start()
        try:
            until(lambda: has_replica(primary), "the replica")
            until(lambda: bool(asked(sentinel, "SENTINEL", "REPLICAS", "shop")), "the same")
            url = f"valkey+sentinel://127.0.0.1:1,127.0.0.1:{sentinel.port}/shop"
            await loses_its_primary(url, primary)
        finally:
            sentinel.stop()


@pytest.mark.usefixtures("patient")
async def test_every_node_of_a_cluster_counts_and_each_step_stays_within_one(
    cluster: list[RedisServer],
) -> None:
    environment = uuid.uuid4().hex
    limiter = limiter_of(cluster, environment)
    two = Plan("two", 2, 100)
    verdicts = await asyncio.gather(
        *(limiter.take(caller, two, MIDNIGHT) for caller in CALLERS for _ in range(3))
    )
    assert sum(verdict.admitted for verdict in verdicts) == 2 * len(CALLERS)
    claims = [((ADDRESS, "2001:db8::1"), two), ((NETWORK, "2001:db8::"), two)]
    assert (await limiter.take_all(claims, MIDNIGHT)).remaining == 1
    guards = [((GUARDED_ADDRESS, f"192.0.2.{number}"), Backoff(1, 1000)) for number in range(9)]
    assert (await limiter.enter(guards, MIDNIGHT)).admitted
    await limiter.leave(guards, MIDNIGHT, entered_ms=MIDNIGHT, has_failed=True)
    await limiter.probe()
    assert (await limiter.about()).version
    await limiter.close()
    for node in cluster[:3]:
        assert asked(node, "KEYS", f"*{environment}:user:*")
        assert asked(node, "KEYS", f"*{environment}:probe:*")


@pytest.mark.usefixtures("patient")
async def test_whose_slot_moves_is_counted_where_it_is(cluster: list[RedisServer]) -> None:
    environment = uuid.uuid4().hex
    limiter = limiter_of(cluster, environment)
    await limiter.probe()
    slots = {key_slot(f"{environment}:user:{number}".encode()): number for number in range(100)}
    slot, number = max(slots.items())  # of the last primary's
    giver, receiver = (asked(node, "CLUSTER", "MYID").decode() for node in (cluster[2], cluster[1]))
    assert asked(cluster[1], "CLUSTER", "SETSLOT", slot, "IMPORTING", giver)
    for node in (cluster[1], cluster[2]):
        assert asked(node, "CLUSTER", "SETSLOT", slot, "NODE", receiver)
    assert (await limiter.take((ACCOUNT, number), PLAN, MIDNIGHT)).admitted
    assert asked(cluster[1], "CLUSTER", "COUNTKEYSINSLOT", slot) == 2
    await limiter.close()


async def test_cluster_counts_on_without_a_primary_that_died(cluster: list[RedisServer]) -> None:
    await loses_its_primary(url_of(cluster), cluster[0])
    cluster[0].start()


async def test_cluster_without_whom_to_ask_by_now_is_silent_and_refuses_nothing() -> None:
    with redis_servers(("--cluster-enabled", "yes")) as (server,):
        limiter = ValkeyLimiter(server.url, "live")
        with pytest.raises(Unavailable) as refusal:
            await limiter.take((ACCOUNT, 1), PLAN, MIDNIGHT)
        assert refusal.value.why == "silent"
        await limiter.close()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--replicaof", "127.0.0.1", "1"), "read_only"),
        (("--min-replicas-to-write", "1"), "read_only"),
        (("--cluster-enabled", "yes"), "cluster"),
    ],
    ids=["replica", "primary without its replicas", "cluster"],
)
async def test_who_would_refuse_requests_passes_no_probe(
    options: tuple[str, ...], why: str
) -> None:
    with redis_servers(options) as (server,):
        asked(server, "CLUSTER", "ADDSLOTSRANGE", 0, SLOTS - 1)
        limiter = ValkeyLimiter(server.url, "live")
        with pytest.raises(Unavailable) as refusal:
            await limiter.probe()
        assert refusal.value.why == why
        await limiter.close()
