"""HTTP/2 beside HTTP/1.1, with the limits that HTTP/1.1 has (RFC 9113)."""

import contextlib
import itertools
import signal
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from busy_machine import within
from multiplexed import CONTINUATION, DATA, HEADERS, PING, RESET, SETTINGS, Multiplexed, frame
from operating import Installation, Service, copy_of, until

KIB = 1024
READ, LOOK, IDLE = "2", "0.1", "3"
PROGRAM = (
    *(sys.executable, str(Path(__file__).with_name("streaming.py"))),
    *(READ, LOOK, IDLE),
)
PROTOCOL_ERROR, REFUSED_STREAM, ENHANCE_YOUR_CALM = 1, 7, 11
STREAMS = 32
"""How many requests a connection may have at once."""


@pytest.fixture(scope="module")
def service(
    first_installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One server with little patience, whose first admin is never refused."""
    copy = copy_of(first_installation, tmp_path_factory.mktemp("http2"))
    plan = "[plans.enterprise]\nper_minute = 100000\nper_day = 100000\n"
    (copy.directory / "portico.toml").write_text(plan)
    with copy.serving(program=PROGRAM) as running:
        yield running
        assert "panicked" not in running.text


@pytest.fixture
def connection(service: Service) -> Iterator[Multiplexed]:
    with Multiplexed(service) as made:
        yield made


@contextlib.contextmanager
def told(service: Service, *words: str, times: int = 1) -> Iterator[None]:
    """The server says these words so many times more, in what is done inside or soon after."""
    after = [service.said.count(word) + times for word in words]
    yield
    until(lambda: [service.said.count(word) for word in words] == after, str(words))


# Messages


def test_requests_at_once_get_the_answers_of_http_1_1(
    service: Service, connection: Multiplexed
) -> None:
    paths = ("/v1/users/me", "/v1/products?limit=2", "/v1/nowhere", "/healthz")
    answers = connection.answers([connection.begin(path) for path in paths])
    varying = {"date", "x-request-id", "x-ratelimit-remaining", "x-ratelimit-reset", ":status"}
    for path, answer in zip(paths, answers, strict=True):
        with service.connect() as older:
            other = service.ask(path, key=service.installation.key, connection=older)
        assert (answer.status, answer.body) == (other.status, other.body)
        assert answer.headers.keys() - varying == other.headers.keys() - varying
        for name in answer.headers.keys() - varying:
            assert answer.headers[name] == other.headers[name]


@pytest.mark.parametrize("path", ["/v1/users/me", "/v1/nowhere", "/v1/quiet"])
def test_head_gets_the_head_alone(service: Service, connection: Multiplexed, path: str) -> None:
    is_stream = path == "/v1/quiet"
    with told(service, *["ended"] * is_stream):
        answer = connection.ask(path, method="HEAD")
    assert answer.ended
    assert answer.body == b""
    if not is_stream:
        assert answer.headers["content-length"] == str(len(connection.ask(path).body))


def test_whoever_knows_http_1_1_alone_is_served_by_it(service: Service) -> None:
    context = service.trusting()
    context.set_alpn_protocols(["http/1.1"])
    with service.connect(context=context) as older:
        assert older.selected_alpn_protocol() == "http/1.1"
        assert service.ask("/healthz", connection=older).status == 200


@pytest.mark.parametrize(
    "name", ["connection", "keep-alive", "transfer-encoding", "upgrade", "proxy-connection"]
)
def test_fields_of_the_connection_are_malformed(connection: Multiplexed, name: str) -> None:
    assert connection.ask("/healthz", (name, "x")).reset == PROTOCOL_ERROR
    assert connection.ask("/healthz").status == 200


@pytest.mark.parametrize("path", [None, "", "healthz", "https://localhost/healthz", "/a b"])
def test_a_path_that_is_none_is_malformed(connection: Multiplexed, path: str | None) -> None:
    assert connection.ask(path).reset == PROTOCOL_ERROR


@pytest.mark.parametrize("extra", [(":path", "/v1/users"), (":method", "POST"), (":status", "200")])
def test_pseudo_fields_come_once_and_first(connection: Multiplexed, extra: tuple[str, str]) -> None:
    assert connection.ask("/healthz", extra).reset == PROTOCOL_ERROR


def test_a_body_of_another_length_than_was_told_is_malformed(connection: Multiplexed) -> None:
    assert connection.ask("/healthz", ("content-length", "1")).reset == PROTOCOL_ERROR


def test_two_credentials_are_refused(connection: Multiplexed) -> None:
    answer = connection.ask("/v1/users/me", ("authorization", "Bearer x"))
    assert answer.status == 401
    assert b"once" in answer.body


def test_a_body_beyond_the_bound_is_refused_whole(connection: Multiplexed) -> None:
    typed = ("content-type", "application/json")
    length = ("content-length", str(10 * KIB * KIB))
    number = connection.begin("/v1/products", typed, length, method="POST", whole=False)
    connection.socket.sendall(frame(DATA, 0, number, b"[" * 16 * KIB))
    assert connection.answers([number])[0].status == 413


# What one connection may ask for


def test_a_connection_has_so_many_requests_at_once(service: Service) -> None:
    with Multiplexed(service, window=0) as connection:
        assert connection.most_streams == STREAMS
        numbers = [connection.begin("/healthz") for _ in range(STREAMS + 1)]
        assert connection.answers(numbers[-1:])[0].reset == REFUSED_STREAM


def test_a_head_has_64_kib(connection: Multiplexed) -> None:
    small = [(f"x-{number}", "a" * 4000) for number in range(12)]
    assert connection.ask("/healthz", *small).status == 200
    large = [(f"y-{number}", "a" * 4000) for number in range(20)]
    assert connection.ask("/healthz", *large).status == 431


def ends(connection: Multiplexed, parts: Iterable[bytes]) -> int:
    """The error code with which the server ends a connection that is sent these parts."""
    with contextlib.suppress(OSError):  # it does not read on
        for part in parts:
            connection.socket.sendall(part)
    return connection.end()


def test_a_head_of_references_is_not_unfolded(connection: Multiplexed) -> None:
    bomb = connection.fields("/healthz", ("x-big", "a" * 4000)) + bytes([0x80 | 62]) * 12_000
    assert ends(connection, [frame(HEADERS, 5, 1, bomb)]) == ENHANCE_YOUR_CALM


@pytest.mark.parametrize("payload", [b"", b"\x00\x01a\x7f\x81\x3e" + b"b" * 8000])
def test_a_head_has_an_end(connection: Multiplexed, payload: bytes) -> None:
    begun = frame(HEADERS, 1, 1, connection.fields("/healthz"))
    flood = (frame(CONTINUATION, 0, 1, payload) for _ in range(10_000))
    assert ends(connection, itertools.chain([begun], flood))


def test_requests_that_are_taken_back_at_once_end_the_connection(connection: Multiplexed) -> None:
    """CVE-2023-44487."""
    connection.ask("/healthz")
    again = connection.fields("/healthz")
    taken_back = b"\0\0\0\x08"
    assert ends(
        connection,
        (
            frame(HEADERS, 5, stream, again) + frame(RESET, 0, stream, taken_back)
            for stream in range(3, 20_001, 2)
        ),
    )


@pytest.mark.parametrize("kind", [SETTINGS, PING])
def test_whoever_reads_no_answer_to_settings_or_pings_is_not_read_either(
    service: Service, kind: int
) -> None:
    before = service.memory()
    with Multiplexed(service) as connection:
        connection.socket.settimeout(1)
        flood = frame(kind, 0, 0, b"12345678" if kind == PING else b"") * 1000
        sent = 0
        with contextlib.suppress(OSError):
            while sent < 20_000:
                connection.socket.sendall(flood)
                sent += 1
    assert sent < 20_000
    assert service.memory() - before < 4096 * KIB


# What waits for a client


def test_whoever_takes_none_of_what_was_answered_is_ended(service: Service) -> None:
    with Multiplexed(service, window=0) as connection:
        for _ in range(4):
            connection.begin("/v1/openapi.json")
        with within(10):
            connection.end()
        assert service.ask("/healthz").status == 200


def test_whoever_takes_it_slowly_gets_it_whole(service: Service) -> None:
    with Multiplexed(service, window=16 * KIB) as connection:
        answers = connection.answers([connection.begin("/v1/openapi.json") for _ in range(8)])
        assert {answer.status for answer in answers} == {200}
        assert len({answer.body for answer in answers}) == 1


def test_no_more_is_taken_of_a_stream_than_its_reader_takes(service: Service) -> None:
    with told(service, "flooded", "ended"), Multiplexed(service, window=0) as connection:
        number = connection.begin("/v1/flood")
        while not connection.exchanges[number].status:
            connection.hear()
        time.sleep(1)  # in which nothing more may be taken
    sent = [int(line.split()[1]) for line in service.said.splitlines() if "flooded" in line]
    assert sent[-1] <= 260 * KIB


def test_a_stream_that_is_read_goes_on(service: Service) -> None:
    with told(service, "flooded", "ended"), Multiplexed(service) as connection:
        flood = connection.exchanges[connection.begin("/v1/flood")]
        while len(flood.body) < 2048 * KIB:
            assert connection.hear()


def test_streams_share_a_connection_and_end_with_it(service: Service) -> None:
    with told(service, "closed", "ended", times=3), Multiplexed(service) as connection:
        numbers = [connection.begin("/v1/quiet") for _ in range(3)]
        streams = [connection.exchanges[number] for number in numbers]
        while not all(stream.body for stream in streams):
            connection.hear()
        assert connection.ask("/healthz").status == 200
        assert {stream.body for stream in streams} == {b":\nid: 0\n\n"}


def test_a_whole_that_was_cut_is_seen(service: Service, connection: Multiplexed) -> None:
    with told(service, "ended"):
        cut = connection.exchanges[connection.begin("/v1/cut")]
        while not cut.body:
            connection.hear()
        assert service.ask("/v1/ring", key=service.installation.key).status == 204
        connection.end()
    assert not cut.ended


def test_a_whole_that_its_client_takes_back_ends_nothing_else(
    service: Service, connection: Multiplexed
) -> None:
    number = connection.begin("/v1/part")
    while not connection.exchanges[number].body:
        connection.hear()
    with told(service, "ended"):
        connection.tell(frame(RESET, 0, number, b"\0\0\0\x08"))
        assert connection.ask("/healthz").status == 200
        assert service.ask("/v1/ring", key=service.installation.key).status == 204
    assert connection.ask("/healthz").status == 200


# In time


def test_a_connection_ends_that_carries_nothing(service: Service) -> None:
    with service.connect() as mute, Multiplexed(service) as idle, Multiplexed(service) as busy:
        began = time.monotonic()
        idle.ask("/healthz")
        mute.settimeout(0.1)
        while not ended(mute) and time.monotonic() - began < 20:
            assert busy.ask("/healthz").status == 200
        assert time.monotonic() - began > float(IDLE) - 0.5
        assert idle.end() == -1
        assert busy.ask("/healthz").status == 200


def ended(connection: socket.socket) -> bool:
    """Whether the server has closed a connection on which it said nothing."""
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_server_that_stops_ends_connections_in_order(
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
