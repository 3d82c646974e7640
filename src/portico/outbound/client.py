"""The HTTP client: sessions of aiohttp, and that of deliveries, which looks at every address before
it connects to it."""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from functools import partial
from ipaddress import ip_address
from itertools import islice, pairwise
from threading import Thread
from typing import Any

from aiohttp import (
    AddrInfoType,
    ClientConnectionError,
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientError,
    ClientOSError,
    ClientPayloadError,
    ClientResponse,
    ClientResponseError,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    ServerDisconnectedError,
    TCPConnector,
)
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError
from yarl import URL

from portico.domain.networks import Destinations
from portico.outbound.exchange import LookUp, Reply, Unsent

ANSWER_BYTES = 1024

KEPT_SECONDS = 4.0
"""How long an idle connection is kept: less than the 5 s of common servers, so that it is seldom
ended by them while the next delivery is on its way."""


MOST_ANSWERS = 10
"""How many answers a request may have: provisional ones (RFC 9110 §15.2) and the final one."""

MOST_PER_HOST = 100
"""Connections for plain requests, of each host, so that one that hangs holds up no other."""

PIECE_BYTES = 4096
"""How much is looked through at once: a few hundred provisional answers."""

_BLANK_LINE = re.compile(rb"(?:\A|(?<=\n))\r?\n")
"""The end of a head, of which the line before may have come earlier."""


class _Attempt:
    """What became of the connection for one request."""

    def __init__(self, *, encrypted: bool) -> None:
        self.encrypted = encrypted
        self.opened = False
        self.refused: str | None = None


_attempt: ContextVar[_Attempt] = ContextVar("attempt")


class Client:
    """A session of aiohttp without cookies, redirects, decompression, or a proxy that the
    environment names."""

    def __init__(self, destinations: Destinations, look_up: LookUp, tls: ssl.SSLContext) -> None:
        """`tls` is whom to believe."""
        self._destinations = destinations
        self._session = _session(
            TCPConnector(
                resolver=_Resolver(look_up),
                # Names are looked up anew for each connection, but one at a time.
                ttl_dns_cache=0,
                ssl=tls,
                limit=0,  # whoever sends bounds how many there are
                keepalive_timeout=KEPT_SECONDS,
                socket_factory=self._socket,
            ),
        )

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, until: float
    ) -> Reply:
        """The answer to a POST: its status, and what comes of the first KiB of its body `until` a
        time of the loop's clock. Raises `Unsent` where no status came by then."""
        response: ClientResponse | None = None
        answer = b""
        try:
            async with asyncio.timeout_at(until):
                response = await self._answered(URL(url, encoded=True), headers, body)
                arrived = asyncio.get_running_loop().time()
                content = response.content
                while len(answer) < ANSWER_BYTES and not content.at_eof():
                    answer += await content.read(ANSWER_BYTES - len(answer))
        except (ClientError, OSError) as error:
            if response is None:
                raise Unsent(_reason(error)) from None
        finally:
            if response is not None:
                response.close()  # a connection whose answer has ended is kept already
        return Reply(response.status, response.headers.get("retry-after"), answer, arrived)

    async def close(self) -> None:
        """Ends all connections."""
        await self._session.close()

    async def _answered(self, url: URL, headers: Mapping[str, str], body: bytes) -> ClientResponse:
        """The answer, when its head is there."""
        was_no_answer = False
        while True:
            attempt = _Attempt(encrypted=url.scheme == "https")
            _attempt.set(attempt)
            try:
                return await self._session.post(
                    url, data=body, headers=headers, allow_redirects=False
                )
            except ClientConnectorError:
                if attempt.refused and not attempt.opened:
                    raise Unsent(attempt.refused) from None
                raise
            except (ClientOSError, ClientResponseError, ServerDisconnectedError) as error:
                # A receiver may end a connection that was kept at any time (RFC 9112 §9.3.1), or
                # leave something of its last answer there; the delivery goes out again, over the
                # next one or in the end over a new one. But what is no answer may be meant as one
                # to this delivery, so that it goes out for that once more only.
                is_no_answer = isinstance(error, ClientResponseError)
                if attempt.opened or (is_no_answer and was_no_answer):
                    raise
                was_no_answer = was_no_answer or is_no_answer

    def _socket(self, address_info: AddrInfoType) -> socket.socket:
        """Makes the socket for one address of a host: for the very one that is connected to next,
        whoever looked it up, and whenever."""
        family, kind, protocol, _, place = address_info
        attempt = _attempt.get()
        address = ip_address(place[0])
        if not self._destinations.permits(address, encrypted=attempt.encrypted):
            attempt.refused = f"its host leads to {address}, " + (
                "which is not a public address" if attempt.encrypted else "which needs https"
            )
            raise PermissionError(attempt.refused)
        attempt.opened = True
        return socket.socket(family, kind, protocol)


