"""The HTTP clients, made with aiohttp. That of deliveries checks every address before it
connects."""

import asyncio
import os
import re
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping, Sequence
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

from portico.core.networks import Destinations
from portico.outbound.exchange import Document, HttpReply, LookUp, Unsent

ANSWER_BYTES = 1024

KEPT_SECONDS = 4.0
"""How long an idle connection is kept: less than the 5 s of common servers, so that they seldom
close it while the next delivery is being sent."""


MOST_ANSWERS = 10
"""How many responses a request may have: interim ones (RFC 9110 §15.2) and the final one."""

MOST_PER_HOST = 100
"""Connections per host for plain requests, so that a host that hangs does not block others."""

PIECE_BYTES = 4096
"""How many bytes are parsed at once: a few hundred interim responses."""

_BLANK_LINE = re.compile(rb"(?:\A|(?<=\n))\r?\n")
"""The end of a response's head. The line before it may be in an earlier piece."""


class _Attempt:
    """The state of the connection for one request: whether a new one was `opened`, and why an
    address was `refused`."""

    def __init__(self, *, encrypted: bool) -> None:
        self.encrypted = encrypted
        self.opened = False
        self.refused: str | None = None


_attempt: ContextVar[_Attempt] = ContextVar("attempt")


class HttpClient:
    """The client of deliveries: no cookies, redirects, decompression, or proxy from the
    environment variables."""

    def __init__(self, destinations: Destinations, look_up: LookUp, tls: ssl.SSLContext) -> None:
        """`tls` has the trusted authorities."""
        self._destinations = destinations
        self._session = _session(
            TCPConnector(
                resolver=_Resolver(look_up),
                # Names are looked up for each connection, once at a time for each name.
                ttl_dns_cache=0,
                ssl=tls,
                limit=0,  # the callers bound the number of requests
                keepalive_timeout=KEPT_SECONDS,
                socket_factory=self._socket,
            ),
        )

    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes, *, until: float
    ) -> HttpReply:
        """The answer to a POST: its status, and as much of the first KiB of its body as arrives
        `until` this time of the loop's clock. Raises `Unsent` if no status arrives by then."""
        response: ClientResponse | None = None
        answer = b""
        try:
            async with asyncio.timeout_at(until):
                response = await self._answered("POST", URL(url, encoded=True), headers, body)
                arrived = asyncio.get_running_loop().time()
                content = response.content
                while len(answer) < ANSWER_BYTES and not content.at_eof():
                    answer += await content.read(ANSWER_BYTES - len(answer))
        except (ClientError, OSError) as error:
            if response is None:
                raise Unsent(_reason(error)) from None
        finally:
            if response is not None:
                response.close()  # if the answer was read to its end, its connection stays open
        return HttpReply(response.status, response.headers.get("retry-after"), answer, arrived)

    async def get(self, url: str, *, longest: int, until: float) -> Document:
        """The answer to a GET, whole, `until` this time of the loop's clock. Raises `Unsent`."""
        response: ClientResponse | None = None
        body = b""
        try:
            async with asyncio.timeout_at(until):
                headers = {"accept": "application/json"}
                response = await self._answered("GET", URL(url, encoded=True), headers, None)
                while len(body) <= longest and (part := await response.content.read(longest)):
                    body += part
        except (ClientError, OSError) as error:
            raise Unsent(_reason(error)) from None
        finally:
            if response is not None:
                response.close()
        return Document(response.status, response.headers.get("cache-control", ""), body)

    async def close(self) -> None:
        """Ends all connections."""
        await self._session.close()

    async def _answered(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None
    ) -> ClientResponse:
        """The response, once its head has arrived."""
        was_no_answer = False
        while True:
            attempt = _Attempt(encrypted=url.scheme == "https")
            _attempt.set(attempt)
            try:
                return await self._session.request(
                    method, url, data=body, headers=headers, allow_redirects=False
                )
            except ClientConnectorError:
                if attempt.refused and not attempt.opened:
                    raise Unsent(attempt.refused) from None
                raise
            except (ClientOSError, ClientResponseError, ServerDisconnectedError) as error:
                # A receiver may close a kept connection at any time (RFC 9112 §9.3.1), or leave
                # part of its last answer on it. The delivery is then sent again, over the next kept
                # connection and finally over a new one. But an invalid answer may be meant for this
                # delivery, so after one of those it is sent only once more.
                is_no_answer = isinstance(error, ClientResponseError)
                if attempt.opened or (is_no_answer and was_no_answer):
                    raise
                was_no_answer = was_no_answer or is_no_answer

    def _socket(self, address_info: AddrInfoType) -> socket.socket:
        """Creates the socket for one address of a host, if it is permitted. Checked here, because
        this is the very address that is connected to, whenever it was looked up."""
        family, kind, protocol, _, place = address_info
        attempt = _attempt.get()
        address = ip_address(place[0])
        if not self._destinations.permits(address, encrypted=attempt.encrypted):
            attempt.refused = f"its host leads to {address}, " + (
                "which is not a public address" if attempt.encrypted else "which requires https"
            )
            raise PermissionError(attempt.refused)
        attempt.opened = True
        return socket.socket(family, kind, protocol)


