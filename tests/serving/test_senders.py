"""Slow, huge and broken senders: the right status, bounded memory, and nobody else waits."""

import contextlib
import resource
import ssl
import threading
import time
import warnings
from collections.abc import Iterator

import pytest

from multiplexed import DATA, END_STREAM, RESET, Multiplexed, frame
from operating import Installation, Service, copy_of, lateness, read_answer, until

MIB = 2**20
IDLE_CONNECTIONS = 2000
IDLE_BYTES = 60 * 1024


@pytest.fixture(scope="module")
def service(
    first_installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One server for all of these senders."""
    copy = copy_of(first_installation, tmp_path_factory.mktemp("senders"))
    # All of these senders come from one address.
    with copy.having(connections_per_address=str(2 * IDLE_CONNECTIONS)).serving() as running:
        yield running
        assert "Traceback" not in running.text
        assert "panicked" not in running.text


@pytest.fixture(autouse=True)
def others(service: Service) -> Iterator[None]:
    """Somebody else is served all the while, and nobody's data is changed."""
    key = service.installation.key
    over = threading.Event()
    slowest = 0.0

    def ask() -> None:
        nonlocal slowest
        with service.connect() as connection:
            ended = False
            while not ended:
                started = time.monotonic()
                assert service.ask("/healthz", connection=connection).status == 200
                slowest = max(slowest, time.monotonic() - started)
                ended = over.wait(0.05)

    thread = threading.Thread(target=ask)
    with lateness() as late:
        thread.start()
        yield
        over.set()
        thread.join()
    assert 0 < slowest < 5 + late.seconds
    listed = service.ask("/v1/products?status=draft", key=key)
    assert listed.json["pagination"]["total_items"] == 0


def head(service: Service, *lines: str, method: str = "POST", path: str = "/v1/products") -> bytes:
    """A request's head with the first admin's key and these lines."""
    given = (
        f"{method} {path} HTTP/1.1",
        "host: localhost",
        f"authorization: Bearer {service.installation.key}",
        *lines,
    )
    return "".join(f"{line}\r\n" for line in (*given, "")).encode()


def sent(service: Service, *parts: bytes) -> tuple[int, str]:
    """The status and code that answer these bytes, some of which may find a closed door."""
    with service.connect() as connection:
        with contextlib.suppress(OSError):
            for part in parts:
                connection.sendall(part)
        return read_answer(connection).error


JSON = "content-type: application/json"
CANCEL = (8).to_bytes(4, "big")
"""The error code of a request that its client wants no more (RFC 9113 §7)."""
TYPED = ("content-type", "application/json")


def test_a_body_declared_too_large_is_refused_before_it_comes(service: Service) -> None:
    begun = head(service, JSON, f"content-length: {10 * MIB}")
    assert sent(service, begun) == (413, "PAYLOAD_TOO_LARGE")


def test_a_sender_of_10_mib_is_told_and_takes_no_memory(service: Service) -> None:
    before = service.memory()
    begun = head(service, JSON, f"content-length: {10 * MIB}")
    assert sent(service, begun, *[b" " * MIB] * 10) == (413, "PAYLOAD_TOO_LARGE")
    assert service.memory() - before < 8 * MIB


@pytest.mark.parametrize(
    ("path", "credential", "error"),
    [
        ("/v1/products", b"", (413, "PAYLOAD_TOO_LARGE")),
        ("/v1/nothing", b"", (404, "RESOURCE_NOT_FOUND")),
        ("/v1/products", b"no ", (401, "AUTHENTICATION_REQUIRED")),
    ],
)
def test_who_sends_a_whole_body_before_reading_gets_the_answer(
    service: Service, path: str, credential: bytes, error: tuple[int, str]
) -> None:
    size = 8 * MIB
    begun = head(service, JSON, f"content-length: {size}", path=path)
    begun = begun.replace(b"Bearer ", b"Bearer " + credential)
    with service.connect() as connection:
        connection.sendall(begun)
        for _ in range(8):
            connection.sendall(b" " * MIB)
        assert read_answer(connection).error == error
        connection.sendall(head(service, method="GET", path="/v1/users/me"))
        assert read_answer(connection).status == 200, "the connection holds"


def test_chunks_without_an_end_are_refused_at_the_limit(service: Service) -> None:
    before = service.memory()
    begun = head(service, JSON, "transfer-encoding: chunked")
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    assert sent(service, begun, *[chunk] * 320) == (413, "PAYLOAD_TOO_LARGE")
    assert service.memory() - before < 8 * MIB


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_json_nested_without_end_is_unreadable(service: Service, opening: bytes) -> None:
    body = opening * (MIB // len(opening) - 1)
    begun = head(service, JSON, f"content-length: {len(body)}")
    assert sent(service, begun, body) == (400, "VALIDATION_ERROR")


def test_a_head_of_60_kib_is_read(service: Service) -> None:
    with service.connect() as connection:
        lines = [f"x-{number}: {'y' * 990}" for number in range(60)]
        connection.sendall(head(service, *lines, method="GET", path="/v1/users/me"))
        assert read_answer(connection).status == 200


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + b"x: y\r\n" * 150 + b"\r\n", 431),
        (b"GET /healthz HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 4 * MIB, 431),
        (b"GET /" + b"y" * 80_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 431),
        (b"GARBAGE\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n", 400),
    ],
)
def test_a_head_that_cannot_be_read_is_refused_by_the_listener_itself(
    service: Service, request_: bytes, status: int
) -> None:
    with service.connect() as connection:
        with contextlib.suppress(OSError):
            connection.sendall(request_)
        answer = read_answer(connection)
    assert (answer.status, answer.headers["connection"]) == (status, "close")


