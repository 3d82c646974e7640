"""From SIGTERM a server serves on for `drain_seconds`, so that balancers turn away in time."""

import contextlib
import random
import signal
import ssl
import threading
import time

import pytest

from multiplexed import Multiplexed
from operating import Installation, Service, at_once, copy_of, until
from servers import RedisServer

CLIENTS, REQUESTS = 3, 20
"""Those of each client, before and after the stop."""


@pytest.fixture
def draining(installation: Installation) -> Installation:
    return installation.unlimited().having(drain_seconds="600")


class Client:
    """Asks any of the servers that are ready, over connections that it keeps, and repeats no
    request."""

    def __init__(self, ready: list[Service], failures: list[str]) -> None:
        self._ready = ready
        self._failures = failures
        self._kept: dict[Service, ssl.SSLSocket] = {}

    def ask(self) -> bool:
        service = random.choice(self._ready)  # noqa: S311 - nothing secret
        try:
            if service not in self._kept:
                self._kept[service] = service.connect()
            key, connection = service.installation.key, self._kept[service]
            answer = service.ask("/v1/users/me", key=key, connection=connection)
            if answer.status != 200:
                self._failures.append(answer.text)
            if answer.headers.get("connection") == "close":
                self._kept.pop(service).close()
        except OSError as error:
            self._failures.append(repr(error))
            self._kept.pop(service).close()
        return True

    def close(self) -> None:
        for connection in self._kept.values():
            connection.close()


def test_no_request_fails_while_one_of_two_servers_stops(draining: Installation) -> None:
    (draining.directory / "other").mkdir()
    other = copy_of(draining, draining.directory / "other").unlimited()
    failures: list[str] = []
    turned = threading.Barrier(CLIENTS + 1, timeout=60)
    with draining.serving() as leaving, other.serving() as staying:
        ready = [leaving, staying]

        def drive(number: int) -> None:
            if number == CLIENTS:  # the balancer
                turned.wait()
                leaving.process.send_signal(signal.SIGTERM)
                until(lambda: leaving.ask("/readyz").status == 503, "that it is not ready")
                ready[:] = [staying, staying]
                turned.wait()
                turned.wait()
                assert leaving.stop()[0] == 0
                turned.wait()
                return
            with contextlib.closing(Client(ready, failures)) as client:
                for _ in range(4):  # before, while it drains, as it ends, and after
                    for _ in range(REQUESTS):
                        client.ask()
                    turned.wait()
                client.ask()

        at_once(drive, CLIENTS + 1)
        assert failures == []
        assert leaving.process.poll() == 0


def test_server_ends_once_its_balancers_had_their_time(installation: Installation) -> None:
    with installation.having(drain_seconds="1").serving() as service:
        began = time.monotonic()
        assert service.stop()[0] == 0
        assert time.monotonic() - began >= 1


def test_server_that_leaves_serves_all_and_lets_connections_go_one_by_one(
    draining: Installation,
) -> None:
    with (
        draining.serving() as service,
        service.connect() as kept,
        Multiplexed(service) as multiplexed,
    ):
        before = service.ask("/v1/users/me", key=draining.key, connection=kept)
        assert (before.status, "connection" in before.headers) == (200, False)
        service.process.send_signal(signal.SIGTERM)
        until(lambda: service.ask("/readyz").status == 503, "that it is not ready")
        assert service.ask("/readyz").json["ready"] is False
        assert service.ask("/healthz").status == 200
        last = service.ask("/v1/users/me", key=draining.key, connection=kept)
        assert (last.status, last.headers["connection"]) == (200, "close")
        assert kept.recv(1) == b""
        answered = multiplexed.ask("/healthz")
        assert (answered.status, "connection" in answered.headers) == (200, False)
        code, seconds = service.stop()
        assert (code, seconds < 5) == (0, True), "a second SIGTERM ends the wait"


def test_workers_leave_together_and_ctrl_c_waits_for_no_balancer(
    draining: Installation, redis: RedisServer
) -> None:
    with draining.having(workers="2", valkey_url=redis.url).serving() as service:
        service.process.send_signal(signal.SIGTERM)
        told: dict[str, int] = {}

        def all_leave() -> bool:
            answer = service.ask("/readyz")
            told[answer.worker] = answer.status
            return list(told.values()) == [503, 503]

        until(all_leave, "that no worker is ready")
        code, seconds = service.stop(signal.SIGINT)
        assert (code, seconds < 5, service.workers()) == (0, True, [])
