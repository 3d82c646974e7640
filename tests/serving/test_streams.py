"""Streams over real connections: begun, ended by either side, and bounded."""

import contextlib
import http.client
import resource
import signal
import socket
import ssl
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from operating import Installation, Service, copy_of, until

PROGRAM = (sys.executable, str(Path(__file__).with_name("streaming.py")))
KIB = 1024
STREAMS = 1000
STREAM_BYTES = 40 * KIB


def unlimited(installation: Installation, directory: Path) -> Installation:
    """A copy of an installation whose first admin may open as many streams as a test likes."""
    copy = copy_of(installation, directory)
    plan = "[plans.enterprise]\nper_minute = 100000\nper_day = 100000\n"
    (copy.directory / "portico.toml").write_text(plan)
    return copy.having(connections_per_address=str(2 * STREAMS))


@pytest.fixture(scope="module")
def service(
    first_installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One server with streams, patient enough to watch over none of these tests."""
    copy = unlimited(first_installation, tmp_path_factory.mktemp("streams"))
    with copy.serving(program=(*PROGRAM, "60", "1")) as running:
        yield running
        assert "panicked" not in running.text
        assert "never retrieved" not in running.text


@contextlib.contextmanager
def told(service: Service, *words: str, times: int = 1) -> Iterator[None]:
    """The server says these words so many times more, in what is done inside or soon after: long
    before it would have lost patience."""
    before = [service.said.count(word) for word in words]
    yield
    after = [count + times for count in before]
    until(lambda: [service.said.count(word) for word in words] == after, str(words), 20)


def asked(
    service: Service, path: str, method: str = "GET", connection: ssl.SSLSocket | None = None
) -> ssl.SSLSocket:
    """A connection on which a stream was asked for."""
    connection = connection or service.connect()
    head = (
        f"{method} /v1{path} HTTP/1.1\r\nhost: localhost\r\n"
        f"authorization: Bearer {service.installation.key}\r\n\r\n"
    )
    connection.sendall(head.encode())
    return connection


def opened(service: Service, path: str) -> tuple[ssl.SSLSocket, http.client.HTTPResponse]:
    """A stream whose head was read, and its connection."""
    connection = asked(service, path)
    response = http.client.HTTPResponse(connection)
    response.begin()
    return connection, response


def test_a_stream_has_the_headers_of_every_answer_and_is_kept_by_nobody(service: Service) -> None:
    with told(service, "closed", "ended"):
        connection, response = opened(service, "/quiet")
        with connection, response:
            assert response.status == 200
            headers = {name.lower(): value for name, value in response.getheaders()}
    assert headers["content-type"] == "text/event-stream"
    assert headers["cache-control"] == "no-store"
    assert headers["x-accel-buffering"] == "no"
    assert headers["transfer-encoding"] == "chunked"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["strict-transport-security"]
    assert headers["x-request-id"]
    assert int(headers["x-ratelimit-remaining"]) < int(headers["x-ratelimit-limit"])
    assert "etag" not in headers


def test_a_stream_is_sent_as_it_comes_and_its_connection_serves_on(service: Service) -> None:
    with told(service, "closed", "ended"):
        connection, response = opened(service, "/quiet")
        with connection:
            assert response.readline() == b":\n"
            assert service.ask("/v1/ring", key=service.installation.key).status == 204
            assert response.read() == b"id: 0\n\nid: 1\nevent: rung\ndata: {}\n\n"
            assert service.ask("/healthz", connection=connection).status == 200


def test_whoever_asks_with_head_gets_the_head(service: Service) -> None:
    closed = service.said.count("closed")
    with told(service, "ended"), asked(service, "/quiet", "HEAD") as connection:
        response = http.client.HTTPResponse(connection, method="HEAD")
        response.begin()
        assert response.status == 200
        assert response.getheader("content-type") == "text/event-stream"
        assert response.getheader("content-length") is None
        response.close()
        assert service.ask("/healthz", connection=connection).status == 200
    assert service.said.count("closed") == closed, "it never began"


def test_a_stream_is_one_request_in_the_log_and_in_metrics(service: Service) -> None:
    def counted() -> float:
        name = "portico_http_request_duration_seconds_count"
        labels = '{environment="live",method="GET",route="/v1/quiet",status="200"}'
        lines = service.ask("/metrics").text.splitlines()
        return sum(float(line.split()[1]) for line in lines if line.startswith(name + labels))

    before = counted()
    with told(service, "ended"):
        connection, response = opened(service, "/quiet")
        with connection, response:
            wanted = response.getheader("x-request-id", "")
            until(lambda: wanted in service.text, "its log line")
            assert counted() == before + 1
    lines = [line["path"] for line in service.lines if line.get("request_id") == wanted]
    assert (lines, counted()) == (["/v1/quiet"], before + 1)


@pytest.mark.parametrize("how", ["close", "reset", "shut"])
def test_a_stream_ends_when_its_client_goes_away(service: Service, how: str) -> None:
    with told(service, "closed", "ended"):
        connection, response = opened(service, "/quiet")
        assert response.readline() == b":\n"
        if how == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if how == "shut":
            connection.shutdown(socket.SHUT_WR)
        else:
            response.close()
            connection.close()
    connection.close()


def test_a_stream_that_fails_ends_and_is_told_in_the_log(service: Service) -> None:
    with told(service, "ended"):
        connection, response = opened(service, "/broken")
        with connection:
            assert response.read() == b":\nid: 0\n\n"
    failed = until(
        lambda: [line for line in service.lines if line["event"] == "a stream broke off"],
        "the log's line",
    )
    assert [line["request_id"] for line in failed] == [response.getheader("x-request-id")]


def test_a_whole_that_comes_to_its_end_is_whole(service: Service) -> None:
    with told(service, "ended"):
        connection, response = opened(service, "/part")
        with connection:
            assert response.read1(6) == b"a part"
            assert service.ask("/v1/ring", key=service.installation.key).status == 204
            assert response.read() == b" and the rest"
            assert service.ask("/healthz", connection=connection).status == 200


def test_a_whole_that_fails_half_way_is_seen_to_be_none(service: Service) -> None:
    with told(service, "ended"):
        connection, response = opened(service, "/cut")
        with connection:
            assert response.read1(6) == b"a part"
            assert service.ask("/v1/ring", key=service.installation.key).status == 204
            with pytest.raises(http.client.IncompleteRead):
                response.read()


def test_streams_end_in_order_and_at_once_when_the_server_stops(
    first_installation: Installation, tmp_path: Path
) -> None:
    with (
        unlimited(first_installation, tmp_path).serving(program=(*PROGRAM, "60", "1")) as service,
        contextlib.ExitStack() as stack,
    ):
        streams = []
        for _ in range(20):
            connection, response = opened(service, "/quiet")
            stack.enter_context(connection)
            streams.append((connection, response))
        cut, part = opened(service, "/part")
        stack.enter_context(cut)
        code, seconds = service.stop(signal.SIGTERM)
        assert code == 0
        assert seconds < 1
        for connection, response in streams:
            assert response.read() == b":\nid: 0\n\n", "the last chunk says that it was the last"
            assert connection.recv(1) == b"", "and the connection is closed in order"
        with pytest.raises(http.client.IncompleteRead):
            part.read()
    assert (service.said.count("closed"), service.said.count("ended")) == (20, 21)
    assert "cut off" not in service.text


def unread(service: Service, path: str = "/flood") -> ssl.SSLSocket:
    """A connection that has asked for a flood and takes nothing of it."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    plain.settimeout(20)
    plain.connect(("127.0.0.1", service.installation.port))
    trusting = ssl.create_default_context(cafile=service.installation.data / "tls" / "ca.pem")
    return asked(service, path, connection=trusting.wrap_socket(plain, server_hostname="localhost"))


@contextlib.contextmanager
def left_unread(installation: Installation, *path: str) -> Iterator[tuple[Service, int]]:
    """A server with twenty readers that read nothing, and its memory before they came."""
    with (
        installation.serving(program=(*PROGRAM, "2", "0.1")) as service,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(5):  # what a few connections need once is not counted
            service.ask("/healthz")
        before = service.memory()
        for _ in range(20):
            stack.enter_context(unread(service, *path))
        yield service, before


def test_a_reader_that_reads_nothing_holds_little_and_is_ended(
    first_installation: Installation, tmp_path: Path
) -> None:
    with left_unread(unlimited(first_installation, tmp_path)) as (service, before):
        until(lambda: service.said.count("ended") == 20, "the end of those that read nothing")
        sent = [int(line.split()[1]) for line in service.said.splitlines() if "flooded" in line]
        assert len(sent) == 20
        assert max(sent) <= 512 * KIB, "no more is taken from a stream than its reader takes"
        assert service.memory() - before < 20 * 512 * KIB
        assert "a stream broke off" not in service.text


def test_of_a_large_chunk_a_reader_that_reads_nothing_holds_a_piece(
    first_installation: Installation, tmp_path: Path
) -> None:
    with left_unread(unlimited(first_installation, tmp_path), "/lumps") as (service, before):
        seen = []

        def ended() -> bool:
            seen.append(service.memory())
            return service.said.count("ended") == 20

        until(ended, "the end of those that read nothing")
        assert max(seen) - before < 20 * 512 * KIB


def test_a_reader_that_reads_gets_more_at_once(service: Service) -> None:
    with told(service, "flooded", "ended"), unread(service) as connection:
        response = http.client.HTTPResponse(connection)
        response.begin()
        left = 8 * KIB * KIB
        while left:
            left -= len(response.read(min(left, 64 * KIB)))
        response.close()


def test_a_thousand_quiet_streams_are_cheap(
    service: Service, record_property: Callable[[str, object], None]
) -> None:
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, max(limit, 4096)), most))
    context = ssl.create_default_context(cafile=service.installation.data / "tls" / "ca.pem")
    with told(service, "ended", times=STREAMS), contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (limit, most))
        for _ in range(20):  # what a few connections need once is not counted
            service.ask("/healthz")
        before = service.memory()
        for _ in range(STREAMS):
            connection = stack.enter_context(service.connect(context=context))
            asked(service, "/quiet", connection=connection)
            received = b""
            while not received.endswith(b"id: 0\n\n\r\n"):
                received += connection.recv(4096)
        each = (service.memory() - before) / STREAMS
        record_property("memory of a quiet stream, KiB", round(each / KIB, 1))
        assert each < STREAM_BYTES
        assert service.ask("/v1/users/me", key=service.installation.key).status == 200
