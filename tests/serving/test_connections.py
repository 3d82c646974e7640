"""Clients that take all connections, or read nothing: they are ended, and others are served."""

import asyncio
import contextlib
import fcntl
import socket
import sys
import threading
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from operating import Installation, Service, eventually, until
from portico.cli.connections import ConnectionTimeouts, Watch, listening_socket
from portico.web.streams import tcp_of
from receiving import OK, received

FILES = 700
"""What a small server may have open: room for a few hundred connections."""

PIPELINED = b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 25
OTHER = "127.0.0.2"
"""Another address of the loopback network."""

CONNECTION_TIMEOUTS = ConnectionTimeouts(read=30.0, look=1.0)
IMPATIENT = (sys.executable, str(Path(__file__).with_name("impatient.py")))


def files_of(service: Service) -> int:
    return len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))


def unread(service: Service) -> socket.socket:
    """A connection that asks for 4 MB and takes nothing of it."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    plain.settimeout(20)
    try:
        plain.connect(("127.0.0.1", service.installation.port))
        connection = service.trusting().wrap_socket(plain, server_hostname="localhost")
        connection.sendall(PIPELINED)
    except BaseException:
        plain.close()
        raise
    return connection


def another_is_served(service: Service) -> None:
    address = ("127.0.0.1", service.installation.port)
    plain = socket.create_connection(address, timeout=20, source_address=(OTHER, 0))
    with (
        plain,
        service.trusting().wrap_socket(plain, server_hostname="localhost") as connection,
    ):
        assert service.ask("/healthz", connection=connection).status == 200


def waiting_bytes(port: int) -> list[int]:
    """The bytes that wait in the kernel for each client of a port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(row[4].split(":")[0], 16) for row in rows if row[1].endswith(f":{port:04X}")]


def test_client_that_reads_nothing_is_ended_and_holds_little_until_then(
    installation: Installation,
) -> None:
    program = (*IMPATIENT, "1", "0.1", "4096")
    with installation.serving(program=program) as service, contextlib.ExitStack() as stack:
        for _ in range(5):  # what a few connections need once is not counted
            assert service.ask("/v1/openapi.json").status == 200
        before, memory = files_of(service), service.memory()
        for _ in range(20):
            stack.enter_context(unread(service))
        port = service.installation.port
        held = until(lambda: [one for one in waiting_bytes(port) if one], "an answer that waits")
        assert max(held) < 256 * 1024, "the kernel takes little ahead"
        assert service.memory() - memory < 20 * 512 * 1024
        until(lambda: files_of(service) <= before, "the end of those that read nothing")
        another_is_served(service)


