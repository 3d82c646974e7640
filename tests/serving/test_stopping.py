"""SIGTERM finishes what is under way, and keeps nobody waiting for what is not."""

import signal

import pytest

from operating import (
    COMMAND,
    TIMEOUT_SECONDS,
    Installation,
    Service,
    early_in_a_minute,
    read_answer,
    until,
)

BODY = b'{"name":"Lamp","category":"light","price":12.5}'


def accepts(service: Service) -> bool:
    """Whether new connections are let in."""
    try:
        service.connect_plain().close()
    except ConnectionRefusedError:
        return False
    return True


def test_request_under_way_is_finished_and_new_connections_are_refused(
    installation: Installation,
) -> None:
    with installation.serving() as service:
        with service.connect() as slow:
            slow.sendall(
                b"POST /v1/products HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json"
                b"\r\ncontent-length: 47\r\nauthorization: Bearer " + installation.key.encode()
            )
            slow.sendall(b"\r\n\r\n" + BODY[:10])
            # Its own answer says that the server has come past the slow one.
            assert service.ask("/v1/users/me", key=installation.key).status == 200
            service.process.send_signal(signal.SIGTERM)
            until(lambda: not accepts(service), "the refusal of new connections")
            assert service.process.poll() is None, "the server waits for the slow one"
            slow.sendall(BODY[10:])
            assert read_answer(slow).status == 201
        assert service.process.wait(TIMEOUT_SECONDS) == 0
    with installation.serving() as again:
        listed = again.ask("/v1/products?status=draft", key=installation.key)
        assert [product["name"] for product in listed.json["data"]] == ["Lamp"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_idle_server_stops_at_once_whatever_is_connected(
    installation: Installation, how: signal.Signals
) -> None:
    with (
        installation.serving() as service,
        service.connect() as kept,
        service.connect() as silent,
        service.connect() as half_a_head,
        service.connect_plain(),
    ):
        half_a_head.sendall(b"GET /v1/users/me HTTP/1.1\r\nhos")
        assert service.ask("/v1/users/me", key=installation.key, connection=kept).status == 200
        code, seconds = service.stop(how)
        assert (code, seconds < 5) == (0, True)
        assert kept.recv(1) == silent.recv(1) == b"", "connections are closed in order"


def test_server_that_outlives_its_terminal_serves_on(installation: Installation) -> None:
    with installation.serving(program=("nohup", *COMMAND, "serve")) as service:
        service.process.send_signal(signal.SIGHUP)
        assert service.ask("/v1/users/me", key=installation.key).status == 200


def test_counters_outlive_a_restart(installation: Installation) -> None:
    with installation.serving() as service:
        early_in_a_minute()
        for left in ("29", "28", "27"):
            assert service.ask("/v1/users/me").headers["x-ratelimit-remaining"] == left
        assert service.stop()[0] == 0
    with installation.serving() as again:
        day = again.ask("/v1/users/me").headers
        assert int(day["x-ratelimit-remaining"]) in (26, 29), "29 where a new minute has begun"
