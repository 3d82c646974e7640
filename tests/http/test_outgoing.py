"""What waits in the kernel for a client, found by the client's address."""

import contextlib
import socket

import pytest

from portico.web.streams import Outgoing


def pair(host: str, port: int = 0) -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection, the client's at this port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind((host, 0))
        listener.listen()
        client = socket.socket(family)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind((host, port))
        client.connect(listener.getsockname())
        return client, listener.accept()[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_what_a_client_does_not_take_is_seen_until_it_is_gone(host: str) -> None:
    client, server = pair(host)
    name = f"[{host}]" if ":" in host else host
    outgoing = Outgoing(f"{name}:{client.getsockname()[1]}", multiplexed=False)
    with client, server:
        assert outgoing.taken()
        server.setblocking(False)  # noqa: FBT003 - its only spelling
        with contextlib.suppress(BlockingIOError):
            while True:
                server.send(b"x" * 65536)
        assert not outgoing.taken()
    assert outgoing.taken()


@pytest.mark.parametrize("multiplexed", [False, True])
def test_what_another_connection_from_the_same_port_takes_does_not_count(
    *, multiplexed: bool
) -> None:
    """Otherwise a client that reads nothing could have a whole export wait in memory."""
    beside, other = pair("127.0.0.1")
    client, server = pair("127.0.0.1", beside.getsockname()[1])
    outgoing = Outgoing(f"127.0.0.1:{client.getsockname()[1]}", multiplexed=multiplexed)
    with beside, other, client, server:
        assert outgoing.taken(), "from then on both are known"
        server.setblocking(False)  # noqa: FBT003 - its only spelling
        with contextlib.suppress(BlockingIOError):
            while True:
                server.send(b"x" * 65536)
        outgoing.count_passed(1 << 24)
        other.sendall(b"x" * 100)
        assert beside.recv(100, socket.MSG_WAITALL) == b"x" * 100
        assert not outgoing.taken()
        outgoing.break_off()
        client.settimeout(20)
        while client.recv(65536):
            pass


def test_connection_that_is_broken_off_ends_after_what_was_sent() -> None:
    client, server = pair("127.0.0.1")
    outgoing = Outgoing(f"127.0.0.1:{client.getsockname()[1]}", multiplexed=False)
    with client, server:
        server.sendall(b"a part")
        outgoing.break_off()
        assert client.recv(64) == b"a part"
        assert client.recv(64) == b""
    outgoing.break_off()
