"""Plain HTTP is refused: on the port that exists for it, and behind a proxy that tells of it."""

import contextlib
import socket
from collections.abc import Iterator

import pytest

from operating import (
    Installation,
    Service,
    copy_of,
    early_in_a_minute,
    free_port,
    read_answer,
    until,
)

UNREACHED = "192.0.2.1"
"""An address that no test comes from (RFC 5737)."""


@pytest.fixture(scope="module")
def plain(
    first_installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Service, int]]:
    """A server with a port for plain HTTP, and that port."""
    port = free_port()
    copy = copy_of(first_installation, tmp_path_factory.mktemp("plain"))
    with copy.having(http_port=str(port)).serving() as service:
        yield service, port


@pytest.mark.parametrize("path", ["/v1/users/me", "/", "/healthz", "/metrics"])
def test_every_request_on_the_plain_port_is_refused(plain: tuple[Service, int], path: str) -> None:
    service, port = plain
    with service.connect_plain(port) as connection:
        answer = service.ask(path, key=service.installation.key, connection=connection)
        assert answer.error == (403, "PERMISSION_DENIED")
        assert f"https://localhost:{service.installation.port}/v1" in answer.text
        assert "location" not in answer.headers
        assert connection.recv(1) == b"", "the connection is closed behind the answer"


def test_a_key_sent_over_plain_http_stays_out_of_the_log(plain: tuple[Service, int]) -> None:
    service, port = plain
    key = service.installation.key
    with service.connect_plain(port) as connection:
        answer = service.ask(
            f"/v1/users/{key}?key={key}", headers={"x-key": key}, connection=connection
        )
    line = service.line_of(answer)
    assert (line["status"], line["address"], line["path"]) == (
        403,
        "127.0.0.1",
        "/v1/users/(redacted)",
    )
    assert key not in service.text


def test_slow_and_huge_senders_on_the_plain_port_harm_nobody(plain: tuple[Service, int]) -> None:
    service, port = plain
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(service.connect_plain(port)) for _ in range(20)]
        for connection in slow:
            connection.sendall(b"GET / HTTP/1.1\r\nhost: loc")
        huge = stack.enter_context(service.connect_plain(port))
        huge.sendall(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n")
        before = service.memory()
        with contextlib.suppress(OSError):  # the server may stop listening to it
            for _ in range(64):
                huge.sendall(b"x" * 2**20)
        # A head without an end is given up long before it fills the memory.
        endless = stack.enter_context(service.connect_plain(port))
        with contextlib.suppress(OSError):
            endless.sendall(b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 4_000_000)
        assert service.memory() - before < 16 * 2**20
        assert service.ask("/v1/users/me", key=service.installation.key).status == 200
        slow[0].sendall(b"alhost\r\n\r\n")
        assert read_answer(slow[0]).status == 403


def ask_as_proxy(service: Service, key: str | None = None, **headers: str) -> tuple[int, str]:
    """The status of a request over plain HTTP, and how many its caller has left."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with service.connect_plain() as connection:
        answer = service.ask("/v1/users/me", key=key, headers=named, connection=connection)
    return answer.status, answer.headers.get("x-ratelimit-remaining", "")


def test_behind_a_trusted_proxy_only_what_came_over_https_is_served(
    installation: Installation,
) -> None:
    behind = installation.having(tls="off", trusted_proxies="127.0.0.1")
    with behind.serving() as service:
        key = installation.key
        assert ask_as_proxy(service, key, x_forwarded_proto="https")[0] == 200
        assert ask_as_proxy(service, key, x_forwarded_proto="http")[0] == 403
        assert ask_as_proxy(service, key)[0] == 403
        with service.connect_plain() as connection:
            answer = service.ask("/v1/users/me", key=key, connection=connection)
        assert answer.error == (403, "PERMISSION_DENIED")
        assert "https://" in answer.text


def test_a_trusted_proxy_tells_whom_to_count(installation: Installation) -> None:
    behind = installation.having(tls="off", trusted_proxies="127.0.0.1")
    with behind.serving() as service:

        def left(address: str) -> str:
            told = {"x_forwarded_proto": "https", "x_forwarded_for": address}
            return ask_as_proxy(service, **told)[1]

        early_in_a_minute()
        assert [left("198.51.100.1"), left("198.51.100.2"), left("198.51.100.1")] == [
            "29",
            "29",
            "28",
        ]
        # What a client puts before the proxy's own word is not believed.
        assert left("198.51.100.9, 198.51.100.1") == "27"


def test_forwarded_headers_of_strangers_are_ignored(installation: Installation) -> None:
    behind_another = installation.having(trusted_proxies=UNREACHED)
    with behind_another.serving() as service:
        told = {"x-forwarded-proto": "http", "x-forwarded-for": "198.51.100.1"}
        answer = service.ask("/v1/users/me", key=installation.key, headers=told)
        assert answer.status == 200
        early_in_a_minute()
        left = [
            service.ask("/v1/users/me", headers={**told, "x-forwarded-for": f"198.51.100.{n}"})
            for n in range(3)
        ]
        assert [one.headers["x-ratelimit-remaining"] for one in left] == ["29", "28", "27"]
        until(lambda: len(service.lines) == 4)
        assert {line["address"] for line in service.lines} == {"127.0.0.1"}


def test_a_stranger_who_claims_https_over_plain_http_is_refused(
    installation: Installation,
) -> None:
    behind_another = installation.having(tls="off", trusted_proxies=UNREACHED)
    with behind_another.serving() as service:
        claimed = {"x_forwarded_proto": "https"}
        assert ask_as_proxy(service, installation.key, **claimed)[0] == 403


def test_plain_http_on_the_tls_port_gets_no_answer_and_does_no_harm(
    installation: Installation,
) -> None:
    with installation.serving() as service:
        with service.connect_plain() as connection:
            connection.sendall(b"GET /v1/users/me HTTP/1.1\r\nhost: localhost\r\n\r\n")
            connection.settimeout(5)
            with contextlib.suppress(ConnectionResetError, socket.timeout):
                assert not connection.recv(4096).startswith(b"HTTP")
        assert service.ask("/v1/users/me", key=installation.key).status == 200
