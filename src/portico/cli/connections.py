"""The connections of the listeners: their socket options, and the watch that closes some of them.

granian accepts connections by itself and limits only their total number. Two additions keep one
client from taking all of them, or from filling the memory with answers that it never reads:

- Every connection inherits the options of its listening socket: the kernel buffers only a little
  of an answer ahead of the client, and drops a client that receives nothing.
- `Watch` looks at the process's sockets. It closes connections of an address that has too many,
  those that read so slowly that the kernel never drops them, and those that carry nothing: granian
  has no timeout for HTTP/2, nor for connections whose protocol is not known yet.
"""

import asyncio
import os
import resource
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from granian._granian import SocketHolder
from granian.server.embed import Server as Granian

from portico.core.networks import Network, is_within
from portico.web.messages import Scope
from portico.web.peers import limited_as
from portico.web.streams import Tcp, borrowed, descriptors, tcp_of

UNSENT_BYTES = 64 * 1024
"""How much of an answer the kernel buffers beyond what it has sent. Data in flight does not count,
so this costs no throughput."""

SLOWEST = 1024
"""Bytes per second that a client must read on average while an answer waits for it."""

SHARE = 4
"""One address never gets more than a fourth of all connections, whatever the setting."""

BACKLOG = 1024
"""The most connections that may wait to be accepted."""

FILES = 65_536
"""The open files that a process asks for: far more than it serves connections."""

_BUSY = 20
"""The watch rests at least this many times as long as its last look took (9 µs per socket)."""

_SLICE = 50
"""How many sockets are looked at, in half a millisecond, before other tasks get a turn."""

_RESET = struct.pack("ii", 1, 0)
"""`SO_LINGER` of zero seconds: closing a connection drops what was not sent."""


class ConnectionTimeouts(NamedTuple):
    """How many seconds the server waits."""

    read: float = 30.0
    """For a client that reads nothing of an answer, or less than `SLOWEST`."""
    look: float = 1.0
    """Between two looks at the connections, at least."""
    renewal: float = 15.0
    """Between two looks at the certificate's files."""
    idle: float = 75.0
    """For traffic of a connection, and for a request's head. Longer than any answer takes, and than
    the minute for which proxies keep idle connections."""


CONNECTION_TIMEOUTS = ConnectionTimeouts()


class Listener(Granian):
    """A granian server whose connections inherit `timeouts` and `UNSENT_BYTES`."""

    def __init__(
        self,
        answer: Callable[[Scope, Any, Sequence[tuple[str, str]]], Awaitable[None]],
        listening: Callable[[], None],
        *,
        timeouts: ConnectionTimeouts,
        before: "Listener | None" = None,
        **named: Any,
    ) -> None:
        """`answer` answers one request, as an `Application` does; `listening` is called once it
        listens. This listener shares the socket, and so the queue, of the one `before` it."""
        super().__init__(self, **named)
        self._answer = answer
        self._on_listening = listening
        self._last: list[tuple[str, str]] = []
        self._timeouts = timeouts
        self._listening: socket.socket | None = None
        if before is not None and before._listening is not None:  # noqa: SLF001 - of the same class
            self._listening = before._listening.dup()  # noqa: SLF001 - the same

    def __rsgi_init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Called by granian before it listens. It does by the time the loop runs this."""
        loop.call_soon(self._on_listening)

    def __rsgi__(self, scope: Scope, proto: Any) -> Awaitable[None]:
        """Called by granian with each request."""
        return self._answer(scope, proto, self._last)

    def close_connections(self) -> None:
        """Ends each HTTP/1.1 connection with its next answer, which says so (RFC 9112 §9.6), to
        granian too. Those of HTTP/2 are told by GOAWAY when the listener stops."""
        self._last[:] = [("connection", "close")]

    @property
    def serves(self) -> bool:
        """Whether it accepts connections."""
        return all(worker.is_alive() for worker in self.wrks)  # type: ignore[no-untyped-call]

    def _init_shared_socket(self) -> None:
        """Hands granian's worker our socket instead of the one that it would create."""
        if self._listening is None:
            self._listening = listening_socket(self.bind_addr, self.bind_port, self._timeouts)
        self._ssp = None
        # The stub lacks the arguments: the descriptor, whether it is a Unix socket, the backlog.
        self._shd = SocketHolder(self._listening.dup().detach(), False, BACKLOG)  # type: ignore[call-arg, assignment]  # noqa: FBT003 - granian's own signature

    def handover(self) -> Callable[[], None]:
        """A function that makes this listener accept no more connections but serve those it has,
        each until its next answer: it replaces the sockets by one that nobody knows. Stopping would
        cut off handshakes, and requests on their way."""
        own = self._listening.fileno() if self._listening else -1
        port = self.bind_port
        sockets = [one for one in descriptors() if one != own and _is_listener(one, port)]

        def hand_over() -> None:
            with socket.socket(socket.AF_UNIX) as nowhere:
                nowhere.settimeout(0)
                nowhere.bind("")  # the kernel picks a name, which nobody knows
                nowhere.listen()
                for one in sockets:
                    os.dup2(nowhere.fileno(), one, inheritable=False)
            self.close_connections()

        return hand_over

    def stop(self) -> None:
        """Accepts no more connections, and ends once all requests are answered."""
        super().stop()  # type: ignore[no-untyped-call]
        if self._listening is not None:
            self._listening.close()


