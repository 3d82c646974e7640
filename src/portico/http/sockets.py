"""The sockets of this process, which the HTTP server opens by itself, as the kernel knows them."""

import os
import resource
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

_OWN_FILES = "/proc/self/fd"

_TCP_INFO = struct.Struct("=52xI64xQ16xI")
"""Of `struct tcp_info`: the fields of `Tcp`."""


class Tcp(NamedTuple):
    """What the kernel knows of a connection."""

    silent: int
    """Milliseconds since data came."""
    received: int
    """Bytes that the client has received."""
    unsent: int
    """Bytes that were never sent: the client has no room for them, or the network."""


@contextmanager
def borrowed(descriptor: int) -> Iterator[socket.socket]:
    """A descriptor as a socket; raises OSError for what is none. It is neither duplicated nor
    closed: to close any descriptor of a database file would take away the locks that SQLite has on
    it (POSIX), and another process would then take the file for its own."""
    # The family gives room for addresses of both.
    borrowed = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()


def descriptors() -> Sequence[int]:
    """The descriptors of this process, or where there is none left to ask with, all that may be."""
    try:
        return [int(name) for name in os.listdir(_OWN_FILES)]  # noqa: PTH208 - paths would cost more than all the rest
    except OSError:
        return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def tcp_of(connection: socket.socket) -> Tcp:
    """What the kernel knows of a connection. Raises OSError for what is none."""
    told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    return Tcp._make(_TCP_INFO.unpack(told.ljust(_TCP_INFO.size, b"\0")))  # some kernels tell less


class Outgoing:
    """The connection to one client: what waits in the kernel to be sent on it, and its end."""

    def __init__(self, client: str, *, multiplexed: bool) -> None:
        """`client` is its address and port, as the server tells them of a request (RSGI).
        `multiplexed` is whether the connection is one of HTTP/2."""
        address, _, port = client.rpartition(":")
        self._peer = _bare(address.strip("[]")), int(port)
        self._descriptor = -1
        self._multiplexed = multiplexed
        self._received = self._due = -1

    def hand(self, size: int) -> None:
        """So many bytes more were handed to the server, since all before were taken."""
        self._due = self._received + size

    def taken(self) -> bool:
        """Whether the client has room for more, or is gone: the kernel has sent all that it has,
        and over HTTP/2, where more may wait for a window, the client has received as much as was
        handed on before. The first call looks at all sockets, 2 µs each."""
        tcp = self._found()
        if tcp is None:
            return True
        if self._multiplexed and self._received >= 0:
            taken = tcp.received >= self._due
        else:
            taken = not tcp.unsent
        if taken:
            self._received = tcp.received
        return taken

    def break_off(self) -> None:
        """Ends the connection without another word; one that is gone stays so."""
        if self._found():
            with suppress(OSError), borrowed(self._descriptor) as ending:
                ending.shutdown(socket.SHUT_RDWR)

    def _found(self) -> Tcp | None:
        """The connection to the client, whose descriptor is known from then on."""
        tcp = self._seen(self._descriptor)
        if tcp is None:
            found = ((one, self._seen(one)) for one in descriptors())
            self._descriptor, tcp = next((one for one in found if one[1]), (-1, None))
        return tcp

    def _seen(self, descriptor: int) -> Tcp | None:
        if descriptor < 0:
            return None
        with suppress(OSError), borrowed(descriptor) as connection:
            peer = connection.getpeername()
            if isinstance(peer, tuple) and (_bare(peer[0]), peer[1]) == self._peer:
                return tcp_of(connection)
        return None


def client_of(peer: tuple[Any, ...]) -> str:
    """The client at the other end of a socket as the server tells it (RSGI): a zone by its
    number, which the kernel names."""
    if len(peer) == 2:
        return f"{peer[0]}:{peer[1]}"
    zone = f"%{peer[3]}" if peer[3] else ""
    return f"[{_bare(peer[0])}{zone}]:{peer[1]}"


def _bare(address: str) -> str:
    """An address without its zone, which the kernel names and the server numbers."""
    return address.partition("%")[0]
