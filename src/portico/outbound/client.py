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
    EMPTY_PAYLOAD,
    AddrInfoType,
    ClientConnectionError,
    ClientConnectorCertificateError,
    ClientConnectorDNSError,
    ClientConnectorError,
    ClientError,
    ClientOSError,
    ClientPayloadError,
    ClientRequest,
    ClientResponse,
    ClientResponseError,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    ServerDisconnectedError,
    StreamReader,
    TCPConnector,
)
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError
from yarl import URL

from portico.core.errors import PorticoError
from portico.core.networks import Destinations
from portico.outbound.exchange import Document, HttpReply, LookUp, ServiceRequest, Unsent

ANSWER_BYTES = 1024

KEPT_SECONDS = 4.0
"""How long an idle connection is kept: less than the 5 s of common servers, so that they seldom
close it while the next delivery is being sent."""


NO_LIMIT = ClientTimeout(total=None)

MOST_ANSWERS = 10
"""How many responses a request may have: interim ones (RFC 9110 §15.2) and the final one."""

MOST_PER_HOST = 100
"""Connections per host for plain requests, so that a host that hangs does not block others."""

PIECE_BYTES = 4096
"""How many bytes are parsed at once: a few hundred interim responses."""

_HEAD_END = re.compile(rb"\n\r?\n")


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


