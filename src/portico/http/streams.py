"""Streamed replies: each is sent as it is generated, until it ends, the client disconnects or the
server stops."""

import asyncio
import logging
from contextlib import aclosing
from typing import Any

from portico.domain.errors import AuthenticationRequired
from portico.http.messages import Request, Scope, Stream
from portico.http.sockets import Outgoing

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
