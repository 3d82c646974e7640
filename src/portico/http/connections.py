"""The connections that have sent a request, and the state of those that use HTTP/2 (RFC 9113).

An HTTP/2 connection has many requests at once, and a client that takes no answers closes a
flow-control window that the kernel does not see. So the bytes of answers are counted here, and the
bytes that the client has received according to the kernel are subtracted.
"""

import time
from collections.abc import Callable, Iterable

from portico.http.messages import Reply, Scope


class Http2State:
    """The requests and unreceived answers of one HTTP/2 connection."""

    __slots__ = ("_clock", "_received", "idle_since", "under_way", "waiting")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.under_way = 0
        """Its requests in progress, including those with an open stream."""
        self.idle_since = clock()
        """When the last of them ended."""
        self.waiting = 0
        """At least how many bytes of bodies were passed to the HTTP server and not received by the
        client. It is a lower bound because received headers and frames count as body bytes."""
        self._received = 0

    def sent(self, method: str, reply: Reply) -> bytes:
        """The part of a reply's body to send, which counts as waiting from now on. For HEAD that is
        none, only its length: the HTTP server omits bodies itself only over HTTP/1.1."""
        body = reply.body
        if body and method == "HEAD":
            reply.headers.append(("content-length", str(len(body))))
            body = b""
        self.waiting += len(body)
        return body

    def end(self) -> None:
        """Notes that a request has ended."""
        self.under_way -= 1
        self.idle_since = self._clock()

    def settle(self, received: int) -> None:
        """Subtracts what the client has received since the last call. `received` is the total. A
        smaller one than before is that of another connection from the same port: then nothing is
        subtracted."""
        if received > self._received:
            self.waiting = max(0, self.waiting - (received - self._received))
            self._received = received


class Connections:
    """The connections of one process, by the client's address and port as the HTTP server spells
    them (RSGI)."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, Http2State | None] = {}

    def begin(self, client: str, scope: Scope) -> Http2State | None:
        """Notes a request from a client. Returns the state of its connection, None unless that uses
        HTTP/2.

        A client may use one port for a connection over HTTP/1.1 before, or beside, one over HTTP/2.
        """
        try:
            carried = self._known[client]
        except KeyError:
            carried = self._known[client] = None
        if carried is None:
            if scope.http_version != "2":
                return None
            carried = self._known[client] = Http2State(self._clock)
        carried.under_way += 1
        return carried

    def known(self) -> dict[str, Http2State | None]:
        """All connections that have sent a request, with None for those not using HTTP/2."""
        return dict(self._known)

    def forget(self, clients: Iterable[str]) -> None:
        """Drops closed connections."""
        for client in clients:
            self._known.pop(client, None)
