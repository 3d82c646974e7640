"""From SIGTERM a server serves on for `drain_seconds`, so that balancers turn away in time."""

import contextlib
import random
import signal
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from multiplexed import Multiplexed
from operating import (
    PATIENCE_SECONDS,
    Answer,
    Installation,
    Service,
    at_once,
    copy_of,
    until,
)
from servers import RedisServer

CLIENTS = 4
REQUESTS = 40
"""Of each client, before, amid and after the stop."""


class Balancer:
    """Sends each client to any of the servers that are ready, and repeats no request."""

    def __init__(self, services: list[Service]) -> None:
        self._services = services
        self._over = threading.Event()
        self.ready = services
        self.failures: list[str] = []

    def is_ready(self, service: Service) -> bool:
        """What `/readyz` says to somebody who comes anew; no answer is none."""
        try:
            return service.ask("/readyz").status == 200
        except OSError:
            return False

    def look(self) -> None:
        """Looks which servers are ready."""
        self.ready = [service for service in self._services if self.is_ready(service)]

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Looks all the while."""

        def look() -> None:
            while not self._over.wait(0.05):
                self.look()

        thread = threading.Thread(target=look)
        thread.start()
        try:
            yield
        finally:
            self._over.set()
            thread.join()


class Client:
    """Keeps a connection to each server for as long as the server does."""

    def __init__(self, balancer: Balancer) -> None:
        self._balancer = balancer
        self._kept: dict[Service, ssl.SSLSocket] = {}

    def ask(self) -> None:
        """One request, which may not fail."""
        service = random.choice(self._balancer.ready)  # noqa: S311 - nothing secret
        try:
            if service not in self._kept:
                self._kept[service] = service.connect()
            answer = service.ask(
                "/v1/users/me", key=service.installation.key, connection=self._kept[service]
            )
            if answer.status != 200:
                self._balancer.failures.append(answer.text)
            if answer.headers.get("connection") == "close":
                self._kept.pop(service).close()
        except OSError as error:
            self._balancer.failures.append(repr(error))
            if service in self._kept:
                self._kept.pop(service).close()

    def goes_on(self) -> bool:
        """Asks once more."""
        self.ask()
        return True

    def close(self) -> None:
        """Leaves all servers."""
        for connection in self._kept.values():
            connection.close()


def test_no_request_fails_while_one_of_two_servers_stops(
    installation: Installation, tmp_path: Path
) -> None:
    unbounded = "[plans.enterprise]\nper_minute = 1000000\nper_day = 1000000\n"
    draining = installation.having(drain_seconds="600")  # the balancer may take its time
    pair = [copy_of(draining, tmp_path / name) for name in ("one", "other")]
    for one in pair:
        (one.directory / "portico.toml").write_text(unbounded)
    with pair[0].serving() as leaving, pair[1].serving() as staying:
        balancer, ended = Balancer([leaving, staying]), threading.Event()
        turned = threading.Barrier(CLIENTS, timeout=PATIENCE_SECONDS)

        def has_ended(number: int) -> bool:
            if number == 0 and leaving.process.poll() is not None:  # which is for one thread
                ended.set()
            return ended.is_set()

        def drive(number: int) -> None:
            client = Client(balancer)
            for _ in range(REQUESTS):
                client.ask()
            if number == 0:
                leaving.process.send_signal(signal.SIGTERM)
            until(lambda: client.goes_on() and balancer.ready == [staying], "the balancer's turn")
            turned.wait()
            if number == 0:  # nobody asks it any more
                leaving.process.send_signal(signal.SIGTERM)
            until(lambda: client.goes_on() and has_ended(number), "its end")
            for _ in range(REQUESTS):
                client.ask()
            client.close()

        with balancer.looking():
            at_once(drive, CLIENTS)
        assert balancer.failures == []
        assert leaving.process.poll() == 0


def test_a_server_ends_once_its_balancers_had_their_time(installation: Installation) -> None:
    with installation.having(drain_seconds="1").serving() as service:
        told = time.monotonic()
        code, _ = service.stop()
        assert code == 0
        assert time.monotonic() - told >= 1


def connection_of(answer: Answer) -> str | None:
    return answer.headers.get("connection")


def test_a_server_that_leaves_serves_all_and_lets_connections_go_one_by_one(
    installation: Installation,
) -> None:
    with (
        installation.having(drain_seconds="600").serving() as service,
        service.connect() as kept,
        Multiplexed(service) as multiplexed,
    ):
        key = installation.key
        before = service.ask("/v1/users/me", key=key, connection=kept)
        assert (before.status, connection_of(before)) == (200, None)
        service.process.send_signal(signal.SIGTERM)
        until(lambda: service.ask("/readyz").status == 503, "that it is not ready")
        assert service.ask("/readyz").json["ready"] is False
        assert service.ask("/healthz").status == 200
        last = service.ask("/v1/users/me", key=key, connection=kept)
        assert (last.status, connection_of(last)) == (200, "close")
        assert kept.recv(1) == b""
        answered = multiplexed.ask("/healthz")
        assert answered.status == 200
        assert "connection" not in answered.headers
        code, seconds = service.stop()
        assert code == 0
        assert seconds < 5, "a second SIGTERM ends the wait"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_waits_for_no_balancer(
    installation: Installation, redis: RedisServer, workers: str
) -> None:
    slow = installation.having(drain_seconds="600", workers=workers, valkey_url=redis.url)
    with slow.serving() as service:
        code, seconds = service.stop(signal.SIGINT)
        assert code == 0
        assert seconds < 5
        assert service.workers() == []


def test_workers_leave_together(installation: Installation, redis: RedisServer) -> None:
    slow = installation.having(drain_seconds="600", workers="2", valkey_url=redis.url)
    with slow.serving() as service:
        service.process.send_signal(signal.SIGTERM)
        told: dict[str, int] = {}

        def all_leave() -> bool:
            answer = service.ask("/readyz")
            told[answer.worker] = answer.status
            return list(told.values()) == [503, 503]

        until(all_leave, "that no worker is ready")
        code, seconds = service.stop()
        assert code == 0
        assert seconds < 5
        assert service.workers() == []
