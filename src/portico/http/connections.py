"""The connections that have sent a request, and what those of HTTP/2 carry (RFC 9113).

Such a connection has many requests at once, and a client that takes no answer shows in a window of
its own, where the kernel does not see it. So what is answered is counted, and what the kernel says
that the client has received is taken off.
"""

import time
from collections.abc import Callable, Iterable

from portico.http.messages import Reply, Scope


class Carried:
    """What one connection of HTTP/2 carries."""

    __slots__ = ("_clock", "_received", "idle_since", "under_way", "waiting")

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.under_way = 0
        """Its requests, those included whose answer goes on."""
        self.idle_since = clock()
        """When the last of them ended."""
        self.waiting = 0
        """Bytes of bodies that were handed to the server and that the client has not received, at
        least: what is sent beside them is taken for a part of them."""
        self._received = 0

    def sent(self, method: str, reply: Reply) -> bytes:
        """What is sent of a reply's body, which waits from now on. To HEAD that is nothing but its
        length: the server leaves bodies out over HTTP/1.1, and not here."""
        body = reply.body
        if body and method == "HEAD":
            reply.headers.append(("content-length", str(len(body))))
            body = b""
        self.waiting += len(body)
        return body

    def end(self) -> None:
        """A request has ended."""
        self.under_way -= 1
        self.idle_since = self._clock()

    def settle(self, received: int) -> None:
        """Takes off what the client has received since, which has `received` bytes in all."""
        self.waiting = max(0, self.waiting - (received - self._received))
        self._received = received


class Connections:
    """Those of one process, by the client's address and port as the server tells them (RSGI)."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, Carried | None] = {}

    def begin(self, client: str, scope: Scope) -> Carried | None:
        """Notes that a request has come from a client. What its connection carries, with it; None
        where that is none of HTTP/2."""
        try:
            carried = self._known[client]
        except KeyError:
            carried = Carried(self._clock) if scope.http_version == "2" else None
            self._known[client] = carried
        if carried is not None:
            carried.under_way += 1
        return carried

    def known(self) -> dict[str, Carried | None]:
        """All that have sent a request, None for those that are none of HTTP/2."""
        return dict(self._known)

    def forget(self, clients: Iterable[str]) -> None:
        """These are no more."""
        for client in clients:
            self._known.pop(client, None)
