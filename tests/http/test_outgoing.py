"""What waits in the kernel for a client, found by the client's address."""

import contextlib
import socket

import pytest

from portico.http.sockets import Outgoing


def pair(host: str) -> tuple[socket.socket, socket.socket]:
    """Two ends of a connection."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind((host, 0))
        listener.listen()
        client = socket.socket(family)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(listener.getsockname())
        return client, listener.accept()[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_what_a_client_does_not_take_is_seen_until_it_is_gone(host: str) -> None:
    client, server = pair(host)
    name = f"[{host}]" if ":" in host else host
    outgoing = Outgoing(f"{name}:{client.getsockname()[1]}")
    with client, server:
        assert outgoing.unsent() == 0
        server.setblocking(False)  # noqa: FBT003 - its only spelling
        with contextlib.suppress(BlockingIOError):
            while True:
                server.send(b"x" * 65536)
        assert outgoing.unsent() > 0
    assert outgoing.unsent() == 0


def test_a_connection_that_is_broken_off_ends_after_what_was_sent() -> None:
    client, server = pair("127.0.0.1")
    outgoing = Outgoing(f"127.0.0.1:{client.getsockname()[1]}")
    with client, server:
        server.sendall(b"a part")
        outgoing.break_off()
        assert client.recv(64) == b"a part"
        assert client.recv(64) == b""
    outgoing.break_off()
