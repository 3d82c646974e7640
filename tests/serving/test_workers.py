"""Several workers are one server: they share limits and changes, and a dead one is replaced."""

import contextlib
import itertools
import os
import pickle
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from busy_machine import within
from collecting import collecting
from operating import Answer, Installation, Service, at_once, early_in_a_day, until
from portico.cli import supervise
from portico.settings import load
from servers import PostgresServer, RedisServer

WORKERS = 2
PER_DAY = 100
NUMBERS = itertools.count()

THREADLESS = """
import signal, sys, threading
from portico.cli.main import main
signal.signal(signal.SIGUSR1, lambda *_: threading.stack_size(1 << 46))
sys.exit(main(sys.argv[1:]))
"""
"""Portico, whose threads have no room from a signal on."""

FIRST_PROCESS = """
import ctypes, sys
from portico.cli.main import main
PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
sys.exit(main(sys.argv[1:]))
"""
"""Portico as the first process of a container, which inherits what dead processes leave behind."""


@pytest.fixture
def shared(installation: Installation, redis: RedisServer) -> Installation:
    """An installation whose counters are in Redis, under names that nobody else uses."""
    return installation.having(valkey_url=redis.url, key_prefix=f"workers-{next(NUMBERS)}")


@contextlib.contextmanager
def several(installation: Installation) -> Iterator[Service]:
    """The installation, served by two workers."""
    with installation.serving("--workers", str(WORKERS)) as service:
        yield service


def from_each(service: Service, path: str, key: str | None = None) -> dict[str, Answer]:
    """One answer of every worker, asked over connections that the system deals out."""
    answers: dict[str, Answer] = {}

    def all_have_answered() -> bool:
        answer = service.ask(path, key=key)
        answers.setdefault(answer.worker, answer)
        return len(answers) == WORKERS

    until(all_have_answered, "an answer from every worker")
    return answers


def requests_counted(service: Service) -> set[int]:
    """How many requests to the live API the metrics of each worker tell of."""
    answers = from_each(service, "/metrics").values()
    pattern = r'portico_http_request_duration_seconds_count\{environment="live".*\} (\S+)'
    counts = [re.findall(pattern, answer.text) for answer in answers]
    return {int(sum(map(float, found))) for found in counts}


def test_every_worker_answers_health_readiness_and_requests(shared: Installation) -> None:
    with several(shared) as service:
        assert len(service.workers()) == WORKERS
        assert {one.status for one in from_each(service, "/v1/users/me", shared.key).values()} == {
            200
        }
        for path in ("/healthz", "/readyz"):
            assert {one.status for one in from_each(service, path).values()} == {200}
        code, seconds = service.stop()
        assert code == 0
        assert seconds < 2
        assert service.workers() == []


def test_every_worker_exports_under_a_name_of_its_own(
    shared: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    with collecting() as collector, several(shared.having(otlp_endpoint=collector.url)) as service:

        def names() -> set[str | int]:
            service.ask("/v1/users/me", key=shared.key)
            return {resource["service.instance.id"] for resource in collector.resources}

        until(lambda: len(names()) == WORKERS, "spans of every worker")
        code, seconds = service.stop()
        assert (code, seconds < 2) == (0, True)
        asked = collector.got("GET /v1/users/me")
        assert not asked.parent_span_id


def test_a_worker_that_dies_is_replaced_and_no_counter_goes_back(shared: Installation) -> None:
    with several(shared) as service:
        for _ in range(10):
            service.ask("/v1/users/me", key=shared.key)
        until(lambda: requests_counted(service) == {10}, "that each knows of the others' requests")
        killed = service.workers()[0]
        os.kill(killed, signal.SIGKILL)
        until(lambda: killed not in service.workers() and len(service.workers()) == WORKERS)
        assert requests_counted(service) == {10}
        until(
            lambda: any("worker" in e["event"] for e in service.lines if e["level"] == "error"),
            "the log's line",
        )
        assert service.stop()[0] == 0


def test_a_worker_that_cannot_be_replaced_yet_leaves_the_others_serving(
    shared: Installation,
) -> None:
    with several(shared) as service:
        before = resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (3, before[1]))
        os.kill(service.workers()[0], signal.SIGKILL)
        reason = "could not be started (Too many open files)"
        until(lambda: reason in service.text, "the failed start")
        assert service.ask("/v1/users/me", key=shared.key).status == 200
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, before)
        until(lambda: len(service.workers()) == WORKERS, "the replacement")
        from_each(service, "/healthz")
        assert service.stop()[0] == 0


