"""PostgreSQL and Redis gone, frozen or locked under a running server: 503 until they are back."""

import asyncio
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import pytest

from listening import listening
from operating import Service, until
from portico.core.errors import Unavailable
from portico.data.postgres.engine import (
    STATEMENT_SECONDS,
    WRITE_CONNECTIONS,
    PostgresDatabase,
)
from portico.data.postgres.hosts import CONNECT_SECONDS
from portico.features.operations.endpoints import PROBE_SECONDS
from receiving import received
from reliability.boundless import boundless
from reliability.outage import (
    BUSY_MACHINE_SECONDS,
    READS,
    Caller,
    Hook,
    late,
    nobody_else_waits,
)
from servers import PostgresServer, RedisServer, postgres_server, redis_server

pytestmark = pytest.mark.xdist_group("store outages")  # they share their servers

WELL = {("create", 201), ("read", 200)}
AWAY = {("create", 503), ("read", 503)}
FROZEN_SECONDS = 10.0
LONGEST_SECONDS = CONNECT_SECONDS + STATEMENT_SECONDS + BUSY_MACHINE_SECONDS


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of these tests' own."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    """A Redis server of these tests' own."""
    with redis_server() as server:
        yield server


@pytest.fixture(scope="module")
def service(
    postgres: PostgresServer, redis: RedisServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A server on both, which goes through all that follows without a restart."""
    stores = {"database_url": postgres.fresh_database(), "valkey_url": redis.url}
    with boundless(tmp_path_factory.mktemp("outages"), **stores).serving() as service:
        yield service


@pytest.fixture
def caller(service: Service) -> Iterator[Caller]:
    """Who calls the server before, amid and after an outage."""
    caller = Caller(service)
    with nobody_else_waits(service):
        yield caller
        caller.recovers()
    caller.finds_what_was_acknowledged()
    assert caller.statuses(0.2).keys() == WELL
    until(lambda: readiness(service) == (200, {"database": "ok", "limiter": "ok"}), "readiness")
    assert "Traceback" not in service.text


def readiness(service: Service) -> tuple[int, dict[str, str]]:
    """The status of `/readyz`, and how the stores are."""
    answer = service.ask("/readyz")
    return answer.status, answer.json["stores"]


def test_postgresql_may_stop_and_come_back(caller: Caller, postgres: PostgresServer) -> None:
    before = len(caller.acknowledged)
    with ThreadPoolExecutor(1) as pool:
        amid = pool.submit(caller.statuses, 1.0)
        until(lambda: len(caller.acknowledged) > before + 5, "some writes")
        postgres.stop(signal.SIGINT)
        assert amid.result().keys() <= WELL | AWAY
    assert caller.statuses(0.5).keys() == AWAY
    until(
        lambda: readiness(caller.service) == (200, {"database": "silent", "limiter": "ok"}),
        "readiness",
    )
    postgres.start()


def test_reader_of_events_misses_none_while_postgresql_is_away(
    caller: Caller, postgres: PostgresServer
) -> None:
    with listening(caller.service.installation, "--json") as command:
        before = set(caller.acknowledged)
        assert caller.create() == 201
        postgres.stop(signal.SIGINT)
        until(lambda: "Trying again." in command.mentioned, "the refusal")
        postgres.start()
        caller.recovers()
        made = caller.acknowledged - before
        assert len(made) >= 2
        until(lambda: made <= {event["data"]["id"] for event in command.objects}, "the last")
        told = [event["id"] for event in command.objects]

    assert told == list(range(told[0], told[0] + len(told)))


def test_deliveries_go_on_once_postgresql_is_back(caller: Caller, postgres: PostgresServer) -> None:
    before = set(caller.acknowledged)
    with received(late) as receiver:
        hook = Hook(caller.service.installation, receiver)
        for _ in range(6):
            caller.create()
        with ThreadPoolExecutor(1) as pool:
            amid = pool.submit(caller.statuses, 1.0)
            until(lambda: len(receiver.requests) > 5, "some deliveries")
            postgres.stop(signal.SIGQUIT)
            amid.result()
        postgres.start()
        caller.recovers()
        hook.has_told_once(caller.service, caller.acknowledged - before)
        hook.end()


def test_postgresql_may_freeze_and_thaw(caller: Caller, postgres: PostgresServer) -> None:
    caller.statuses(0.5, threads=2 * WRITE_CONNECTIONS)  # now every connection of the pool is open
    with postgres.frozen():
        assert caller.statuses(0.5, threads=2 * WRITE_CONNECTIONS).keys() == AWAY
        asked = time.monotonic()
        until(
            lambda: readiness(caller.service) == (200, {"database": "silent", "limiter": "ok"}),
            "readiness",
        )
        assert time.monotonic() - asked < PROBE_SECONDS + BUSY_MACHINE_SECONDS
    assert caller.slowest < FROZEN_SECONDS


def while_locked(caller: Caller, lock: str, work: Callable[[], None]) -> None:
    """Does the work while another session holds a lock."""

    async def run() -> None:
        connection = await asyncpg.connect(caller.service.installation.variables["database_url"])
        async with connection.transaction():
            await connection.execute(lock)
            await asyncio.to_thread(work)
        await connection.close()

    asyncio.run(run())


def test_writes_to_a_locked_table_get_503_and_reads_go_on(caller: Caller) -> None:
    def ask() -> None:
        with ThreadPoolExecutor(2 * WRITE_CONNECTIONS) as pool:
            creations = [pool.submit(caller.create) for _ in range(2 * WRITE_CONNECTIONS)]
        assert {creation.result() for creation in creations} == {503}
        assert {caller.read(path) for path in READS} == {200}

    while_locked(caller, "LOCK TABLE portico_live.products IN EXCLUSIVE MODE", ask)
    assert caller.slowest < LONGEST_SECONDS


async def test_server_that_takes_no_writes_any_more_is_connected_to_anew(
    postgres: PostgresServer,
) -> None:
    async def turn(switch: str) -> None:
        for statement in (
            f"ALTER SYSTEM SET default_transaction_read_only = {switch}",
            "SELECT pg_reload_conf()",
        ):
            await administrator.execute(statement)

    async def is_refused() -> bool:
        try:
            async with database.transaction() as tx:
                await tx.run("INSERT INTO numbers VALUES (1)")
        except Unavailable as error:
            return error.why == "read_only"
        return False

    administrator = await asyncpg.connect(postgres.url)
    database = PostgresDatabase(postgres.fresh_database(), "public")
    await database.open()
    async with database.transaction() as tx:
        await tx.script("CREATE TABLE numbers (number INTEGER)")
    before = await database.one("SELECT pg_backend_pid()")
    async with asyncio.timeout(20):
        await turn("on")
        while not await is_refused():
            pass
        await turn("off")
        while await is_refused():
            pass
    assert await database.one("SELECT pg_backend_pid()") != before
    await database.close()
    await administrator.close()


def test_redis_may_stop_and_come_back(caller: Caller, redis: RedisServer) -> None:
    redis.stop()
    assert caller.statuses(0.5).keys() == AWAY
    until(
        lambda: readiness(caller.service) == (200, {"database": "ok", "limiter": "silent"}),
        "readiness",
    )
    redis.start()


def test_redis_may_freeze_and_thaw(caller: Caller, redis: RedisServer) -> None:
    with redis.frozen():
        assert caller.statuses(0.5).keys() == AWAY
    assert caller.slowest < BUSY_MACHINE_SECONDS
