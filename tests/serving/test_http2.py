"""HTTP/2 beside HTTP/1.1, with the limits that HTTP/1.1 has (RFC 9113)."""

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from busy_machine import within
from multiplexed import CONTINUATION, HEADERS, PING, RESET, Multiplexed, frame
from operating import Installation, Service, copy_of

KIB = 1024
READ, LOOK, IDLE = "2", "0.1", "3"
SCRIPT = str(Path(__file__).with_name("streaming.py"))
PROGRAM = (sys.executable, SCRIPT, READ, LOOK, IDLE)
PROTOCOL_ERROR, REFUSED_STREAM, CANCEL, ENHANCE_YOUR_CALM = 1, 7, b"\0\0\0\x08", 11
STREAMS = 32
"""How many requests a connection may have at once."""


@pytest.fixture(scope="module")
def service(
    first_installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One server with little timeouts."""
    copy = copy_of(first_installation, tmp_path_factory.mktemp("http2")).unlimited()
    with copy.serving(program=PROGRAM) as running:
        yield running
        assert "panicked" not in running.text


@pytest.fixture
def connection(service: Service) -> Iterator[Multiplexed]:
    with Multiplexed(service) as made:
        yield made


# Messages


def test_requests_at_once_get_the_answers_of_http_1_1(
    service: Service, connection: Multiplexed
) -> None:
    paths = ("/v1/users/me", "/v1/products?limit=2", "/v1/nowhere", "/healthz")
    answers = connection.answers([connection.begin(path) for path in paths])
    varying = {"date", "x-request-id", "x-ratelimit-remaining", "x-ratelimit-reset", ":status"}
    for path, answer in zip(paths, answers, strict=True):
        other = service.ask(path, key=service.installation.key)
        assert (answer.status, answer.body) == (other.status, other.body)
        headers = {name: answer.headers[name] for name in answer.headers.keys() - varying}
        assert headers == {name: other.headers[name] for name in other.headers.keys() - varying}


@pytest.mark.parametrize("path", ["/v1/users/me", "/v1/quiet"])
def test_head_gets_the_head_alone(service: Service, connection: Multiplexed, path: str) -> None:
    with service.saying(*["ended"] * path.endswith("quiet")):
        answer = connection.ask(path, method="HEAD")
    assert (answer.status, answer.ended, answer.body) == (200, True, b"")


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/healthz", ("transfer-encoding", "x")),
        *((path, ("x", "y")) for path in (None, "", "/a b")),
        ("/healthz", (":path", "/v1/users")),
        ("/healthz", (":status", "200")),
        ("/healthz", ("content-length", "1")),
    ],
)
def test_malformed_request_is_reset_and_the_connection_serves_on(
    connection: Multiplexed, path: str | None, field: tuple[str, str]
) -> None:
    assert connection.ask(path, field).reset == PROTOCOL_ERROR
    assert connection.ask("/healthz").status == 200


# What one connection may ask for


def test_connection_has_so_many_requests_at_once(service: Service) -> None:
    with Multiplexed(service, window=0) as connection:
        assert connection.most_streams == STREAMS
        numbers = [connection.begin("/healthz") for _ in range(STREAMS + 1)]
        assert connection.answers(numbers[-1:])[0].reset == REFUSED_STREAM


@pytest.mark.parametrize(("fields", "status"), [(12, 200), (20, 431)])
def test_head_has_64_kib(connection: Multiplexed, fields: int, status: int) -> None:
    added = [(f"x-{number}", "a" * 4000) for number in range(fields)]
    assert connection.ask("/healthz", *added).status == status


def bomb(connection: Multiplexed) -> Iterator[bytes]:
    """A head that is long once its references are unfolded."""
    big = connection.fields("/healthz", ("x-big", "a" * 4000))
    yield frame(HEADERS, 5, 1, big + bytes([0x80 | 62]) * 12_000)


def endless_head(connection: Multiplexed) -> Iterator[bytes]:
    yield frame(HEADERS, 1, 1, connection.fields("/healthz"))
    for _ in range(10_000):
        yield frame(CONTINUATION, 0, 1, b"\x00\x01a\x7f\x81\x3e" + b"b" * 8000)


def taken_back(connection: Multiplexed) -> Iterator[bytes]:
    """Requests that are cancelled at once (CVE-2023-44487)."""
    connection.ask("/healthz")
    again = connection.fields("/healthz")
    for stream in range(3, 20_001, 2):
        yield frame(HEADERS, 5, stream, again) + frame(RESET, 0, stream, CANCEL)


@pytest.mark.parametrize(
    ("flood", "code"),
    [
        (bomb, ENHANCE_YOUR_CALM),
        (endless_head, PROTOCOL_ERROR),
        (taken_back, ENHANCE_YOUR_CALM),
    ],
)
def test_flood_ends_the_connection(
    connection: Multiplexed, flood: Callable[[Multiplexed], Iterator[bytes]], code: int
) -> None:
    parts = flood(connection)
    with contextlib.suppress(OSError):  # it does not read on
        for part in parts:
            connection.socket.sendall(part)
    assert connection.end() == code


def test_client_that_reads_no_answer_to_pings_is_not_read_either(service: Service) -> None:
    before = service.memory()
    with Multiplexed(service) as connection:
        connection.socket.settimeout(1)
        flood = frame(PING, 0, 0, b"12345678") * 1_000_000
        with pytest.raises(OSError):  # noqa: PT011 - it takes no more, or closes
            connection.socket.sendall(flood)
    assert service.memory() - before < 4096 * KIB


# What waits for a client


def test_client_that_takes_nothing_of_its_answers_is_ended(service: Service) -> None:
    with Multiplexed(service, window=0) as connection:
        for _ in range(4):
            connection.begin("/v1/openapi.json")
        with within(10):
            connection.end()
        assert service.ask("/healthz").status == 200


def test_no_more_is_taken_of_a_stream_than_its_reader_takes(service: Service) -> None:
    with (
        service.saying("flooded", "ended"),
        Multiplexed(service, window=0) as connection,
        Multiplexed(service) as other,
    ):
        number = connection.begin("/v1/flood")
        while not connection.exchanges[number].status:
            connection.hear()
        for _ in range(50):  # in which nothing more may be taken
            assert other.ask("/healthz").status == 200
    sent = [int(line.split()[1]) for line in service.said.splitlines() if "flooded" in line]
    assert sent[-1] <= 260 * KIB


def test_streams_share_a_connection_and_end_with_it(service: Service) -> None:
    with service.saying("closed", "ended", times=3), Multiplexed(service) as connection:
        numbers = [connection.begin("/v1/quiet") for _ in range(3)]
        streams = [connection.exchanges[number] for number in numbers]
        while not all(stream.body for stream in streams):
            connection.hear()
        assert connection.ask("/healthz").status == 200
        assert {stream.body for stream in streams} == {b":\nid: 0\n\n"}


@pytest.mark.parametrize("path", ["/v1/cut", "/v1/part"])
def test_whole_that_is_cut_or_taken_back_is_never_taken_for_whole(
    service: Service, connection: Multiplexed, path: str
) -> None:
    with service.saying("ended"):
        number = connection.begin(path)
        while not connection.exchanges[number].body:
            connection.hear()
        if path == "/v1/part":
            connection.tell(frame(RESET, 0, number, CANCEL))
            assert connection.ask("/healthz").status == 200
        assert service.ask("/v1/ring", key=service.installation.key).status == 204
    if path == "/v1/cut":
        connection.end()
    else:
        assert connection.ask("/healthz").status == 200, "nothing else has ended"
    assert not connection.exchanges[number].ended


# In time


def test_connection_that_carries_nothing_ends(service: Service) -> None:
    with service.connect() as mute, Multiplexed(service) as idle, Multiplexed(service) as busy:
        began = time.monotonic()
        idle.ask("/healthz")
        mute.settimeout(0.1)
        closed = None
        while closed is None and time.monotonic() - began < 20:
            assert busy.ask("/healthz").status == 200
            with contextlib.suppress(TimeoutError):
                closed = mute.recv(1)
        assert closed == b""
        assert time.monotonic() - began > float(IDLE) - 0.5
        assert idle.end() == -1
        assert busy.ask("/healthz").status == 200


def test_server_that_stops_ends_connections_in_order(
    first_installation: Installation, tmp_path: Path
) -> None:
    copy = copy_of(first_installation, tmp_path)
    with copy.serving(program=PROGRAM) as service, Multiplexed(service) as connection:
        stream = connection.exchanges[connection.begin("/v1/quiet")]
        while not stream.body:
            connection.hear()
        service.process.send_signal(signal.SIGTERM)
        assert connection.end() == 0
        assert service.process.wait(20) == 0
    assert "cut off" not in service.text
    assert service.said.count("closed") == service.said.count("ended") == 1