def test_a_worker_that_dies_is_replaced_where_no_thread_can_be_started(
    shared: Installation,
) -> None:
    program = (sys.executable, "-c", THREADLESS, "serve")
    with shared.serving("--workers", str(WORKERS), program=program) as service:
        service.process.send_signal(signal.SIGUSR1)
        killed = service.workers()[0]
        os.kill(killed, signal.SIGKILL)
        until(lambda: killed not in service.workers() and len(service.workers()) == WORKERS)
        from_each(service, "/healthz")
        assert service.stop()[0] == 0


def test_workers_end_with_a_killed_supervisor(shared: Installation) -> None:
    with several(shared) as service:
        workers = service.workers()
        service.process.kill()
        service.process.wait()
        try:
            until(lambda: not any(alive(pid) for pid in workers), "the end of the workers")
        finally:
            for pid in filter(alive, workers):
                os.kill(pid, signal.SIGKILL)
    with several(shared) as again:
        assert again.ask("/v1/users/me", key=shared.key).status == 200


def alive(pid: int) -> bool:
    """Whether the process runs: one that has ended and that nobody waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_what_the_command_line_changes_reaches_every_worker_within_a_second(
    shared: Installation, postgres: PostgresServer, tmp_path: Path, engine: str
) -> None:
    if engine == "postgres":
        fresh = Installation(tmp_path / "fresh").having(
            database_url=postgres.fresh_database(), **shared.variables
        )
        fresh.directory.mkdir()
        shared = Installation(fresh.directory, fresh.variables, fresh.told("init"), fresh.port)
    with several(shared) as service, service.connected(WORKERS, 1) as connections:
        made = shared.told(
            *("keys", "create", "--owner", "admin@example.com", "--type", "live", "--name", "N")
        )

        def statuses() -> set[int]:
            return {
                service.ask("/v1/users/me", key=made["key"], connection=connection).status
                for connection in connections
            }

        assert statuses() == {200}
        assert shared.run("keys", "revoke", str(made["id"])).returncode == 0
        with within(1):
            until(lambda: statuses() == {401}, "the revocation on every worker")


def test_limits_are_exact_across_workers(shared: Installation) -> None:
    toml = f"[plans.enterprise]\nper_minute = 1000000\nper_day = {PER_DAY}\n"
    (shared.directory / "portico.toml").write_text(toml)
    with several(shared) as service:
        early_in_a_day()
        with service.connected(WORKERS, 5) as connections:

            def ask(number: int) -> list[Answer]:
                return [
                    service.ask("/v1/users/me", key=shared.key, connection=connections[number])
                    for _ in range(PER_DAY // 5)
                ]

            answers = [answer for some in at_once(ask, len(connections)) for answer in some]
    admitted = [answer for answer in answers if answer.status == 200]
    assert len({answer.worker for answer in answers}) == WORKERS
    assert len(admitted) == PER_DAY
    assert {answer.status for answer in answers} == {200, 429}
    left = sorted(int(answer.headers["x-ratelimit-remaining"]) for answer in admitted)
    assert left == list(range(PER_DAY))


def test_workers_start_together_on_an_empty_database(
    postgres: PostgresServer, redis: RedisServer, tmp_path: Path
) -> None:
    url = postgres.fresh_database()
    installations = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        given = {"database_url": url, "valkey_url": redis.url, "secret_key": "5e" * 32}
        installations.append(Installation(tmp_path / name).having(**given))
    with contextlib.ExitStack() as stack:
        services = [Service(one, ("--workers", "2")) for one in installations]
        for service in services:
            stack.callback(service.end)
        for service in services:
            service.wait_until_ready()
        # Both may have found no admin: the database lets only one of them make it.
        assert sum("sk_live_" in service.said for service in services) == 1
        assert all(service.ask("/readyz").status == 200 for service in services)


def test_a_server_told_to_stop_while_it_starts_stops_without_a_word(shared: Installation) -> None:
    service = Service(shared, ("--workers", str(WORKERS)))
    try:
        until(lambda: len(service.workers()) == WORKERS or service.process.poll() is not None)
        code, _ = service.stop()
        assert code == 0
        assert service.workers() == []
        assert service.text == ""
    finally:
        service.end()


def test_a_worker_whose_supervisor_is_gone_before_it_listens_ends_without_a_word(
    installation: Installation,
) -> None:
    settings = load({}, installation.environment, installation.directory)
    (installation.data / supervise.RUN).mkdir()
    with subprocess.Popen(
        supervise.COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as worker:
        assert worker.stdin
        assert worker.stdout
        worker.stdout.close()
        worker.stdin.write(pickle.dumps((settings, 1, True)))
        worker.stdin.close()
        worker.stdin = worker.stdout = None
        said = worker.communicate()[1]
    assert (worker.returncode, b"rror" in said) == (0, False), said
