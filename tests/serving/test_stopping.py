"""SIGTERM finishes what is under way, and keeps nobody waiting for what is not."""

import signal
import ssl

import pytest

from operating import (
    COMMAND,
    PATIENCE_SECONDS,
    Installation,
    Service,
    early_in_a_minute,
    read_answer,
    until,
)

BODY = b'{"name":"Lamp","category":"light","price":12.5}'


def begin(service: Service, sent: bytes) -> ssl.SSLSocket:
    """A POST of which only `sent` of the body has arrived; its connection."""
    connection = service.connect()
    head = (
        "POST /v1/products HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"authorization: Bearer {service.installation.key}\r\n"
        f"content-length: {len(BODY)}\r\n\r\n"
    )
    connection.sendall(head.encode() + sent)
    return connection


def accepts(service: Service) -> bool:
    """Whether new connections are let in."""
    try:
        service.connect_plain().close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGHUP])
def test_a_request_under_way_is_finished_and_new_connections_are_refused(
    installation: Installation, how: signal.Signals
) -> None:
    with installation.serving() as service:
        with begin(service, BODY[:10]) as slow:
            # Its own answer says that the server has come past the slow one.
            assert service.ask("/v1/users/me", key=installation.key).status == 200
            service.process.send_signal(how)
            until(lambda: not accepts(service), "the refusal of new connections")
            assert service.process.poll() is None, "the server waits for the slow one"
            slow.sendall(BODY[10:])
            assert read_answer(slow).status == 201
        assert service.process.wait(PATIENCE_SECONDS) == 0
    with installation.serving() as again:
        listed = again.ask("/v1/products?status=draft", key=installation.key)
        assert [product["name"] for product in listed.json["data"]] == ["Lamp"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_idle_server_stops_at_once_whatever_is_connected(
    installation: Installation, how: signal.Signals
) -> None:
    with (
        installation.serving() as service,
        service.connect() as kept,
        service.connect() as silent,
        service.connect_plain() as without_tls,
    ):
        assert service.ask("/v1/users/me", key=installation.key, connection=kept).status == 200
        code, seconds = service.stop(how)
        assert code == 0
        assert seconds < 1
        assert kept.recv(1) == b"", "kept connections are closed in order"
        assert silent.recv(1) == b""
        without_tls.close()


def test_a_server_that_outlives_its_terminal_serves_on(installation: Installation) -> None:
    with installation.serving(program=("nohup", *COMMAND, "serve")) as service:
        service.process.send_signal(signal.SIGHUP)
        assert service.ask("/v1/users/me", key=installation.key).status == 200


def test_half_a_head_does_not_keep_the_server(installation: Installation) -> None:
    with installation.serving() as service, service.connect() as slow:
        slow.sendall(b"GET /v1/users/me HTTP/1.1\r\nhos")
        assert service.ask("/healthz").status == 200
        code, seconds = service.stop()
        assert code == 0
        assert seconds < 5


def test_counters_outlive_a_restart(installation: Installation) -> None:
    with installation.serving() as service:
        early_in_a_minute()
        for left in ("29", "28", "27"):
            assert service.ask("/v1/users/me").headers["x-ratelimit-remaining"] == left
        assert service.stop()[0] == 0
    with installation.serving() as again:
        day = again.ask("/v1/users/me").headers
        assert int(day["x-ratelimit-remaining"]) in (26, 29), "29 where a new minute has begun"