class PlainClient:
    """A client of JSON APIs, to any address."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        """`tls` has the trusted authorities."""
        connector = TCPConnector(ssl=tls, limit=0, limit_per_host=MOST_PER_HOST)
        self._session = _session(connector, accept="application/json")

    async def fetch(
        self, method: str, url: str, headers: Mapping[str, str], *, longest: int, **more: Any
    ) -> tuple[int, bytes]:
        """The status and the body of an answer. Of a body longer than `longest`, a part is returned
        that is longer, too. Raises `Unsent`."""
        body = b""
        try:
            async with self._session.request(
                method, url, headers=headers, allow_redirects=False, **more
            ) as response:
                while len(body) <= longest and (part := await response.content.read(longest)):
                    body += part
        except Exception as error:  # noqa: BLE001 - an untrusted answer may cause any error
            # The library's messages quote the answer, which may contain tokens.
            raise Unsent(_reason(error)) from None
        return response.status, body

    async def close(self) -> None:
        """Ends all connections."""
        await self._session.close()


class ForwardClient:
    """The client of services behind Portico, to any address that the operator has set."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        """`tls` has the trusted authorities."""
        self._session = _session(TCPConnector(ssl=tls, limit=0, keepalive_timeout=KEPT_SECONDS))

    async def send(
        self,
        method: str,
        url: str,
        headers: Sequence[tuple[str, str]],
        body: AsyncGenerator[bytes, None] | None,
    ) -> ClientResponse:
        """The answer, once its head has arrived. Raises `Unsent`."""
        try:
            return await self._session.request(
                method,
                URL(url, encoded=True),
                headers=headers,
                data=body,
                allow_redirects=False,
                skip_auto_headers=("user-agent", "accept", "content-type"),
            )
        except (ClientError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise Unsent(_reason(error)) from error

    async def close(self) -> None:
        """Ends all connections."""
        await self._session.close()


def _session(connector: TCPConnector, **headers: str) -> ClientSession:
    made: type[ResponseHandler] = _BoundedHandler
    protocol = partial(made, loop=asyncio.get_running_loop())
    connector._factory = protocol  # noqa: SLF001 - aiohttp has no other place for it
    return ClientSession(
        connector=connector,
        timeout=ClientTimeout(total=None),
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        headers={"accept-encoding": "identity", **headers},
    )


class _BoundedHandler(ResponseHandler):
    """A connection that is aborted when too many interim or unrequested responses arrive: aiohttp
    would create objects of all of them and read on."""

    _answers = 0

    def set_response_params(self, **params: Any) -> None:
        """See `ResponseHandler`. Called when another request begins."""
        self._answers = 0
        super().set_response_params(**params)

    def close(self) -> None:
        """See `ResponseHandler`. Aborts, because closing TLS would wait half a minute for the
        server, read whatever it sends meanwhile, and keep data that it never reads."""
        self.abort()

    def data_received(self, data: bytes) -> None:
        """See `ResponseHandler`; `data` is empty to continue with what was held back. The head of a
        response is passed on separately: if aiohttp got it together with invalid data, it would
        drop both, and not report the error to the reader of the body."""
        ends = [blank.end() for blank in islice(_BLANK_LINE.finditer(data), MOST_ANSWERS)]
        for first, end in pairwise((0, *ends, len(data))):
            for begin in range(first, end or 1, PIECE_BYTES):
                if self.exception() is None:
                    super().data_received(data[begin : min(begin + PIECE_BYTES, end)])
        body = self._payload
        if self.exception() is not None and body is not None and not body.is_eof():
            body.set_exception(ClientPayloadError())

    def feed_data(self, data: Any, size: int = 0) -> None:
        """See `DataQueue`. Called for each response."""
        self._answers += 1
        if self._answers <= MOST_ANSWERS:
            super().feed_data(data, size)
        elif self.exception() is None:
            self.set_exception(HttpProcessingError(message="too many answers to one request"))
            if self.transport is not None:
                self.transport.abort()


class _Resolver(AbstractResolver):
    """Looks up each name in a thread of its own, so that one that hangs does not block the event
    loop, a delivery after its time limit, a stop, or the look-up of another name."""

    def __init__(self, look_up: LookUp) -> None:
        self._look_up = look_up

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """See `AbstractResolver`."""
        found: Future[Sequence[str]] = Future()
        found.set_running_or_notify_cancel()
        Thread(target=_finish, args=(found, self._look_up, host), daemon=True).start()
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
        """Does nothing: nothing is kept open."""


def _finish(found: Future[Sequence[str]], look_up: LookUp, host: str) -> None:
    try:
        found.set_result(look_up(host))
    except Exception as error:  # noqa: BLE001 - raised where the future is awaited
        found.set_exception(error)


def _reason(error: Exception) -> str:
    """Why there was no answer, for people; contains nothing of what was received."""
    if isinstance(error, ClientConnectorCertificateError):
        cause = error.certificate_error
        why = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else cause
        return f"its certificate cannot be verified: {why}"
    if isinstance(error, ssl.SSLError):
        return "the TLS handshake with it failed"
    if isinstance(error, ClientConnectorDNSError):
        return f"its host name cannot be resolved: {error.strerror}"
    if isinstance(error, ClientConnectorError):
        return os.strerror(error.errno) if error.errno else "none of its addresses can be reached"
    if isinstance(error, ClientResponseError):
        return "its answer is not valid HTTP"
    if isinstance(error, ClientPayloadError):
        return "its answer is incomplete"
    if isinstance(error, TimeoutError):
        return "no answer came in time"
    if isinstance(error, ClientConnectionError | OSError):
        return "it closed the connection without an answer"
    return type(error).__name__
