"""Several workers are one server: they share limits and changes, and a dead one is replaced."""

import contextlib
import itertools
import os
import re
import resource
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import valkey

from busy_machine import within
from collecting import Collector, collecting
from operating import Answer, Installation, Service, copy_of, until
from servers import PostgresServer, RedisServer

pytestmark = pytest.mark.xdist_group("workers")

WORKERS = 2
NUMBERS = itertools.count()


def sharing(installation: Installation, redis: RedisServer) -> Installation:
    """An installation whose counters are in Redis, under names that nobody else uses."""
    return installation.having(valkey_url=redis.url, key_prefix=f"workers-{next(NUMBERS)}")


@pytest.fixture
def shared(installation: Installation, redis: RedisServer) -> Installation:
    return sharing(installation, redis)


@contextlib.contextmanager
def several(installation: Installation) -> Iterator[Service]:
    """The installation, served by two workers, which stop in order."""
    with installation.serving("--workers", str(WORKERS)) as service:
        yield service
        assert (service.stop()[0], service.workers()) == (0, [])


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with pytest.MonkeyPatch.context() as patch, collecting() as collector:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        yield collector


@pytest.fixture(scope="module")
def service(
    first_installation: Installation,
    redis: RedisServer,
    collector: Collector,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    """Two workers, which are killed and replaced."""
    copy = copy_of(first_installation, tmp_path_factory.mktemp("workers"))
    with several(sharing(copy.unlimited(), redis).having(otlp_endpoint=collector.url)) as service:
        yield service


def from_each(service: Service, path: str, key: str | None = None) -> list[Answer]:
    """One answer of every worker, asked over connections that the system deals out."""
    answers: dict[str, Answer] = {}

    def all_have_answered() -> bool:
        answer = service.ask(path, key=key)
        answers.setdefault(answer.worker, answer)
        return len(answers) == WORKERS

    until(all_have_answered, "an answer from every worker")
    return [*answers.values()]


def kill_one(service: Service) -> None:
    """Kills a worker and waits for another in its place."""
    killed = service.workers()[0]
    os.kill(killed, signal.SIGKILL)
    until(lambda: killed not in service.workers() and len(service.workers()) == WORKERS)


def test_counters_have_the_prefix_of_their_installation(
    service: Service, redis: RedisServer
) -> None:
    prefix = service.installation.variables["key_prefix"]
    service.ask("/v1/users/me", key=service.installation.key)
    with valkey.Valkey.from_url(redis.url) as client:
        assert [*client.scan_iter(f"{prefix}:{{live:user:*")]


def test_every_worker_answers_and_exports_under_a_name_of_its_own(
    service: Service, collector: Collector
) -> None:
    key = service.installation.key
    for path in ("/healthz", "/readyz", "/v1/users/me"):
        assert {one.status for one in from_each(service, path, key)} == {200}

    def names() -> set[str | int]:
        service.ask("/v1/users/me", key=key)
        return {resource["service.instance.id"] for resource in collector.resources}

    until(lambda: len(names()) == WORKERS, "spans of every worker")


def test_worker_that_dies_is_replaced_and_no_counter_goes_back(service: Service) -> None:
    def counted() -> set[int]:
        """How many requests to the live API the metrics of each worker count."""
        pattern = r'portico_http_request_duration_seconds_count\{environment="live".*\} (\S+)'
        found = [re.findall(pattern, one.text) for one in from_each(service, "/metrics")]
        return {int(sum(map(float, counts))) for counts in found}

    for _ in range(10):
        service.ask("/v1/users/me", key=service.installation.key)
    before = until(lambda: len(seen := counted()) == 1 and seen, "the same number from each")
    assert max(before) >= 10
    kill_one(service)
    assert counted() == before
    until(
        lambda: any("worker" in e["event"] for e in service.lines if e["level"] == "error"),
        "the log's line",
    )


def test_worker_that_cannot_be_replaced_yet_leaves_the_others_serving(service: Service) -> None:
    before = resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
    os.kill(service.workers()[0], signal.SIGKILL)
    reason = "could not be started (Too many open files)"
    until(lambda: reason in service.text, "the failed start")
    assert service.ask("/v1/users/me", key=service.installation.key).status == 200
    resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, before)
    until(lambda: len(service.workers()) == WORKERS, "the replacement")
    from_each(service, "/healthz")


def test_workers_end_with_a_killed_supervisor(shared: Installation) -> None:
    def alive(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    with shared.serving("--workers", str(WORKERS)) as service:
        workers = service.workers()
        service.process.kill()
        service.process.wait()
        try:
            until(lambda: not any(alive(pid) for pid in workers), "the end of the workers")
        finally:
            for pid in filter(alive, workers):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(params=["service", "on_postgres"], ids=["sqlite", "postgres"])
def on_each(request: pytest.FixtureRequest, redis: RedisServer) -> Iterator[Service]:
    """Two workers on each engine."""
    made: Service | Installation = request.getfixturevalue(request.param)
    if isinstance(made, Service):
        yield made
    else:
        with several(sharing(made, redis)) as service:
            yield service


def test_change_by_a_command_reaches_every_worker_within_a_second(on_each: Service) -> None:
    installation = on_each.installation
    with on_each.connected(WORKERS, 1) as connections:
        owner = ("--owner", "admin@example.com", "--type", "live", "--name", "N")
        made = installation.told("keys", "create", *owner)

        def statuses() -> set[int]:
            return {
                on_each.ask("/v1/users/me", key=made["key"], connection=connection).status
                for connection in connections
            }

        assert statuses() == {200}
        assert installation.run("keys", "revoke", str(made["id"])).returncode == 0
        with within(1):
            until(lambda: statuses() == {401}, "the revocation on every worker")


def test_two_hosts_that_start_together_on_an_empty_database_make_one_admin(
    postgres: PostgresServer, redis: RedisServer, tmp_path: Path
) -> None:
    one = sharing(Installation(tmp_path / "one"), redis)
    one = one.having(database_url=postgres.fresh_database(), secret_key="5e" * 32)
    other = replace(one, directory=tmp_path / "other", port=Installation(tmp_path).port)
    with contextlib.ExitStack() as stack:
        services = []
        for installation in (one, other):
            installation.directory.mkdir()
            services.append(Service(installation, ()))
            stack.callback(services[-1].end)
        for service in services:
            service.wait_until_ready()
        # Both may have found no admin: the database lets only one of them make it.
        assert sum("sk_live_" in service.said for service in services) == 1
        assert all(service.ask("/readyz").status == 200 for service in services)


def test_server_that_is_stopped_while_it_starts_stops_without_a_word(shared: Installation) -> None:
    service = Service(shared, ("--workers", str(WORKERS)))
    try:
        until(lambda: len(service.workers()) == WORKERS or service.process.poll() is not None)
        assert (service.stop()[0], service.workers(), service.text) == (0, [], "")
    finally:
        service.end()
