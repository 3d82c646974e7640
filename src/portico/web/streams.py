"""Streamed replies: each is sent as it is generated, until it ends, the client disconnects or the
server stops."""

import asyncio
import logging
import os
import re
import resource
import socket
import struct
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager, suppress
from typing import Any, NamedTuple

from portico.core.errors import AuthenticationRequired, Fault, unreadable
from portico.core.ids import MAX_ID
from portico.web.messages import Request, Scope, Stream

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
    answer = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    return Tcp._make(_TCP_INFO.unpack(answer.ljust(_TCP_INFO.size, b"\0")))  # old kernels: shorter


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


AHEAD = 128 * 1024
"""How many bytes of a stream are passed to the HTTP server before the client must have taken them:
the server would buffer any number."""

_FIRST_REST, _LONGEST_REST = 0.01, 0.5
"""Seconds between two checks of whether the client has taken them."""

log = logging.getLogger(__name__)


class Streams:
    """The open streams of this process."""

    def __init__(self) -> None:
        self._open: set[asyncio.Task[bool]] = set()
        self._stopped = False

    def begin(self, request: Request, stream: Stream, scope: Scope, proto: Any) -> None:
        """Sends the headers, and then in the background what `stream` yields; for HEAD only the
        headers."""
        transport = proto.response_stream(stream.status, stream.headers)
        outgoing = Outgoing(scope.client, multiplexed=scope.http_version == "2")
        if request.method == "HEAD":
            stream.ended()
            return
        if self._stopped:
            _end(stream, outgoing, transport, whole=False)
            return
        sending = asyncio.create_task(_send(request.id, stream, outgoing, transport))
        gone = asyncio.ensure_future(proto.client_disconnect())
        gone.add_done_callback(lambda _: sending.cancel())

        def ended(_: object) -> None:
            self._open.discard(sending)
            whole = gone.done() or (not sending.cancelled() and sending.result())
            gone.cancel()
            _end(stream, outgoing, transport, whole=whole)

        self._open.add(sending)
        sending.add_done_callback(ended)

    async def stop(self) -> None:
        """Ends all streams, each after a whole piece, and aborts the finite ones. Streams that
        begin later send no body."""
        self._stopped = True
        for sending in self._open:
            sending.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)


def _end(stream: Stream, outgoing: Outgoing, _transport: Any, *, whole: bool) -> None:
    """Ends a stream. `_transport` keeps a reference: once the last one is gone, the HTTP server
    ends the body as complete."""
    if stream.finite and not whole:
        outgoing.break_off()
    stream.ended()


async def _send(request_id: str, stream: Stream, outgoing: Outgoing, transport: Any) -> bool:
    """Sends a stream until it ends or the task is cancelled. Returns whether it was sent to its
    end, or the client has disconnected."""
    ahead = 0
    try:
        async with aclosing(stream.chunks) as chunks:
            async for chunk in chunks:
                for start in range(0, len(chunk), AHEAD):
                    piece = chunk[start : start + AHEAD]
                    try:
                        await transport.send_bytes(piece)
                    except RuntimeError:  # how RSGI reports that the client has disconnected
                        return True
                    ahead += len(piece)
                    if ahead >= AHEAD:
                        outgoing.count_passed(ahead)
                        await _wait_until_taken(outgoing)
                        ahead = 0
    except AuthenticationRequired as error:
        log.info("a stream was ended: %s", error.message, extra={"request_id": request_id})
        return False
    except Exception:
        log.exception("a stream broke off", extra={"request_id": request_id})
        return False
    return True


async def _wait_until_taken(outgoing: Outgoing) -> None:
    """Waits until the client takes more."""
    rest = _FIRST_REST  # lets the HTTP server's threads write what they were given
    while True:
        await asyncio.sleep(rest)
        if outgoing.taken():
            return
        rest = min(2 * rest, _LONGEST_REST)


# Server-Sent Events (WHATWG HTML standard §9.2)

EVENT_STREAM = "text/event-stream"

LAST_EVENT_ID = "Last-Event-ID"
_HEADERS = (
    ("content-type", EVENT_STREAM),
    ("x-accel-buffering", "no"),  # proxies must not buffer it
)
_LINE_END = re.compile("\r\n|\n|\r")
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,18}")


def event_stream(chunks: AsyncGenerator[bytes, None], ended: Callable[[], object]) -> Stream:
    """A reply that streams events; see `Stream`."""
    return Stream(200, chunks, ended, [*_HEADERS], finite=False)


def event_bytes(event_id: int, kind: str, data: str) -> bytes:
    """One event on the wire. `kind` contains no line end; `data` may have several lines."""
    lines = "".join(f"data: {line}\n" for line in _LINE_END.split(data))
    return f"id: {event_id}\nevent: {kind}\n{lines}\n".encode()


def position_bytes(event_id: int) -> bytes:
    """A comment, which keeps the connection alive, and the id after which a reconnecting client
    resumes. Without data it is not an event."""
    return f":\nid: {event_id}\n\n".encode()


def last_event_id(request: Request) -> int | None:
    """The id of the last event that the client has received, None without the header. Raises
    `Unreadable`."""
    sent = request.listed(LAST_EVENT_ID.lower())
    if sent is None:
        return None
    if _DECIMAL.fullmatch(sent) is None or (number := int(sent)) > MAX_ID:
        message = f"must be sent once, and be a whole number from 0 to {MAX_ID}"
        raise unreadable(Fault(LAST_EVENT_ID, message))
    return number
