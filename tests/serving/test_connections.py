"""Clients that take all connections, or read nothing: they are ended, and others are served."""

import asyncio
import contextlib
import fcntl
import socket
import ssl
import sys
import threading
from collections.abc import Iterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from operating import Installation, Service, eventually, read_answer, until
from portico.cli.connections import Patience, Watch, listening_socket
from portico.web.streams import tcp_of
from receiving import OK, received

FILES = 700
"""What a small server may have open: room for a few hundred connections."""

PIPELINED = b"GET /v1/openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n" * 25
OTHER = "127.0.0.2"
"""Another address of the loopback network."""

PATIENCE = Patience(read=30.0, look=1.0)
IMPATIENT = (sys.executable, str(Path(__file__).with_name("impatient.py")))


def files_of(service: Service) -> int:
    return len(list(Path(f"/proc/{service.process.pid}/fd").iterdir()))


def unread(service: Service, context: ssl.SSLContext) -> socket.socket:
    """A connection that asks for 4 MB and takes nothing of it."""
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    plain.settimeout(20)
    try:
        plain.connect(("127.0.0.1", service.installation.port))
        connection = context.wrap_socket(plain, server_hostname="localhost")
        connection.sendall(PIPELINED)
    except BaseException:
        plain.close()
        raise
    return connection


def trusting(service: Service) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=service.installation.data / "tls" / "ca.pem")


def another_is_served(service: Service, context: ssl.SSLContext) -> None:
    plain = socket.create_connection(
        ("127.0.0.1", service.installation.port), timeout=20, source_address=(OTHER, 0)
    )
    with plain, context.wrap_socket(plain, server_hostname="localhost") as connection:
        assert service.ask("/healthz", connection=connection).status == 200


def test_whoever_reads_nothing_is_ended_and_holds_little_until_then(
    installation: Installation,
) -> None:
    program = (*IMPATIENT, "1", "0.1", "4096")
    with installation.serving(program=program) as service, contextlib.ExitStack() as stack:
        context = trusting(service)
        for _ in range(5):  # what a few connections need once is not counted
            assert service.ask("/v1/openapi.json").status == 200
        before, memory = files_of(service), service.memory()
        for _ in range(20):
            stack.enter_context(unread(service, context))
        port = service.installation.port
        held = until(lambda: [one for one in waiting_bytes(port) if one], "an answer that waits")
        assert max(held) < 256 * 1024, "the kernel takes little ahead"
        assert service.memory() - memory < 20 * 512 * 1024
        until(lambda: files_of(service) <= before, "the end of those that read nothing")
        another_is_served(service, context)


def waiting_bytes(port: int) -> list[int]:
    """The bytes that wait in the kernel for each client of a port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [int(row[4].split(":")[0], 16) for row in rows if row[1].endswith(f":{port:04X}")]


def test_one_address_cannot_take_all_connections(installation: Installation) -> None:
    with (
        installation.serving(program=(*IMPATIENT, "30", "0.1", str(FILES))) as service,
        contextlib.ExitStack() as stack,
    ):
        context = trusting(service)
        idle = files_of(service)
        for _ in range(FILES // 2):
            with contextlib.suppress(OSError):  # some end before they are made
                stack.enter_context(unread(service, context))
        another_is_served(service, context)
        until(lambda: files_of(service) - idle < FILES // 4, "the end of those in excess")
        another_is_served(service, context)


def test_room_for_a_port_of_plain_http_is_kept_only_where_there_is_one(
    installation: Installation,
) -> None:
    with (
        installation.serving(program=(*IMPATIENT, "30", "0.1", "256")) as service,
        contextlib.ExitStack() as stack,
    ):
        context = trusting(service)
        for _ in range(10):
            another = stack.enter_context(service.connect())
            assert service.ask("/healthz", connection=another).status == 200
        another_is_served(service, context)


def test_unfinished_handshakes_count_as_connections_of_their_address(
    installation: Installation,
) -> None:
    with (
        installation.serving(program=(*IMPATIENT, "30", "0.1", "4096")) as service,
        contextlib.ExitStack() as stack,
    ):
        context = trusting(service)
        for _ in range(3):
            for _ in range(FILES):
                opened = stack.enter_context(socket.socket())
                opened.setblocking(False)  # noqa: FBT003 - its only spelling
                opened.connect_ex(("127.0.0.1", service.installation.port))
            another_is_served(service, context)
        until(lambda: files_of(service) < FILES, "the end of those in excess")


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
            body = {"name": "Lamp", "category": "light", "price": 1}
            for _ in range(10):
                answer = service.ask("/v1/products", method="POST", key=allowing.key, body=body)
                assert answer.status == 201
            until(lambda: receiver.open == 3, "three deliveries")
            answered.set()
            until(lambda: len(receiver.requests) == 10, "the others")
            assert receiver.most_open == 3


def test_an_answer_that_is_read_in_time_arrives_whole(installation: Installation) -> None:
    with (
        installation.serving(program=(*IMPATIENT, "2", "0.1", str(FILES))) as service,
        unread(service, trusting(service)) as connection,
    ):
        lengths = {len(read_answer(connection).body) for _ in range(16)}
        assert len(lengths) == 1
        assert lengths.pop() > 100_000


# The watch by itself


class Loopback:
    """A listener of this process and connections to it, both ends in our hands."""

    def __init__(self) -> None:
        self.listener = listening_socket("127.0.0.1", 0, PATIENCE)
        self.listener.listen()
        self.port = self.listener.getsockname()[1]
        self.stack = contextlib.ExitStack()
        self.stack.enter_context(self.listener)
        self.now = 0.0

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """The client's end of a connection and the server's."""
        client = self.stack.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(self.listener.getsockname())
        self.listener.settimeout(20)
        server = self.stack.enter_context(self.listener.accept()[0])
        server.setblocking(False)  # noqa: FBT003 - its only spelling
        return client, server

    def watch(self, most: int, *trusted: str) -> Watch:
        networks = [ip_network(one) for one in trusted]
        return Watch({self.port: most}, networks, PATIENCE, lambda: self.now)


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    made = Loopback()
    yield made
    made.stack.close()


LOCK = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


async def test_a_look_leaves_the_locks_of_files_alone(loopback: Loopback, tmp_path: Path) -> None:
    """POSIX drops all locks of a process on a file once any of its descriptors is closed: those
    that SQLite holds on its databases would be gone."""
    file = tmp_path / "live.db"
    file.touch()
    with file.open("r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        await loopback.watch(1).look()
        other = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", LOCK, str(file)), stderr=asyncio.subprocess.PIPE
        )
        _, said = await other.communicate()
    assert b"BlockingIOError" in said


def ended(server: socket.socket) -> bool:
    """Whether the server's end was shut."""
    server.setblocking(False)  # noqa: FBT003 - its only spelling
    try:
        return server.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False


