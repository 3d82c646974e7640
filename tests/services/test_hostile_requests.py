"""Forwarding over real connections: what a hostile client sends in, and what a broken service sends
back."""

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import httpx
import pytest

from multiplexed import DATA, END_STREAM, Multiplexed, frame
from operating import TIMEOUT_SECONDS, Answer, Installation, Service, read_answer, until

pytestmark = pytest.mark.xdist_group("hostile requests")  # they share their server

DECLARED = """
[services.invoices]
path = "/invoices"
upstream = "http://127.0.0.1:{port}"
timeout_seconds = 1

[[services.invoices.rules]]
path = "/**"
scope = "any"
"""
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
UNASKED = OK.replace(b"ok", b"no")
ENDLESS = b"HTTP/1.1 200 OK\r\n\r\n"
REPLIES = {
    "/slow": b"",
    "/dead": None,
    "/nonsense": b"SSH-2.0-x\r\n\r\n",
    "/long": b"HTTP/1.1 200 OK\r\n" + b"x-header: " + b"y" * 1_000_000,
    "/short": b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nok",
    "/cut": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhe",
    "/endless": ENDLESS,
    "/half": OK[:-1],
}
"""What the service sends at these paths; None: it closes the connection."""


class Upstream:
    """A service that keeps the heads of requests, with chunked bodies, and answers as `REPLIES`
    says."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.heads: list[str] = []
        self.left: list[str] = []
        """The paths of endless answers that their readers left."""
        self.go_on, self.went_on = Event(), Event()
        Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while True:
                head = b""
                while b"\r\n\r\n" not in head:
                    part = connection.recv(65_536)
                    if not part:
                        return
                    head += part
                while b"\r\ntransfer-encoding:" in head and not head.endswith(b"0\r\n\r\n"):
                    head += connection.recv(65_536)
                self.heads.append(head.decode())
                path = head.split()[1].decode()
                reply = REPLIES.get(path, OK)
                if reply is None:
                    return
                connection.sendall(reply)
                if path == "/slow":
                    connection.recv(1)
                if path == "/endless":
                    try:
                        while True:
                            connection.sendall(b"x" * 65_536)
                    except OSError:
                        self.left.append(path)
                if path in ("/whole", "/half"):
                    self.go_on.wait(TIMEOUT_SECONDS)
                    connection.sendall(OK.removeprefix(reply) + UNASKED)
                    self.went_on.set()
                elif reply is not OK:
                    return


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    made = Upstream()
    yield made
    made.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, upstream: Upstream) -> Iterator[Service]:
    directory: Path = tmp_path_factory.mktemp("hostile")
    plan = "[plans.enterprise]\nper_minute = 1000000\nper_day = 1000000\n"
    (directory / "portico.toml").write_text(DECLARED.format(port=upstream.port) + plan)
    empty = Installation(directory)
    prepared = Installation(directory, facts=empty.told("init"), port=empty.port)
    with prepared.serving() as running:
        yield running


def ask(server: Service, target: str, *lines: str, method: str = "GET", body: str = "") -> Answer:
    """What is answered to a request with exactly this target, these header lines and this body."""
    head = [f"{method} {target} HTTP/1.1", "host: localhost"]
    head += [f"authorization: Bearer {server.installation.key}", *lines, "", body]
    with server.connect() as connection:
        connection.sendall("\r\n".join(head).encode())
        return read_answer(connection)


@pytest.mark.parametrize(
    ("target", "status", "sent"),
    [
        ("/v1/invoices", 200, "/"),
        ("/v1/invoices/", 200, "/"),
        ("/v1/invoices/a//b;c=1?d=%2F", 200, "/a//b;c=1?d=%2F"),
        ("/v1/invoices/%61%20%C3%A9", 200, "/a%20%C3%A9"),
        ("/v1/invoices/%252e%252e/x", 200, "/%252e%252e/x"),
        ("/v1/invoices/a%0d%0ax-portico-user:1", 200, "/a%0D%0Ax-portico-user:1"),
        ("/v1/invoices/...", 200, "/..."),
        # The HTTP server decodes these before anybody sees it: see docs/services.md.
        ("/v1/invoices/a%2fb", 200, "/a/b"),
        ("/v1/invoices/a|b", 200, "/a%7Cb"),
        ("/v1/invoices/a%zz", 200, "/a%25zz"),
        ("/v1/invoices/../users", 400, None),
        ("/v1/invoices/%2e%2e/users", 400, None),
        ("/v1/invoices/.%2E/users", 400, None),
        ("/v1/invoices/..%2fusers", 400, None),
        ("/v1/invoices/a%5cb", 400, None),
        ("/v1/invoices/a%00", 400, None),
        ("/v1/invoices/%ff", 400, None),
        ("/v1/invoices/%c0%ae%c0%ae/x", 400, None),
        ("/v1/invoices/x y", 400, None),
        ("//v1/invoices/x", 404, None),
        ("/v1/invoices%2fx", 200, "/x"),
        ("/v1/invoicesx/x", 404, None),
    ],
)
def test_a_path_that_two_servers_may_read_differently_is_refused(
    server: Service, upstream: Upstream, target: str, status: int, sent: str | None
) -> None:
    upstream.heads.clear()
    answer = ask(server, target)
    assert answer.status == status, answer.text
    assert [head.split()[1] for head in upstream.heads] == ([sent] if sent else [])


FORGED = [
    *("X-Portico-User", "x-portico-user", "X_Portico_User", "X-PORTICO-Identity", "x-portico_role"),
    *("X-Forwarded-For", "X_Forwarded_Host", "X-Forwarded-Prefix", "Forwarded", "X-Original-URI"),
    *("X-Rewrite-URL", "X_HTTP_Method_Override", "True-Client-IP", "X-Client-IP"),
    *("X-Real-IP", "X-Request-Id", "Proxy-Authorization", "Keep-Alive", "Named", "Host-Not"),
]


@pytest.mark.parametrize("name", FORGED)
def test_no_spelling_of_a_header_speaks_for_somebody_else(
    server: Service, upstream: Upstream, name: str
) -> None:
    upstream.heads.clear()
    lines = (f"{name}: forged", f"{name.lower()}: forged", "connection: named, host-not")
    assert ask(server, "/v1/invoices/1", *lines).status == 200
    with Multiplexed(server) as connection:
        # HTTP/2 has no header about the connection, which could name others.
        about_one = name in ("Named", "Host-Not", "Keep-Alive")
        fields = () if about_one else ((name.lower(), "forged"),) * 2
        number = connection.begin("/v1/invoices/2", *fields)
        exchange = connection.exchanges[number]
        until(lambda: exchange.ended or not connection.hear(), "the answer")
        assert exchange.status == 200
    assert [head.split()[1] for head in upstream.heads] == ["/1", "/2"]
    assert "forged" not in "".join(upstream.heads)
    for head in upstream.heads:
        assert head.lower().count("\r\nx-portico-user:") == 1
        assert head.lower().count("\r\nhost:") == 1


CHUNKED = "5\r\nhello\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "lines",
    [
        ("transfer-encoding: chunked",),
        ("transfer-encoding: chunked", "content-length: 3"),
        ("content-length: 3", "transfer-encoding: chunked"),
        ("transfer-encoding: chunked", "content_length: 3", "transfer_encoding: identity"),
        ("transfer-encoding: chunked", "content-length: 3", "connection: transfer-encoding"),
    ],
)
def test_a_body_has_one_length_for_the_service(
    server: Service, upstream: Upstream, lines: tuple[str, ...]
) -> None:
    upstream.heads.clear()
    assert ask(server, "/v1/invoices/1", *lines, method="POST", body=CHUNKED).status == 200
    (head,) = upstream.heads
    assert head.lower().replace("_", "-").count("-length") == 0
    assert head.lower().replace("_", "-").count("transfer-encoding") == 1
    assert head.endswith(f"\r\n\r\n{CHUNKED}")


def test_a_client_that_pauses_does_not_take_the_services_time(
    server: Service, upstream: Upstream
) -> None:
    upstream.heads.clear()
    key = server.installation.key
    head = f"POST /v1/invoices/1 HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n"
    with server.connect() as connection:
        connection.sendall(f"{head}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n".encode())
        time.sleep(1.5)  # the service has one second
        connection.sendall(b"0\r\n\r\n")
        assert read_answer(connection).status == 200
    assert [head.partition("\r\n\r\n")[2] for head in upstream.heads] == [CHUNKED]


def test_trace_is_not_forwarded_since_its_answer_would_show_the_token(
    server: Service, upstream: Upstream
) -> None:
    upstream.heads.clear()
    answer = ask(server, "/v1/invoices/1", method="TRACE")
    assert (answer.status, answer.json["error"]["code"]) == (501, "NOT_IMPLEMENTED")
    assert upstream.heads == []


def test_a_body_without_a_length_arrives_over_http_2(server: Service, upstream: Upstream) -> None:
    upstream.heads.clear()
    with Multiplexed(server) as connection:
        number = connection.begin("/v1/invoices/1", method="POST", whole=False)
        connection.tell(frame(DATA, END_STREAM, number, b"hello"))
        assert connection.answers([number])[0].status == 200
        assert connection.ask("/v1/invoices/2").status == 200
    assert [head.partition("\r\n\r\n")[2] for head in upstream.heads] == [CHUNKED, ""]


@pytest.mark.parametrize("upgrade", ["websocket", "h2c"])
def test_an_upgrade_is_not_forwarded(server: Service, upstream: Upstream, upgrade: str) -> None:
    upstream.heads.clear()
    answer = ask(
        *(server, "/v1/invoices/1", f"upgrade: {upgrade}", "connection: upgrade"),
        *("sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="),
    )
    assert (answer.status, answer.json["error"]["code"]) == (501, "NOT_IMPLEMENTED")
    assert upstream.heads == []


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/slow", 504, "GATEWAY_TIMEOUT"),
        ("/dead", 502, "BAD_GATEWAY"),
        ("/nonsense", 502, "BAD_GATEWAY"),
        ("/long", 502, "BAD_GATEWAY"),
    ],
)
def test_a_service_that_gives_no_answer_is_told_as_such(
    server: Service, path: str, status: int, code: str
) -> None:
    answer = ask(server, f"/v1/invoices{path}")
    assert (answer.status, answer.json["error"]["code"]) == (status, code)
    assert "x-ratelimit-remaining" in answer.headers


@pytest.mark.parametrize("path", ["/short", "/cut"])
def test_an_answer_that_breaks_off_is_a_broken_answer_to_the_client(
    server: Service, path: str
) -> None:
    head = {"authorization": f"Bearer {server.installation.key}"}
    with pytest.raises(httpx.TransportError):
        httpx.get(
            f"https://localhost:{server.installation.port}/v1/invoices{path}",
            headers=head,
            verify=server.trusting(),
        )


@pytest.mark.parametrize("path", ["/whole", "/half"])
def test_an_answer_that_nobody_asked_for_is_not_the_next_callers(
    server: Service, upstream: Upstream, path: str
) -> None:
    """It comes after a whole answer, or together with the end of one."""
    upstream.go_on.clear()
    upstream.went_on.clear()
    with httpx.stream(
        "GET",
        f"https://localhost:{server.installation.port}/v1/invoices{path}",
        headers={"authorization": f"Bearer {server.installation.key}"},
        verify=server.trusting(),
    ) as answer:
        parts = answer.iter_raw()
        begun = next(parts)
        upstream.go_on.set()
        assert begun + b"".join(parts) == b"ok"
    assert upstream.went_on.wait(TIMEOUT_SECONDS)
    assert [ask(server, "/v1/invoices/1").text for _ in range(2)] == ["ok", "ok"]


def test_an_endless_answer_ends_with_its_reader(server: Service, upstream: Upstream) -> None:
    key = server.installation.key
    head = f"GET /v1/invoices/endless HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\n\r\n"
    with server.connect() as connection:
        connection.sendall(head.encode())
        assert connection.recv(65_536)
    until(lambda: upstream.left, "its end")


def test_a_method_in_small_letters_is_refused_since_it_may_be_sent_in_capitals(
    server: Service, upstream: Upstream
) -> None:
    upstream.heads.clear()
    answer = ask(server, "/v1/invoices/x", method="get")
    assert (answer.status, upstream.heads) == (400, [])