def _is_listener(descriptor: int, port: int) -> bool:
    """Whether a descriptor is a socket that listens on this port."""
    try:
        with borrowed(descriptor) as seen:
            name = seen.getsockname()
            is_at_port = isinstance(name, tuple) and name[1] == port
            return is_at_port and bool(seen.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:  # not a socket
        return False


def listening_socket(host: str, port: int, timeouts: ConnectionTimeouts) -> socket.socket:
    """A bound socket that does not listen yet. Other workers can bind to the same port."""
    made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    made.settimeout(0)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(timeouts.read * 1000))
    made.bind((host, port))
    return made


def file_limit() -> int:
    """How many files this process may open, once `raise_file_limit` was called; at most `FILES`."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)


def raise_file_limit() -> None:
    """Lets this process open as many files as the system allows. granian drops no unfinished
    handshake while it has no descriptor for the next connection, so these must not run out."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < file_limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (file_limit(), hard))


class _Connection(NamedTuple):
    descriptor: int
    port: int
    peer: Any
    tcp: Tcp


class Watch:
    """Closes connections of this process that exceed what a client may have."""

    def __init__(
        self,
        most: Mapping[int, int],
        trusted_proxies: Sequence[Network],
        timeouts: ConnectionTimeouts,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`most` is how many connections one address may have, by local port. An IPv6 /64 network
        counts as one address; trusted proxies are not limited."""
        self._most = most
        self._trusted_proxies = trusted_proxies
        self._timeouts = timeouts
        self._clock = clock
        self._slow: dict[tuple[int, Any], tuple[float, int]] = {}
        self._quiet: dict[tuple[int, Any], tuple[float, int]] = {}

    async def run(self) -> None:
        """Looks at the connections repeatedly until it is cancelled."""
        while True:
            rest = max(self._timeouts.look, await self.look() * _BUSY)
            await asyncio.sleep(rest)

    async def look(self) -> float:
        """Looks at every connection once and closes those that must be closed. Returns how many
        seconds that took, without the time of other tasks."""
        spent = 0.0
        found: list[_Connection] = []
        own = descriptors()
        for start in range(0, len(own), _SLICE):
            began = time.perf_counter()
            found += filter(None, map(self._connection, own[start : start + _SLICE]))
            spent += time.perf_counter() - began
            await asyncio.sleep(0)
        began = time.perf_counter()
        for connection in (*self._excess(found), *self._slowest(found), *self._idle(found)):
            self._end(connection)
        return spent + time.perf_counter() - began

    def _connection(self, descriptor: int) -> _Connection | None:
        """The connection behind a descriptor, or None if it is not one of a listener."""
        try:
            with borrowed(descriptor) as seen:
                name = seen.getsockname()
                if not isinstance(name, tuple) or name[1] not in self._most:
                    return None
                return _Connection(descriptor, name[1], seen.getpeername(), tcp_of(seen))
        except OSError:  # not a socket, a listener, or closed meanwhile
            return None

    def _excess(self, found: Sequence[_Connection]) -> list[_Connection]:
        """Those beyond the limit of their address that were silent longest."""
        callers: dict[tuple[int, str], list[_Connection]] = defaultdict(list)
        for connection in found:
            callers[connection.port, limited_as(connection.peer[0])].append(connection)
        ended: list[_Connection] = []
        for (port, _), theirs in callers.items():
            most = self._most[port]
            if len(theirs) > most and not is_within(theirs[0].peer[0], self._trusted_proxies):
                theirs.sort(key=lambda one: one.tcp.silent)
                ended += theirs[most:]
        return ended

    def _slowest(self, found: Sequence[_Connection]) -> list[_Connection]:
        """The connections for which an answer waits too long, although they read a little."""
        now = self._clock()
        before, self._slow = self._slow, {}
        ended: list[_Connection] = []
        for connection in found:
            if not connection.tcp.unsent:
                continue
            key = connection.descriptor, connection.peer
            since, received = before.get(key, (now, connection.tcp.received))
            if now - since >= self._timeouts.read:
                if connection.tcp.received - received < SLOWEST * (now - since):
                    ended.append(connection)
                    continue
                since, received = now, connection.tcp.received
            self._slow[key] = since, received
        return ended

    def _idle(self, found: Sequence[_Connection]) -> list[_Connection]:
        """The connections that have carried nothing for too long."""
        now = self._clock()
        before, self._quiet = self._quiet, {}
        ended: list[_Connection] = []
        for connection in found:
            key = connection.descriptor, connection.peer
            traffic = connection.tcp.received + connection.tcp.sent
            since, earlier = before.get(key, (now, traffic))
            since = since if traffic == earlier else now
            self._quiet[key] = since, traffic
            if now - since >= self._timeouts.idle:
                ended.append(connection)
        return ended

    def _end(self, connection: _Connection) -> None:
        """Closes a connection, if the descriptor still belongs to it."""
        seen = self._connection(connection.descriptor)
        if seen is None or seen.peer != connection.peer:
            return
        with suppress(OSError), borrowed(connection.descriptor) as ending:  # closed meanwhile
            ending.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            ending.shutdown(socket.SHUT_RDWR)