def silent(server: socket.socket) -> int:
    """For how many milliseconds nothing came."""
    return int.from_bytes(server.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 56)[52:], "little")


def test_those_that_were_silent_longest_are_ended_first(loopback: Loopback) -> None:
    pairs = [loopback.pair() for _ in range(5)]
    until(lambda: min(silent(server) for _, server in pairs) > 50)
    for client, server in pairs[1:4]:
        client.sendall(b"x")
        server.settimeout(20)
        assert server.recv(1) == b"x"
    asyncio.run(loopback.watch(3).look())
    assert [ended(server) for _, server in pairs] == [True, False, False, False, True]


def test_a_connection_ends_once_it_has_carried_nothing_for_long(loopback: Loopback) -> None:
    """Nobody else would ever end it, also once its client is gone."""
    (_, mute), (asking, other) = loopback.pair(), loopback.pair()
    watch = loopback.watch(3)
    asyncio.run(watch.look())
    loopback.now = PATIENCE.idle / 2
    asking.sendall(b"a")
    other.settimeout(20)
    assert other.recv(1) == b"a"
    asyncio.run(watch.look())
    loopback.now = PATIENCE.idle - 1
    asyncio.run(watch.look())
    assert not ended(mute), "a request may be under way on it"
    loopback.now = PATIENCE.idle
    asyncio.run(watch.look())
    assert [ended(one) for one in (mute, other)] == [True, False]
    other.sendall(b"an answer")
    assert asking.recv(9, socket.MSG_WAITALL) == b"an answer"
    until(lambda: tcp_of(other).received >= len(b"an answer"))
    asyncio.run(watch.look())
    loopback.now = 2 * PATIENCE.idle - 1
    asyncio.run(watch.look())
    assert not ended(other)


def test_trusted_proxies_have_as_many_connections_as_they_like(loopback: Loopback) -> None:
    pairs = [loopback.pair() for _ in range(5)]
    asyncio.run(loopback.watch(3, "127.0.0.0/8").look())
    assert not any(ended(server) for _, server in pairs)


@pytest.mark.parametrize(("bytes_read", "too_slow"), [(8_000, True), (400_000, False)])
def test_whoever_reads_a_little_at_a_time_is_ended_too(
    loopback: Loopback, bytes_read: int, *, too_slow: bool
) -> None:
    client, server = loopback.pair()
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
    loopback.now = PATIENCE.read - 1
    asyncio.run(watch.look())
    assert not ended(server), "its time is not over"
    loopback.now = PATIENCE.read
    asyncio.run(watch.look())
    assert ended(server) == too_slow


def test_a_command_beside_a_server_leaves_it_its_databases(installation: Installation) -> None:
    """Were SQLite's locks lost, the command would take itself for the last who has the database
    open, and remove the log into which the server writes."""

    def log() -> int:
        return (installation.data / "live.db-wal").stat().st_ino

    with installation.serving() as service:
        until(lambda: service.ask("/healthz").status == 200)
        before = log()
        for _ in range(2):
            installation.told("keys", "list")
        assert log() == before
        body = {"name": "Ada Lovelace", "email": "ada@example.com", "password": "Passw0rdd"}
        made = service.ask("/v1/users", method="POST", key=installation.key, body=body)
        assert made.status == 201
        owner = ("--owner", "ada@example.com")
        key = installation.told("keys", "create", *owner, "--type", "live", "--name", "one")["key"]
        me = service.ask("/v1/users/me", key=key).json["data"]
        assert me["id"] == made.json["data"]["id"]