class PlainClient:
    """The same for requests for JSON, to wherever they are sent."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        """`tls` is whom to believe."""
        connector = TCPConnector(ssl=tls, limit=0, limit_per_host=MOST_PER_HOST)
        self._session = _session(connector, accept="application/json")

    async def fetch(
        self, method: str, url: str, headers: Mapping[str, str], *, longest: int, **more: Any
    ) -> tuple[int, bytes]:
        """The status and the body of an answer; of one that is longer than `longest`, a longer part
        than that. Raises `Unsent`."""
        body = b""
        try:
            async with self._session.request(
                method, url, headers=headers, allow_redirects=False, **more
            ) as response:
                while len(body) <= longest and (part := await response.content.read(longest)):
                    body += part
        except Exception as error:  # noqa: BLE001 - whatever a stranger's answer has led to
            # The library's own texts quote the answer, and with it tokens.
            raise Unsent(_reason(error)) from None
        return response.status, body

    async def close(self) -> None:
        """Ends all connections."""
        await self._session.close()


def _session(connector: TCPConnector, **headers: str) -> ClientSession:
    made: type[ResponseHandler] = _Bounded
    protocol = partial(made, loop=asyncio.get_running_loop())
    connector._factory = protocol  # noqa: SLF001 - aiohttp has no other place for it
    return ClientSession(
        connector=connector,
        timeout=ClientTimeout(total=None),
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        headers={"accept-encoding": "identity", **headers},
    )


class _Bounded(ResponseHandler):
    """A connection that ends where provisional answers, or such as nobody asked for, come without
    end: aiohttp makes all of them that have arrived into objects at once, and reads on."""

    _answers = 0

    def set_response_params(self, **params: Any) -> None:
        """See `ResponseHandler`: another request begins."""
        self._answers = 0
        super().set_response_params(**params)

    def close(self) -> None:
        """See `ResponseHandler`; without a farewell. Over TLS another one would be waited for, half
        a minute, and read whatever comes meanwhile; and what a server never reads would be kept."""
        self.abort()

    def data_received(self, data: bytes) -> None:
        """See `ResponseHandler`; empty where what was held back is to be read. The head of an
        answer goes by itself: aiohttp drops it with what is wrong behind it, where both came at
        once, and tells nobody who reads the body of what is wrong there."""
        ends = [blank.end() for blank in islice(_BLANK_LINE.finditer(data), MOST_ANSWERS)]
        for first, end in pairwise((0, *ends, len(data))):
            for begin in range(first, end or 1, PIECE_BYTES):
                if self.exception() is None:
                    super().data_received(data[begin : min(begin + PIECE_BYTES, end)])
        body = self._payload
        if self.exception() is not None and body is not None and not body.is_eof():
            body.set_exception(ClientPayloadError())

    def feed_data(self, data: Any, size: int = 0) -> None:
        """See `DataQueue`: another answer."""
        self._answers += 1
        if self._answers <= MOST_ANSWERS:
            super().feed_data(data, size)
        elif self.exception() is None:
            self.set_exception(HttpProcessingError(message="too many answers to one request"))
            if self.transport is not None:
                self.transport.abort()


class _Resolver(AbstractResolver):
    """Looks names up in threads that nobody waits for: neither the event loop, nor a delivery whose
    time is over, nor a stop, nor the look-up of another name behind one that hangs."""

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """See `AbstractResolver`."""
        found: Future[Sequence[str]] = Future()
        found.set_running_or_notify_cancel()
        Thread(target=_settle, args=(found, self._look_up, host), daemon=True).start()
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=family,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await asyncio.wrap_future(found)
        ]

    async def close(self) -> None:
        """Nothing is kept."""


def _settle(found: Future[Sequence[str]], look_up: LookUp, host: str) -> None:
    try:
        found.set_result(look_up(host))
    except Exception as error:  # noqa: BLE001 - whoever waits for the future raises it
        found.set_exception(error)


def _reason(error: Exception) -> str:
    """Why there was no answer, in words for people, with nothing of what came."""
    if isinstance(error, ClientConnectorCertificateError):
        cause = error.certificate_error
        why = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else cause
        return f"its certificate cannot be verified: {why}"
    if isinstance(error, ssl.SSLError):
        return "it speaks no TLS that can be agreed upon"
    if isinstance(error, ClientConnectorDNSError):
        return f"its host's name cannot be looked up: {error.strerror}"
    if isinstance(error, ClientConnectorError):
        return os.strerror(error.errno) if error.errno else "each of its addresses fails"
    if isinstance(error, ClientResponseError):
        return "it answered with something else than HTTP"
    if isinstance(error, ClientPayloadError):
        return "its answer is not whole"
    if isinstance(error, TimeoutError):
        return "no answer came in time"
    if isinstance(error, ClientConnectionError | OSError):
        return "it ended the connection without an answer"
    return type(error).__name__
