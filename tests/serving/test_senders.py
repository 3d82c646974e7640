"""Slow, huge and broken senders: the right status, bounded memory, and nobody else waits."""

import contextlib
import ssl
import threading
import time
import warnings
from collections.abc import Iterator

import pytest

from multiplexed import DATA, RESET, Multiplexed, frame
from operating import Installation, Service, copy_of, lateness, read_answer, until

MIB = 2**20
IDLE_CONNECTIONS, IDLE_BYTES = 300, 60 * 1024
JSON, CHUNKED = "content-type: application/json", "transfer-encoding: chunked"
TYPED = ("content-type", "application/json")
TOO_LARGE, INVALID = (413, "PAYLOAD_TOO_LARGE"), (400, "VALIDATION_ERROR")
SOMEBODY = b'{"name": "Half", "email": "half@example.com", "password": "Analytical1"}'
PRICED = b'{"name": "Half", "category": "c", "price": -1}'


@pytest.fixture(scope="module")
def service(
    first_installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """One server for all of these senders, who come from one address."""
    copy = copy_of(first_installation, tmp_path_factory.mktemp("senders"))
    with copy.having(connections_per_address="2000").serving() as running:
        yield running
        assert "Traceback" not in running.text
        assert "panicked" not in running.text


@pytest.fixture(autouse=True)
def others(service: Service) -> Iterator[None]:
    """Somebody else is served all the while, and nobody's data is changed."""
    over, slowest = threading.Event(), 0.0

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
    listed = service.ask("/v1/products?status=draft", key=service.installation.key)
    assert listed.json["pagination"]["total_items"] == 0


def head(service: Service, *lines: str, method: str = "POST", path: str = "/v1/products") -> bytes:
    """A request's head with the first admin's key and these lines."""
    credential = f"authorization: Bearer {service.installation.key}"
    given = (f"{method} {path} HTTP/1.1", "host: localhost", credential, *lines, "")
    return "".join(f"{line}\r\n" for line in given).encode()


def sent(service: Service, *parts: bytes) -> tuple[int, str]:
    """The status and code that answer these bytes, some of which may find a closed door."""
    with service.connect() as connection:
        with contextlib.suppress(OSError):
            for part in parts:
                connection.sendall(part)
        return read_answer(connection).error


def chunk(part: bytes) -> bytes:
    return f"{len(part):x}\r\n".encode() + part + b"\r\n"


@pytest.mark.parametrize(
    ("length", "parts"),
    [
        (f"content-length: {10 * MIB}", [b" " * MIB] * 10),
        (CHUNKED, [chunk(b" " * 65_536)] * 320),
    ],
    ids=["sent", "in chunks"],
)
def test_body_beyond_the_limit_is_refused_and_takes_no_memory(
    service: Service, length: str, parts: list[bytes]
) -> None:
    before = service.memory()
    assert sent(service, head(service, JSON, length), *parts) == TOO_LARGE
    assert service.memory() - before < 8 * MIB


@pytest.mark.parametrize(
    ("path", "credential", "error"),
    [
        ("/v1/products", b"", TOO_LARGE),
        ("/v1/products", b"no ", (401, "AUTHENTICATION_REQUIRED")),
    ],
)
def test_client_that_sends_a_whole_body_before_reading_gets_the_answer(
    service: Service, path: str, credential: bytes, error: tuple[int, str]
) -> None:
    begun = head(service, JSON, f"content-length: {8 * MIB}", path=path)
    with service.connect() as connection:
        connection.sendall(begun.replace(b"Bearer ", b"Bearer " + credential) + b" " * 8 * MIB)
        assert read_answer(connection).error == error
        connection.sendall(head(service, method="GET", path="/v1/users/me"))
        assert read_answer(connection).status == 200, "the connection holds"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /healthz HTTP/1.1\r\nhost: x\r\nx: " + b"y" * 60_000 + b"\r\n\r\n", 200),
        (b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + b"x: y\r\n" * 150 + b"\r\n", 431),
        (b"GET /" + b"y" * 80_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n", 431),
        (b"GARBAGE\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"GET /v1/users/me HTTP/1.1\r\nhost: x\r\nauthorization: Bearer \xff\r\n\r\n", 401),
    ],
)
def test_heads_are_read_up_to_64_kib_and_refused_beyond_or_unreadable(
    service: Service, request_: bytes, status: int
) -> None:
    with service.connect() as connection:
        with contextlib.suppress(OSError):
            connection.sendall(request_)
        answer = read_answer(connection)
    assert answer.status == status
    assert (answer.headers.get("connection") == "close") == (status in (400, 431))


def test_two_lengths_are_not_two_requests(service: Service) -> None:
    smuggled = b"0\r\n\r\n" + head(service, method="DELETE", path="/v1/users/1")
    begun = head(service, JSON, f"content-length: {len(smuggled)}", CHUNKED)
    with service.connect() as connection:
        connection.sendall(begun + smuggled)
        assert read_answer(connection).status == 400
        with contextlib.suppress(OSError):
            assert connection.recv(65536) == b"", "nothing behind the first request is read"


@contextlib.contextmanager
def refused_unread(service: Service) -> Iterator[None]:
    """Asserts by the log that the user is refused who is sent inside, by a client that is gone
    before the answer."""

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
        (CHUNKED, chunk(SOMEBODY) + b"5\r\nab"),
        (CHUNKED, chunk(SOMEBODY) + b"no length\r\n"),
    ],
)
def test_body_that_breaks_off_is_not_taken_for_whole(
    service: Service, framing: str, come: bytes
) -> None:
    with refused_unread(service), service.connect() as connection:
        connection.sendall(head(service, JSON, framing, path="/v1/users") + come)


