"""Plain HTTP is refused: on the port that exists for it, and behind a proxy that tells of it."""

import contextlib
from collections.abc import Iterator

import pytest

from operating import Answer, Installation, Service, copy_of, early_in_a_minute, free_port, until

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


def test_key_sent_over_plain_http_stays_out_of_the_log(plain: tuple[Service, int]) -> None:
    service, port = plain
    key = service.installation.key
    with service.connect_plain(port) as connection:
        path, headers = f"/v1/users/{key}?key={key}", {"x-key": key}
        line = service.line_of(service.ask(path, headers=headers, connection=connection))
    assert (line["status"], line["path"]) == (403, "/v1/users/(redacted)")
    assert key not in service.text


def test_slow_and_huge_senders_on_the_plain_port_harm_nobody(plain: tuple[Service, int]) -> None:
    service, port = plain
    huge = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 99999999\r\n\r\n" + b"x" * 64 * 2**20
    endless = b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 4_000_000
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            slow = stack.enter_context(service.connect_plain(port))
            slow.sendall(b"GET / HTTP/1.1\r\nhost: loc")
        before = service.memory()
        for sent in (huge, endless):
            with contextlib.suppress(OSError):  # the server may stop listening to it
                stack.enter_context(service.connect_plain(port)).sendall(sent)
        assert service.memory() - before < 16 * 2**20
        assert service.ask("/v1/users/me", key=service.installation.key).status == 200


def ask_as_proxy(service: Service, key: str | None = None, **headers: str) -> Answer:
    """The answer to a request over plain HTTP."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with service.connect_plain() as connection:
        return service.ask("/v1/users/me", key=key, headers=named, connection=connection)


def left(answer: Answer) -> int:
    return int(answer.headers["x-ratelimit-remaining"])


def test_behind_a_trusted_proxy_only_https_is_served_and_its_client_is_counted(
    installation: Installation,
) -> None:
    with installation.having(tls="off", trusted_proxies="127.0.0.1").serving() as service:
        key = installation.key
        assert ask_as_proxy(service, key, x_forwarded_proto="https").status == 200
        for headers in ({"x_forwarded_proto": "http"}, {}):
            refused = ask_as_proxy(service, key, **headers)
            assert refused.error == (403, "PERMISSION_DENIED")
            assert "https://" in refused.text
        early_in_a_minute()
        # What a client puts before the proxy's own word is not believed.
        for address, expected in (
            ("198.51.100.1", 29),
            ("198.51.100.2", 29),
            ("198.51.100.1", 28),
            ("198.51.100.9, 198.51.100.1", 27),
        ):
            told = {"x_forwarded_proto": "https", "x_forwarded_for": address}
            assert left(ask_as_proxy(service, **told)) == expected


def test_forwarded_headers_of_strangers_are_ignored(installation: Installation) -> None:
    with installation.having(trusted_proxies=UNREACHED).serving() as service:
        told = {"x-forwarded-proto": "http", "x-forwarded-for": "198.51.100.1"}
        answer = service.ask("/v1/users/me", key=installation.key, headers=told)
        assert answer.status == 200
        early_in_a_minute()
        others = [{"x-forwarded-for": f"198.51.100.{number}"} for number in range(3)]
        assert [left(service.ask("/v1/users/me", headers=one)) for one in others] == [29, 28, 27]
        until(lambda: len(service.lines) == 4)
        assert {line["address"] for line in service.lines} == {"127.0.0.1"}


def test_plain_http_on_the_tls_port_gets_no_answer(plain: tuple[Service, int]) -> None:
    service, _ = plain
    with service.connect_plain() as connection:
        connection.sendall(b"GET /v1/users/me HTTP/1.1\r\nhost: localhost\r\n\r\n")
        connection.settimeout(5)
        with contextlib.suppress(ConnectionResetError, TimeoutError):
            assert not connection.recv(4096).startswith(b"HTTP")
    assert service.ask("/v1/users/me", key=service.installation.key).status == 200