class Answered:
    """The head of a service's answer, and its body as it comes."""

    def __init__(self, connection: Connection, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds
        self._deadline: asyncio.TimerHandle | None = None
        self._sending: asyncio.Task[None] | None = None
        self._content: StreamReader = EMPTY_PAYLOAD
        self.status = 0
        self.headers: Sequence[tuple[bytes, bytes]] = ()
        self.fault: Exception | None = None
        """What the request's body has raised."""

    async def begin(self, request: ServiceRequest, host: str | None) -> None:
        """Sends the request, and waits for the head of the answer. Raises errors of aiohttp, and
        `TimeoutError`."""
        protocol, transport = self._connection.protocol, self._connection.transport
        if protocol is None or transport is None:
            raise ServerDisconnectedError
        protocol.set_response_params(
            skip_payload=request.method == "HEAD", read_until_eof=True, auto_decompress=False
        )
        lines = "".join([f"{name}: {value}\r\n" for name, value in request.headers])
        first = f"{request.method} {request.target} HTTP/1.1\r\nhost: {host}\r\n"
        transport.write(f"{first}{lines}\r\n".encode("ascii"))
        if request.body is None:
            self._wait(protocol)
        else:
            sending = self._send(request.body, protocol, transport, chunked=request.chunked)
            self._sending = asyncio.create_task(sending)
        while self.status < 200:  # interim answers (RFC 9110 §15.2)
            message, self._content = await protocol.read()
            if message.upgrade:
                raise HttpProcessingError(message="an upgrade that nobody asked for")
            self.status, self.headers = message.code, message.raw_headers
        self._stop_waiting()
        self._content.on_eof(self._release)

    @property
    def whole(self) -> bytes | None:
        """The body, if all of it has come with the head."""
        return self._content.read_nowait() if self._content.is_eof() else None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body. Raises an error of aiohttp if it breaks off."""
        while piece := await self._content.readany():
            yield piece

    def close(self) -> None:
        """Ends the exchange; if both bodies came to their ends, the connection stays open."""
        self._stop_waiting()
        if self._sending is not None:
            self._sending.cancel()
        self._connection.close()

    def _wait(self, protocol: ResponseHandler) -> None:
        """The head must arrive in time from now on, unless it has. A timer costs a fifth of what
        `asyncio.timeout` does."""
        self._stop_waiting()
        if self.status >= 200:
            return
        call_later = asyncio.get_running_loop().call_later
        self._deadline = call_later(self._seconds, protocol.set_exception, TimeoutError())

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _release(self) -> None:
        if self._sending is None or self._sending.done():
            self._connection.release()

    async def _send(
        self,
        body: AsyncGenerator[bytes, None],
        protocol: ResponseHandler,
        transport: asyncio.Transport,
        *,
        chunked: bool,
    ) -> None:
        """Sends a body as the service takes it; aborts the connection if the body breaks off."""
        try:
            async for part in body:
                transport.write(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
                self._wait(protocol)
                await protocol._drain_helper()  # noqa: SLF001 - aiohttp has no other name for it
                self._stop_waiting()  # for the service: the client's next part has its own time
            if chunked:
                transport.write(b"0\r\n\r\n")
            self._wait(protocol)
        except Exception as error:  # noqa: BLE001 - raised where the answer is waited for
            self.fault = error
            transport.abort()


class ForwardClient:
    """The client of services behind Portico, to any address that the operator has set. It uses
    aiohttp's connections and parser without its requests and responses, which would cost as much
    as all else that a forwarded request needs."""

    def __init__(self, tls: ssl.SSLContext) -> None:
        """`tls` has the trusted authorities."""
        self._connector = _bounded(TCPConnector(ssl=tls, limit=0, keepalive_timeout=KEPT_SECONDS))
        self._places: dict[str, ClientRequest] = {}
        """What aiohttp connects by, for each origin."""

    async def send(self, origin: str, request: ServiceRequest, seconds: float) -> Answered:
        """The answer, once its head has arrived. The service has `seconds` to take each part of the
        request's body, and after the last one to answer. Raises `Unsent`, `TimeoutError`, and what
        the body raises."""
        place = self._places.get(origin)
        if place is None:
            place = self._places[origin] = ClientRequest("GET", URL(origin))
        try:
            limit = ClientTimeout(connect=seconds)
            connection = await self._connector.connect(place, [], limit)
        except TimeoutError:
            raise
        except (ClientError, OSError) as error:
            raise Unsent(_reason(error)) from error
        answered = Answered(connection, seconds)
        try:
            await answered.begin(request, place.url.host_port_subcomponent)
        except BaseException as error:
            answered.close()
            if isinstance(answered.fault, PorticoError):  # the body's, not the service's
                raise answered.fault from None
            if isinstance(error, ClientError | HttpProcessingError):
                raise Unsent(_reason(error)) from error
            raise
        return answered

    async def close(self) -> None:
        """Ends all connections."""
        await self._connector.close()


def _session(connector: TCPConnector, **headers: str) -> ClientSession:
    return ClientSession(
        connector=_bounded(connector),
        timeout=NO_LIMIT,
        cookie_jar=DummyCookieJar(),
        auto_decompress=False,
        headers={"accept-encoding": "identity", **headers},
    )


def _bounded(connector: TCPConnector) -> TCPConnector:
    made: type[ResponseHandler] = _BoundedHandler
    protocol = partial(made, loop=asyncio.get_running_loop())
    connector._factory = protocol  # noqa: SLF001 - aiohttp has no other place for it
    return connector


class _BoundedHandler(ResponseHandler):
    """A connection that is aborted when too many interim responses arrive, or any that nobody
    requested: aiohttp would create objects of all of them, read on, and take the latter for the
    answer to the next request."""

    _answers = 0
    _body: StreamReader | None = None
    """The body of the answer, once its head has arrived."""

    def set_response_params(self, **params: Any) -> None:
        """See `ResponseHandler`. Called when another request begins."""
        self._answers, self._body = 0, None
        super().set_response_params(**params)

    def close(self) -> None:
        """See `ResponseHandler`. Aborts, because closing TLS would wait half a minute for the
        server, read whatever it sends meanwhile, and keep data that it never reads."""
        self.abort()

    def data_received(self, data: bytes) -> None:
        """See `ResponseHandler`; `data` is empty to continue with what was held back. The head of a
        response is passed on separately: if aiohttp got it together with invalid data, it would
        drop both, and not report the error to the reader of the body."""
        if data and self._body is not None and self._body.is_eof():
            self.abort()
            return
        ends = [found.end() for found in islice(_HEAD_END.finditer(data), MOST_ANSWERS)]
        if data.startswith((b"\r\n", b"\n")):  # the line before may be in an earlier piece
            ends.insert(0, data.index(b"\n") + 1)
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
        if self._answers <= MOST_ANSWERS and self._body is None:
            message, body = data
            self._body = body if message.code >= 200 else None
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
    if isinstance(error, ClientResponseError | HttpProcessingError):
        return "its answer is not valid HTTP"
    if isinstance(error, ClientPayloadError):
        return "its answer is incomplete"
    if isinstance(error, TimeoutError):
        return "no answer came in time"
    if isinstance(error, ClientConnectionError | OSError):
        return "it closed the connection without an answer"
    return type(error).__name__