@pytest.mark.parametrize(
    "last", [frame(RESET, 0, 1, b"\0\0\0\x08"), b""], ids=["cancelled", "gone"]
)
def test_body_that_breaks_off_over_http_2_is_not_taken_for_whole(
    service: Service, last: bytes
) -> None:
    with refused_unread(service), Multiplexed(service) as connection:
        number = connection.begin("/v1/users", TYPED, method="POST", whole=False)
        connection.tell(frame(DATA, 0, number, SOMEBODY))
        assert connection.ask("/healthz").status == 200, "so the other has begun"
        connection.tell(last)


@pytest.mark.parametrize(
    ("codings", "trailers", "status"),
    [
        ("Chunked", b"", 422),
        ("chunked", b"x-sum: 1\r\n", 400),
        ("gzip, chunked", b"", 400),
    ],
)
def test_body_is_read_in_plain_chunks_without_trailers_alone(
    service: Service, codings: str, trailers: bytes, status: int
) -> None:
    begun = head(service, JSON, f"transfer-encoding: {codings}", "trailer: x-sum")
    chunks = chunk(PRICED[:9]) + chunk(PRICED[9:]) + b"0\r\n" + trailers + b"\r\n"
    assert sent(service, begun, chunks) == (status, "VALIDATION_ERROR")


def test_slow_heads_slow_bodies_and_unfinished_handshakes_hold_up_nobody(service: Service) -> None:
    whole = head(service, JSON, "content-length: 10")
    with contextlib.ExitStack() as stack:
        for part in (whole[:-9], whole + b"{") * 40:
            stack.enter_context(service.connect()).sendall(part)
        for _ in range(300):
            unfinished = stack.enter_context(service.connect_plain())
            unfinished.sendall(b"\x16\x03\x01\x02\x00\x01")
        assert service.ask("/v1/users/me", key=service.installation.key).status == 200


def test_many_idle_connections_are_cheap(service: Service) -> None:
    context = service.trusting()
    with contextlib.ExitStack() as stack:
        for _ in range(20):  # what a few connections need once is not counted
            service.ask("/healthz")
        before = service.memory()
        for _ in range(IDLE_CONNECTIONS):
            stack.enter_context(service.connect(context=context))
        assert service.ask("/v1/users/me", key=service.installation.key).status == 200
        assert (service.memory() - before) / IDLE_CONNECTIONS < IDLE_BYTES


def test_tls_below_1_2_is_refused(service: Service) -> None:
    context = service.trusting()
    context.set_ciphers("ALL:@SECLEVEL=0")  # else OpenSSL itself would refuse it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises(ssl.SSLError, match=r"(?i)protocol.version|handshake"):
        service.connect(context=context)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with service.connect(context=context) as connection:
        assert connection.version() == "TLSv1.2"