def test_header_values_that_are_no_text_are_no_fault_of_the_service(service: Service) -> None:
    request = b"GET /v1/users/me HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer \xff\r\n\r\n"
    assert sent(service, request) == (401, "AUTHENTICATION_REQUIRED")


def test_pipelined_requests_are_answered_in_order(service: Service) -> None:
    paths = ["/v1/users/me", "/v1/users/999", "/v1/products"]
    with service.connect() as connection:
        connection.sendall(b"".join(head(service, method="GET", path=path) for path in paths))
        stream = connection.makefile("rb")
        statuses = []
        for _ in paths:
            statuses.append(int(stream.readline().split()[1]))
            length = 0
            while (line := stream.readline().lower()) != b"\r\n":
                if line.startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            stream.read(length)
        stream.close()
    assert statuses == [200, 404, 200]


def test_two_lengths_are_not_two_requests(service: Service) -> None:
    smuggled = b"0\r\n\r\n" + head(service, method="DELETE", path="/v1/users/1")
    begun = head(service, JSON, f"content-length: {len(smuggled)}", "transfer-encoding: chunked")
    with service.connect() as connection:
        connection.sendall(begun + smuggled)
        assert read_answer(connection).status == 400
        with contextlib.suppress(OSError):
            assert connection.recv(65536) == b"", "nothing behind the first request is read"


CHUNKED = "transfer-encoding: chunked"
SOMEBODY = b'{"name": "Half", "email": "half@example.com", "password": "Analytical1"}'
PRICED = b'{"name": "Half", "category": "c", "price": -1}'


def chunk(part: bytes) -> bytes:
    return f"{len(part):x}\r\n".encode() + part + b"\r\n"


@contextlib.contextmanager
def refused_unread(service: Service) -> Iterator[None]:
    """The user that is sent inside, by who is gone before the answer, is refused: so the log has
    it."""

    def posted() -> list[int]:
        lines = [one for one in service.lines if one["event"] == "request"]
        return [one["status"] for one in lines if one["path"] == "/v1/users"]

    before = len(posted())
    yield
    until(lambda: posted()[before:], "its line")
    assert posted()[before:] == [400]


@pytest.mark.parametrize(
    ("framing", "come"),
    [
        (f"content-length: {len(SOMEBODY) + 1}", SOMEBODY),
        (f"content-length: {len(SOMEBODY) + 1}\r\ntrailer: x-sum", SOMEBODY),
        (CHUNKED, chunk(SOMEBODY)),
        (CHUNKED, chunk(SOMEBODY) + b"5\r\nab"),
        (CHUNKED, chunk(SOMEBODY) + b"no length\r\n"),
    ],
)
def test_a_body_that_breaks_off_is_not_taken_for_whole(
    service: Service, framing: str, come: bytes
) -> None:
    with refused_unread(service), service.connect() as connection:
        connection.sendall(head(service, JSON, framing, path="/v1/users") + come)


