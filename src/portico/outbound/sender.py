"""Sends deliveries of webhooks: one POST each, with a time limit, and only to permitted
addresses."""

import asyncio
import logging
import re
import socket
import ssl
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Protocol

import msgspec

from portico.core.networks import Destinations
from portico.core.times import Clock
from portico.outbound.exchange import Document, Lazy, LookUp, Unsent

if TYPE_CHECKING:
    from portico.outbound.client import HttpClient

SECONDS = 15.0
"""How long it may take to get the status of the answer, including looking up the host's name."""

log = logging.getLogger(__name__)


class DeliveryOutcome(msgspec.Struct, frozen=True):
    """The outcome of sending one delivery once.

    `status` is that of the answer, which may be a redirect; None if none arrived in time, and then
    `error` says why, for people. `answer` is the untrusted body, at most 1 KiB of it.
    `milliseconds` is the time until the status or the failure. `retry_after` is how long the
    receiver asks to wait, in seconds, without a bound.
    """

    status: int | None
    error: str | None
    answer: str
    milliseconds: int
    retry_after: int | None


class Sends(Protocol):
    """Sends deliveries."""

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryOutcome:
        """POSTs a body once. Raises only when it is cancelled."""
        ...


def look_up(name: str) -> list[str]:
    """The addresses of a name, from the system's resolver."""
    return [str(place[0]) for *_, place in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]


class Sender:
    """Sends deliveries over connections that are kept for the next one to the same host."""

    def __init__(
        self,
        destinations: Destinations,
        clock: Clock,
        *,
        tls: ssl.SSLContext | None = None,
        look_up: LookUp = look_up,
        seconds: float = SECONDS,
    ) -> None:
        """`tls` has the trusted authorities; None: the system's."""
        self._clock = clock
        self._seconds = seconds
        self._client: Lazy[HttpClient] = Lazy("HttpClient", tls, destinations, look_up)

    async def send(self, url: str, headers: Mapping[str, str], body: bytes) -> DeliveryOutcome:
        """POSTs `body` to a URL that `Destinations.check_url` accepts.

        Simultaneous deliveries each use a connection of their own. A delivery may reach its
        receiver twice, if a kept connection is closed while it is sent or returns an invalid
        answer.
        """
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            client = await self._client.get()
            started = loop.time()
            reply = await client.post(url, headers, body, until=started + self._seconds)
        except Unsent as error:
            return self._failed(error.reason, started)
        except Exception:
            log.exception("a delivery could not be sent")
            return self._failed("it could not be sent: see the log", started)
        return DeliveryOutcome(
            status=reply.status,
            error=None,
            # PostgreSQL stores no NUL.
            answer=reply.body.decode(errors="replace").replace("\0", "\ufffd"),
            milliseconds=round((reply.arrived - started) * 1000),
            retry_after=_retry_after(reply.retry_after, self._clock()),
        )

    async def read(self, url: str, *, longest: int, seconds: float) -> Document:
        """The document at a URL that `Destinations.check_url` accepts, without redirects. Raises
        `Unsent`."""
        client = await self._client.get()
        until = asyncio.get_running_loop().time() + seconds
        return await client.get(url, longest=longest, until=until)

    async def close(self) -> None:
        """Closes the kept connections."""
        await self._client.close()

    def _failed(self, reason: str, started: float) -> DeliveryOutcome:
        milliseconds = round((asyncio.get_running_loop().time() - started) * 1000)
        return DeliveryOutcome(None, reason, "", milliseconds, None)


def _retry_after(text: str | None, now_ms: int) -> int | None:
    """The seconds of a `Retry-After` (RFC 9110 §10.2.3): a number, or the time until a date."""
    if text is None:
        return None
    if re.fullmatch(r"[0-9]{1,10}", text):
        return int(text)
    try:
        date = parsedate_to_datetime(text)
        # A date without a time zone is in GMT.
        seconds = date.replace(tzinfo=date.tzinfo or UTC).timestamp() - now_ms / 1000
    except (ValueError, OverflowError):
        return None
    return max(0, round(seconds))
