"""The sockets that the HTTP server has opened in this process, as the kernel reports them."""

import os
import resource
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

_OWN_FILES = "/proc/self/fd"

_TCP_INFO = struct.Struct("=52xI64xQQ8xI")
"""The fields of `Tcp` in `struct tcp_info`."""


class Tcp(NamedTuple):
    """The state of a TCP connection."""

    silent: int
    """Milliseconds since data last arrived."""
    received: int
    """Bytes that the client has acknowledged."""
    sent: int
    """Bytes that the client has sent."""
    unsent: int
    """Bytes that were not sent yet, for lack of room at the client or in the network."""


@contextmanager
def borrowed(descriptor: int) -> Iterator[socket.socket]:
    """A descriptor as a socket; raises OSError if it is not one. It is neither duplicated nor
    closed: closing any descriptor of a database file would release SQLite's locks on it (POSIX),
    and another process could then lock the file."""
    # This family has room for addresses of both IPv4 and IPv6.
    borrowed = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, 0, fileno=descriptor)
    try:
        yield borrowed
    finally:
        borrowed.detach()


def descriptors() -> Sequence[int]:
    """The descriptors of this process; if none is left for listing them, all possible numbers."""
    try:
        return [int(name) for name in os.listdir(_OWN_FILES)]  # noqa: PTH208 - paths would cost more than all the rest
    except OSError:
        return range(resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def tcp_of(connection: socket.socket) -> Tcp:
    """The state of a TCP connection. Raises OSError for any other socket."""
    told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    return Tcp._make(_TCP_INFO.unpack(told.ljust(_TCP_INFO.size, b"\0")))  # old kernels: shorter


class Outgoing:
    """The connection to one client: whether it takes more data, and how to abort it. A client may
    have several from one port, to different ports of ours. They cannot be told apart, so they count
    as one."""

    def __init__(self, client: str, *, multiplexed: bool) -> None:
        """`client` is the client's address and port as the HTTP server spells them (RSGI).
        `multiplexed` says whether the connection uses HTTP/2."""
        address, _, port = client.rpartition(":")
        self._peer = _bare(address.strip("[]")), int(port)
        self._descriptors: Sequence[int] = ()
        self._multiplexed = multiplexed
        self._received = self._due = -1

    def count_passed(self, size: int) -> None:
        """Notes that `size` bytes were passed to the HTTP server after all earlier ones were
        taken."""
        self._due = self._received + size

    def taken(self) -> bool:
        """Whether the client takes more, or is gone: the kernel has nothing left to send. Over
        HTTP/2, where data may also wait for a flow-control window, the client must have received
        as many bytes as were passed on. The first call searches all sockets, 2 µs each."""
        found = self._found()
        if not found:
            return True
        received = min(tcp.received for tcp in found)
        if self._multiplexed and self._received >= 0:
            taken = received >= self._due
        else:
            taken = not any(tcp.unsent for tcp in found)
        if taken:
            self._received = received
        return taken

    def break_off(self) -> None:
        """Aborts the connection, if it still exists."""
        if self._found():
            for descriptor in self._descriptors:
                with suppress(OSError), borrowed(descriptor) as ending:
                    ending.shutdown(socket.SHUT_RDWR)

    def _found(self) -> Sequence[Tcp]:
        """The states of the connections, none if they are gone. Remembers the descriptors."""
        found = self._among(self._descriptors) or self._among(descriptors())
        self._descriptors = [*found]
        return [*found.values()]

    def _among(self, descriptors: Sequence[int]) -> Mapping[int, Tcp]:
        return {one: tcp for one in descriptors if (tcp := self._seen(one)) is not None}

    def _seen(self, descriptor: int) -> Tcp | None:
        with suppress(OSError), borrowed(descriptor) as connection:
            peer = connection.getpeername()
            if isinstance(peer, tuple) and (_bare(peer[0]), peer[1]) == self._peer:
                return tcp_of(connection)
        return None


def _bare(address: str) -> str:
    """An address without its zone, which kernel and HTTP server spell differently."""
    return address.partition("%")[0]
