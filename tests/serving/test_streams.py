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

pytestmark = pytest.mark.xdist_group("streams")  # they share their server

PROGRAM = (sys.executable, str(Path(__file__).with_name("streaming.py")))
KIB = 1024
STREAMS, STREAM_BYTES = 200, 40 * KIB
START = b":\nid: 0\n\n"


@pytest.fixture
def unlimited(installation: Installation) -> Installation:
    """An installation whose first admin may open as many streams as a test likes."""
    return installation.unlimited().having(connections_per_address=str(2 * STREAMS))


@pytest.fixture(scope="module")
def service(
    first_installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One server with streams, patient enough to watch over none of these tests."""
    copy = copy_of(first_installation, tmp_path_factory.mktemp("streams")).unlimited()
    many = copy.having(connections_per_address=str(2 * STREAMS))
    with many.serving(program=(*PROGRAM, "60", "1")) as running:
        yield running
        assert "panicked" not in running.text
        assert "never retrieved" not in running.text


def ask_for(connection: ssl.SSLSocket, service: Service, path: str, method: str = "GET") -> None:
    head = (
        f"{method} /v1{path} HTTP/1.1\r\nhost: localhost\r\n"
        f"authorization: Bearer {service.installation.key}\r\n\r\n"
    )
    connection.sendall(head.encode())


@contextlib.contextmanager
def opened(
    service: Service, path: str, method: str = "GET"
) -> Iterator[tuple[ssl.SSLSocket, http.client.HTTPResponse]]:
    """A stream whose head was read, and its connection."""
    with service.connect() as connection:
        ask_for(connection, service, path, method)
        with contextlib.closing(http.client.HTTPResponse(connection, method=method)) as response:
            response.begin()
            assert response.status == 200
            yield connection, response


def ring(service: Service) -> None:
    assert service.ask("/v1/ring", key=service.installation.key).status == 204


def test_stream_is_sent_as_it_comes_and_its_connection_serves_on(service: Service) -> None:
    with service.saying("closed", "ended"), opened(service, "/quiet") as (connection, response):
        headers = {name.lower(): value for name, value in response.getheaders()}
        assert response.readline() == b":\n"
        ring(service)
        assert response.read() == b"id: 0\n\nid: 1\nevent: rung\ndata: {}\n\n"
        assert service.ask("/healthz", connection=connection).status == 200
    expected = {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
        "transfer-encoding": "chunked",
        "x-content-type-options": "nosniff",
    }
    assert headers.items() >= expected.items()
    assert headers.keys() >= {"strict-transport-security", "x-request-id"}
    assert int(headers["x-ratelimit-remaining"]) < int(headers["x-ratelimit-limit"])
    assert "etag" not in headers


def test_head_of_a_stream_begins_none(service: Service) -> None:
    closed = service.said.count("closed")
    with service.saying("ended"), opened(service, "/quiet", "HEAD") as (connection, response):
        assert response.getheader("content-type") == "text/event-stream"
        assert response.getheader("content-length") is None
        response.close()
        assert service.ask("/healthz", connection=connection).status == 200
    assert service.said.count("closed") == closed


def test_stream_is_one_request_in_the_log_and_in_metrics(service: Service) -> None:
    def counted() -> float:
        name = "portico_http_request_duration_seconds_count"
        labels = '{environment="live",method="GET",route="/v1/quiet",status="200"}'
        lines = service.ask("/metrics").text.splitlines()
        return sum(float(line.split()[1]) for line in lines if line.startswith(name + labels))

    before = counted()
    with service.saying("ended"), opened(service, "/quiet") as (_, response):
        wanted = response.getheader("x-request-id", "")
        until(lambda: wanted in service.text, "its log line")
        assert counted() == before + 1
    lines = [line["path"] for line in service.lines if line.get("request_id") == wanted]
    assert (lines, counted()) == (["/v1/quiet"], before + 1)


@pytest.mark.parametrize("how", ["close", "reset", "shut"])
def test_stream_ends_when_its_client_goes_away(service: Service, how: str) -> None:
    with (
        opened(service, "/quiet") as (connection, response),
        service.saying("closed", "ended"),
    ):
        assert response.readline() == b":\n"
        if how == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if how == "shut":
            connection.shutdown(socket.SHUT_WR)
        else:
            response.close()
            connection.close()


def test_stream_that_fails_ends_and_is_told_in_the_log(service: Service) -> None:
    with service.saying("ended"), opened(service, "/broken") as (_, response):
        assert response.read() == START
    failed = until(
        lambda: [line for line in service.lines if line["event"] == "a stream broke off"],
        "the log's line",
    )
    assert [line["request_id"] for line in failed] == [response.getheader("x-request-id")]


@pytest.mark.parametrize("path", ["/part", "/cut"])
def test_whole_that_fails_half_way_is_seen_to_be_none(service: Service, path: str) -> None:
    with service.saying("ended"), opened(service, path) as (connection, response):
        assert response.read1(6) == b"a part"
        ring(service)
        if path == "/cut":
            with pytest.raises(http.client.IncompleteRead):
                response.read()
        else:
            assert response.read() == b" and the rest"
            assert service.ask("/healthz", connection=connection).status == 200


def test_streams_end_in_order_and_at_once_when_the_server_stops(unlimited: Installation) -> None:
    with (
        unlimited.serving(program=(*PROGRAM, "60", "1")) as service,
        contextlib.ExitStack() as stack,
    ):
        streams = [stack.enter_context(opened(service, "/quiet")) for _ in range(20)]
        _, part = stack.enter_context(opened(service, "/part"))
        code, seconds = service.stop(signal.SIGTERM)
        assert (code, seconds < 1) == (0, True)
        for connection, response in streams:
            assert response.read() == START, "the last chunk says that it was the last"
            assert connection.recv(1) == b"", "and the connection is closed in order"
        with pytest.raises(http.client.IncompleteRead):
            part.read()
    assert (service.said.count("closed"), service.said.count("ended")) == (20, 21)
    assert "cut off" not in service.text


def unread(service: Service, path: str) -> ssl.SSLSocket:
    """A connection that has asked for a stream and takes nothing of it."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    plain.settimeout(20)
    plain.connect(("127.0.0.1", service.installation.port))
    connection = service.trusting().wrap_socket(plain, server_hostname="localhost")
    ask_for(connection, service, path)
    return connection


def test_readers_that_read_nothing_hold_little_and_are_ended(unlimited: Installation) -> None:
    with (
        unlimited.serving(program=(*PROGRAM, "2", "0.1")) as service,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(5):  # what a few connections need once is not counted
            service.ask("/healthz")
        before, most = service.memory(), 0
        for number in range(20):
            stack.enter_context(unread(service, ("/flood", "/lumps")[number % 2]))

        def ended() -> bool:
            nonlocal most
            most = max(most, service.memory())
            return service.said.count("ended") == 20

        until(ended, "the end of those that read nothing")
        assert most - before < 20 * 512 * KIB
        sent = [int(line.split()[1]) for line in service.said.splitlines() if "flooded" in line]
        assert max(sent, default=0) <= 512 * KIB
        assert "a stream broke off" not in service.text


def test_quiet_streams_are_cheap(
    service: Service, record_property: Callable[[str, object], None]
) -> None:
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, max(limit, 4096)), most))
    context = service.trusting()
    with service.saying("ended", times=STREAMS), contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (limit, most))
        for _ in range(20):  # what a few connections need once is not counted
            service.ask("/healthz")
        before = service.memory()
        for _ in range(STREAMS):
            connection = stack.enter_context(service.connect(context=context))
            ask_for(connection, service, "/quiet")
            received = b""
            while not received.endswith(b"id: 0\n\n\r\n"):
                received += connection.recv(4096)
        each = (service.memory() - before) / STREAMS
        record_property("memory of a quiet stream, KiB", round(each / KIB, 1))
        assert each < STREAM_BYTES
        assert service.ask("/v1/users/me", key=service.installation.key).status == 200