def test_one_address_cannot_take_all_connections(installation: Installation) -> None:
    with (
        installation.serving(program=(*IMPATIENT, "30", "0.1", str(FILES))) as service,
        contextlib.ExitStack() as stack,
    ):
        idle = files_of(service)
        for _ in range(FILES // 2):
            with contextlib.suppress(OSError):  # some end before they are made
                stack.enter_context(service.connect_plain())
        another_is_served(service)
        until(lambda: files_of(service) - idle < FILES // 4, "the end of those in excess")
        another_is_served(service)


def test_slow_receivers_leave_clients_room_where_few_files_may_be_open(
    installation: Installation,
) -> None:
    answered = threading.Event()

    async def late(writer: asyncio.StreamWriter) -> None:
        await eventually(answered.is_set, "the last answer")
        writer.write(OK)

    with received(late) as receiver:
        allowing = installation.having(webhooks_allow="127.0.0.0/8")
        url = f"http://127.0.0.1:{receiver.port}/"
        allowing.told("webhooks", "create", "--url", url, "--types", "*")
        with allowing.serving(program=(*IMPATIENT, "30", "0.1", "1024")) as service:
            for _ in range(10):
                service.make_product()
            until(lambda: receiver.open == 3, "three deliveries")
            answered.set()
            until(lambda: len(receiver.requests) == 10, "the others")
            assert receiver.most_open == 3


# The watch by itself


class Loopback:
    """A listener of this process and connections to it, both ends in our hands."""

    def __init__(self) -> None:
        self.stack = contextlib.ExitStack()
        self.listener = self.stack.enter_context(
            listening_socket("127.0.0.1", 0, CONNECTION_TIMEOUTS)
        )
        self.listener.listen()
        self.listener.settimeout(20)
        self.now = 0.0

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """The client's end of a connection and the server's."""
        client = self.stack.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(self.listener.getsockname())
        return client, self.stack.enter_context(self.listener.accept()[0])

    def watch(self, most: int, *trusted: str) -> Watch:
        port = self.listener.getsockname()[1]
        return Watch(
            {port: most}, list(map(ip_network, trusted)), CONNECTION_TIMEOUTS, lambda: self.now
        )


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    made = Loopback()
    yield made
    made.stack.close()


def send(client: socket.socket, server: socket.socket) -> None:
    """Something from one end to the other."""
    client.sendall(b"x")
    server.settimeout(20)
    assert server.recv(1) == b"x"


def ended(server: socket.socket) -> bool:
    """Whether the server's end was shut."""
    server.settimeout(0)
    try:
        return server.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False


def silent(server: socket.socket) -> int:
    """For how many milliseconds nothing came."""
    return int.from_bytes(server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 56)[52:], "little")


LOCK = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


async def test_look_leaves_the_locks_of_files_alone(loopback: Loopback, tmp_path: Path) -> None:
    """POSIX drops all locks of a process on a file once any of its descriptors is closed: those
    that SQLite holds on its databases would be gone."""
    file = tmp_path / "live.db"
    with file.open("wb") as held:
        fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        await loopback.watch(1).look()
        other = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", LOCK, str(file)), stderr=asyncio.subprocess.PIPE
        )
        _, said = await other.communicate()
    assert b"BlockingIOError" in said


@pytest.mark.parametrize("trusted", [(), ("127.0.0.0/8",)])
def test_connections_that_were_silent_longest_are_ended_first_unless_trusted(
    loopback: Loopback, trusted: tuple[str, ...]
) -> None:
    pairs = [loopback.pair() for _ in range(5)]
    until(lambda: min(silent(server) for _, server in pairs) > 50)
    for client, server in pairs[1:4]:
        send(client, server)
    asyncio.run(loopback.watch(3, *trusted).look())
    excess = [not trusted, False, False, False, not trusted]
    assert [ended(server) for _, server in pairs] == excess


def test_connection_ends_once_it_has_carried_nothing_for_long(loopback: Loopback) -> None:
    (_, mute), (asking, other) = loopback.pair(), loopback.pair()
    watch = loopback.watch(3)
    asyncio.run(watch.look())
    loopback.now = CONNECTION_TIMEOUTS.idle / 2
    send(asking, other)
    for loopback.now, over in (
        (CONNECTION_TIMEOUTS.idle / 2, False),
        (CONNECTION_TIMEOUTS.idle - 1, False),
    ):
        asyncio.run(watch.look())
        assert ended(mute) == over, "a request may be under way on it"
    loopback.now = CONNECTION_TIMEOUTS.idle
    asyncio.run(watch.look())
    assert [ended(one) for one in (mute, other)] == [True, False]
    send(other, asking)
    until(lambda: tcp_of(other).received >= 1)
    asyncio.run(watch.look())
    loopback.now = 2 * CONNECTION_TIMEOUTS.idle - 1
    asyncio.run(watch.look())
    assert not ended(other)


@pytest.mark.parametrize(("bytes_read", "too_slow"), [(8_000, True), (400_000, False)])
def test_client_that_reads_a_little_at_a_time_is_ended(
    loopback: Loopback, bytes_read: int, *, too_slow: bool
) -> None:
    client, server = loopback.pair()
    server.settimeout(0)
    watch = loopback.watch(3)

    def fill() -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                server.send(b"x" * 65536)

    fill()
    asyncio.run(watch.look())
    while bytes_read > 0:
        bytes_read -= len(client.recv(min(bytes_read, 4096)))
        fill()
    for loopback.now, over in (
        (CONNECTION_TIMEOUTS.read - 1, False),
        (CONNECTION_TIMEOUTS.read, too_slow),
    ):
        asyncio.run(watch.look())
        assert ended(server) == over