@pytest.mark.parametrize("last", [frame(RESET, 0, 1, CANCEL), b""], ids=["cancelled", "gone"])
def test_a_body_that_breaks_off_over_http_2_is_over(service: Service, last: bytes) -> None:
    with refused_unread(service), Multiplexed(service) as connection:
        number = connection.begin("/v1/users", TYPED, method="POST", whole=False)
        connection.tell(frame(DATA, 0, number, SOMEBODY))
        assert connection.ask("/healthz").status == 200, "so the other has begun"
        connection.tell(last)


@pytest.mark.parametrize(
    "frames", [[(END_STREAM, PRICED)], [(0, PRICED), (END_STREAM, b"")], [(0, b""), (1, PRICED)]]
)
def test_a_body_over_http_2_is_whole_with_its_last_frame(
    service: Service, frames: list[tuple[int, bytes]]
) -> None:
    with Multiplexed(service) as connection:
        number = connection.begin("/v1/products", TYPED, method="POST", whole=False)
        for flags, part in frames:
            connection.tell(frame(DATA, flags, number, part))
        assert connection.answers([number])[0].status == 422


@pytest.mark.parametrize(("trailers", "status"), [(b"", 422), (b"x-sum: 1\r\n", 400)])
def test_chunks_are_whole_with_the_last_and_have_no_trailers(
    service: Service, trailers: bytes, status: int
) -> None:
    begun = head(service, JSON, CHUNKED, "trailer: x-sum")
    chunks = chunk(PRICED[:9]) + chunk(PRICED[9:]) + b"0\r\n" + trailers + b"\r\n"
    assert sent(service, begun, chunks) == (status, "VALIDATION_ERROR")


@pytest.mark.parametrize(
    ("codings", "status"),
    [
        ("Chunked", 422),
        ("gzip, chunked", 400),
        ("gzip\r\ntransfer-encoding: chunked", 400),
        ("chunked, chunked", 400),
    ],
)
def test_a_body_that_is_coded_otherwise_than_in_chunks_is_not_taken_for_plain(
    service: Service, codings: str, status: int
) -> None:
    begun = head(service, JSON, f"transfer-encoding: {codings}")
    assert sent(service, begun, chunk(PRICED) + b"0\r\n\r\n") == (status, "VALIDATION_ERROR")


def test_slow_heads_and_slow_bodies_hold_up_nobody(service: Service) -> None:
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(service.connect()) for _ in range(100)]
        for number, connection in enumerate(slow):
            whole = head(service, JSON, "content-length: 10")
            connection.sendall(whole[:-9] if number % 2 else whole + b"{")
        for _ in range(20):
            answer = service.ask("/v1/users/me", key=service.installation.key)
            assert answer.status == 200


def test_two_thousand_idle_connections_are_cheap(service: Service) -> None:
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, max(limit, 4096)), most))
    context = ssl.create_default_context(cafile=service.installation.data / "tls" / "ca.pem")
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (limit, most))
        for _ in range(20):  # what a few connections need once is not counted
            service.ask("/healthz")
        before = service.memory()
        for _ in range(IDLE_CONNECTIONS):
            stack.enter_context(service.connect(context=context))
        assert service.ask("/v1/users/me", key=service.installation.key).status == 200
        assert (service.memory() - before) / IDLE_CONNECTIONS < IDLE_BYTES


def test_handshakes_never_finished_hold_up_nobody(service: Service) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(300):
            unfinished = stack.enter_context(service.connect_plain())
            unfinished.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert service.ask("/v1/users/me", key=service.installation.key).status == 200


@pytest.mark.parametrize(
    ("version", "accepted"),
    [
        (ssl.TLSVersion.TLSv1_1, False),
        (ssl.TLSVersion.TLSv1_2, True),
        (ssl.TLSVersion.TLSv1_3, True),
    ],
)
def test_tls_below_1_2_is_refused(
    service: Service, version: ssl.TLSVersion, *, accepted: bool
) -> None:
    context = ssl.create_default_context(cafile=service.installation.data / "tls" / "ca.pem")
    context.set_ciphers("ALL:@SECLEVEL=0")  # else OpenSSL itself would refuse the oldest
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = version
    if accepted:
        with service.connect(context=context) as connection:
            assert service.ask("/healthz", connection=connection).status == 200
            assert connection.version() == version.name.replace("_", ".")
    else:
        with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version|handshake"):
            service.connect(context=context)
