"""The two drivers that run flows over httpx: a synchronous one, and one for asyncio."""

import asyncio
import contextlib
import inspect
import random
import socket
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib.metadata import version
from typing import Any, Generic, Self, TypedDict, TypeVar
from urllib.request import getproxies

import httpx

from portico_client.connection import Authorities, trusted
from portico_client.errors import (
    ConnectionFailed,
    PorticoError,
    UnexpectedAnswer,
    UntrustedCertificate,
)
from portico_client.flow import Alone, Flow, Part, Pause, Request, Response, Shut, Tell, Wanted
from portico_client.retries import MOST, Retries

T = TypeVar("T")
NEVER = threading.Event()
"""An event that is never set."""

TURN_SECONDS = 0.1
"""How long a thread waits for its turn before it checks whether it was closed."""

Http = TypeVar("Http", httpx.Client, httpx.AsyncClient)
Parts = TypeVar("Parts", Iterator[bytes], AsyncIterator[bytes])

AT_ONCE = 50
"""How many requests of a client may be under way at once, besides streams; others wait. The pool of
httpx could count them too, but for each request it looks at all that wait: a thousand take a
minute."""

SILENCE_SECONDS = 45.0
"""A stream without data for so long counts as broken: the service sends a comment every 15
seconds."""


LARGEST = 2**28
"""The largest response, in bytes after decompression. With the server's default `body_limit`, any
page of 100 events is smaller."""


class _Options(TypedDict, total=False):
    ca: Authorities
    timeout: float
    retries: int
    patience: float
    clock: Callable[[], float]
    random: Callable[[], float]


class Options(_Options, total=False):
    """Options of all classes that send requests.

    - `ca`: a PEM file of authorities to trust, or an `ssl.SSLContext`. Default: the file named by
      `PORTICO_CA`, or the authorities that httpx trusts.
    - `timeout`: seconds to wait for a connection, and for each part of a response. Default: 30.
    - `retries`: the maximum number of retries of a request, 0 to 3. Default: 3.
    - `patience`: the longest `Retry-After` to wait for, in seconds; a longer one raises the error
      immediately. Default: 60, which is enough for the minute's window.
    - `clock`, `sleep`, `random`: replace the time in Unix seconds, the waiting, and random numbers
      from 0 to 1 in tests.
    - `transport`: replaces httpx's own transport.
    """

    sleep: Callable[[float], None]
    transport: httpx.BaseTransport


class AsyncOptions(_Options, total=False):
    """`Options`, for asyncio."""

    sleep: Callable[[float], Awaitable[None]]
    transport: httpx.AsyncBaseTransport


@dataclass(frozen=True, slots=True)
class Body(Generic[Parts]):
    """The unread body of a streamed response."""

    answer: httpx.Response
    parts: Parts

    def wake(self) -> None:
        """Makes a thread that waits for the next part find the end."""
        stream = self.answer.extensions.get("network_stream")
        connection = stream and stream.get_extra_info("socket")
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Collected:
    """Collects a response body up to the size limit."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, part: bytes) -> None:
        """Adds a part. Raises `UnexpectedAnswer` if the body becomes too large."""
        self._parts.append(part)
        self._size += len(part)
        if self._size > LARGEST:
            where = f"{self._request.method} {self._request.url.partition('?')[0]}"
            raise UnexpectedAnswer(f"{where}: the response has more than {LARGEST} bytes")

    @property
    def content(self) -> bytes:
        """The whole body."""
        return b"".join(self._parts)


class Closed(RuntimeError):
    """The client or stream was closed while this waited. httpx raises RuntimeError for that too."""

    def __init__(self) -> None:
        super().__init__("it was closed")


class Closing(ABC):
    """A context manager that closes itself."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClosing(ABC):
    """An asynchronous context manager that closes itself."""

    @abstractmethod
    async def close(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Driver:
    """Runs flows in the calling thread; any number of threads may share it."""

    def __init__(self, options: Options) -> None:
        _check(options, Options)
        self.clock = options.get("clock", time.time)
        self.retries = _retries(options)
        self._sleep = options.get("sleep")
        self._http = _made(httpx.Client, options)
        self._lock = threading.Lock()
        self._places = threading.Semaphore(AT_ONCE)

    def run(self, flow: Flow[T], closing: threading.Event = NEVER) -> T:
        """Runs a flow and returns its result. Raises what the flow raises, and `Closed` if
        `closing` is set while it pauses or waits for its turn, when no response is under way."""
        try:
            wanted = next(flow)
            while True:
                try:
                    result = self._do(wanted, closing)
                except PorticoError as error:
                    wanted = flow.throw(error)
                else:
                    wanted = flow.send(result)
        except StopIteration as done:
            returned: T = done.value
            return returned
        finally:
            flow.close()

    def close(self) -> None:
        """Closes its connections."""
        self._http.close()

    def _do(self, wanted: Wanted, closing: threading.Event) -> Any:
        if isinstance(wanted, Request):
            with contextlib.nullcontext() if wanted.streamed else self._places:
                return self._send(wanted)
        if isinstance(wanted, Part):
            return self._take(wanted.body)
        if isinstance(wanted, Shut):
            return wanted.body.answer.close()
        if isinstance(wanted, Pause):
            return self._pause(wanted.seconds, closing)
        if isinstance(wanted, Tell):
            return wanted.listener(wanted.value)
        if not isinstance(wanted, Alone):
            return self.run(wanted.flow, closing)
        while not self._lock.acquire(timeout=TURN_SECONDS):
            if closing.is_set():
                raise Closed
        try:
            return self.run(wanted.flow, closing)
        finally:
            self._lock.release()

    def _pause(self, seconds: float, closing: threading.Event) -> None:
        if self._sleep is None:
            closing.wait(seconds)
        else:
            self._sleep(seconds)
        if closing.is_set():
            raise Closed

    def _send(self, request: Request) -> Response:
        try:
            answer = self._http.send(_built(self._http, request), stream=True)
            if request.streamed and answer.is_success:
                body = Body(answer, answer.iter_bytes())
                return Response(answer.status_code, answer.headers, b"", body, self.clock())
            whole = Collected(request)
            with contextlib.closing(answer):
                for part in answer.iter_bytes():
                    whole.add(part)
        except httpx.RequestError as error:
            raise _failed(request, error) from error
        return Response(answer.status_code, answer.headers, whole.content, at=self.clock())

    def _take(self, body: Body[Iterator[bytes]]) -> bytes:
        try:
            return next(body.parts, b"")
        except httpx.RequestError as error:
            raise _failed(body.answer.request, error) from error


class AsyncDriver:
    """Runs flows in the running event loop; any number of tasks may share it."""

    def __init__(self, options: AsyncOptions) -> None:
        _check(options, AsyncOptions)
        self.clock = options.get("clock", time.time)
        self.retries = _retries(options)
        self._sleep = options.get("sleep", asyncio.sleep)
        self._http = _made(httpx.AsyncClient, options)
        self._lock = asyncio.Lock()
        self._places = asyncio.Semaphore(AT_ONCE)
        self._whole: set[asyncio.Task[Any]] = set()
        self._pauses: set[asyncio.Timeout] = set()
        self._closed = False

    async def run(self, flow: Flow[T]) -> T:
        """Runs a flow and returns its result. Raises what the flow raises, and `Closed` if this is
        closed while it pauses, when no response is under way."""
        try:
            wanted = next(flow)
            while True:
                try:
                    result = await self._do(wanted)
                except PorticoError as error:
                    wanted = flow.throw(error)
                else:
                    wanted = flow.send(result)
        except StopIteration as done:
            returned: T = done.value
            return returned
        finally:
            flow.close()

    async def close(self) -> None:
        """Closes the connections, after renewals under way have finished; pauses end at once."""
        self._closed = True
        while self._pauses:
            self._pauses.pop().reschedule(0)
        await asyncio.gather(*self._whole, return_exceptions=True)
        await self._http.aclose()

    async def _do(self, wanted: Wanted) -> Any:
        if isinstance(wanted, Request):
            async with contextlib.nullcontext() if wanted.streamed else self._places:
                return await self._send(wanted)
        if isinstance(wanted, Part):
            return await self._take(wanted.body)
        if isinstance(wanted, Shut):
            return await wanted.body.answer.aclose()
        if isinstance(wanted, Pause):
            return await self._pause(wanted.seconds)
        if isinstance(wanted, Tell):
            told = wanted.listener(wanted.value)
            return await told if inspect.isawaitable(told) else told
        # A refresh token can be used once. If the task that uses it were cancelled, the response
        # with its successor would be lost, so this runs in a task of its own, which goes on.
        run = self._run_alone if isinstance(wanted, Alone) else self.run
        task = asyncio.ensure_future(run(wanted.flow))
        self._whole.add(task)
        task.add_done_callback(self._over)
        await asyncio.wait([task])
        return task.result()

    def _over(self, task: asyncio.Task[Any]) -> None:
        self._whole.discard(task)
        if not task.cancelled():
            task.exception()  # otherwise asyncio would log it where nobody waits any more

    async def _run_alone(self, flow: Flow[T]) -> T:
        async with self._lock:
            return await self.run(flow)

    async def _pause(self, seconds: float) -> None:
        closing = asyncio.timeout(0 if self._closed else None)
        try:
            async with closing:
                self._pauses.add(closing)
                await self._sleep(seconds)
        except TimeoutError:
            if closing.expired():
                raise Closed from None
            raise
        finally:
            self._pauses.discard(closing)

    async def _send(self, request: Request) -> Response:
        try:
            answer = await self._http.send(_built(self._http, request), stream=True)
            if request.streamed and answer.is_success:
                body = Body(answer, answer.aiter_bytes())
                return Response(answer.status_code, answer.headers, b"", body, self.clock())
            whole = Collected(request)
            async with contextlib.aclosing(answer):
                async for part in answer.aiter_bytes():
                    whole.add(part)
        except httpx.RequestError as error:
            raise _failed(request, error) from error
        return Response(answer.status_code, answer.headers, whole.content, at=self.clock())

    async def _take(self, body: Body[AsyncIterator[bytes]]) -> bytes:
        try:
            return await anext(body.parts, b"")
        except httpx.RequestError as error:
            raise _failed(body.answer.request, error) from error


def _check(options: _Options, known: type[_Options]) -> None:
    """Raises TypeError for an unknown option, ValueError for an invalid one."""
    if unknown := options.keys() - known.__annotations__.keys():
        raise TypeError(f"unknown option: {', '.join(sorted(unknown))}")
    if not options.get("timeout", 1) > 0:
        raise ValueError("timeout must be more than 0 seconds")


def _retries(options: _Options) -> Retries:
    return Retries(
        options.get("retries", MOST),
        options.get("patience", 60.0),
        options.get("random", random.random),
    )


def _made(kind: type[Http], options: Options | AsyncOptions) -> Http:
    """An httpx client. Raises ValueError that names the variable if httpx cannot read one of those
    for proxies, such as NO_PROXY with an IPv6 network; its own error does not."""
    try:
        return kind(**_arguments(options))
    except httpx.InvalidURL:
        for scheme in ("http", "https", "all"):
            proxy = getproxies().get(scheme, "")
            try:
                httpx.URL(proxy if "://" in proxy else f"http://{proxy}")
            except httpx.InvalidURL:
                raise ValueError(f"{scheme.upper()}_PROXY is not the address of a proxy") from None
        raise ValueError(
            "NO_PROXY must be names and addresses such as ::1; httpx reads no IPv6 networks and"
            " no brackets"
        ) from None


def _arguments(options: Options | AsyncOptions) -> dict[str, Any]:
    """The arguments of both httpx clients."""
    return {
        "transport": options.get("transport"),
        "verify": trusted(options.get("ca")),
        "timeout": options.get("timeout", 30.0),
        # Counted by the driver. Connections that nobody uses for 5 seconds are closed.
        "limits": httpx.Limits(max_connections=None, max_keepalive_connections=None),
        "headers": {
            "accept": "application/json",
            "user-agent": f"portico-client/{version('portico-client')}",
        },
        # Access sends the session cookie itself, so httpx must not store or send any.
        "cookies": CookieJar(DefaultCookiePolicy(allowed_domains=[])),
    }


def _built(http: httpx.Client | httpx.AsyncClient, request: Request) -> httpx.Request:
    headers = httpx.Headers(request.headers, encoding="utf-8")  # for Last-Event-ID
    try:
        built = http.build_request(
            request.method, request.url, headers=headers, content=request.content
        )
    except httpx.InvalidURL as error:
        raise ValueError(str(error)) from error  # "URL too long"
    if request.streamed:
        built.extensions["timeout"]["read"] = SILENCE_SECONDS
    return built


_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


def _failed(request: Request | httpx.Request, error: httpx.RequestError) -> ConnectionFailed:
    where = f"{request.method} {str(request.url).partition('?')[0]}"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return UntrustedCertificate(
                f"{where}: {cause.verify_message}. If the server has its own authority, give"
                " that authority's certificate as ca=… or in PORTICO_CA."
            )
        cause = cause.__cause__ or cause.__context__
    said = str(error) or type(error).__name__
    return ConnectionFailed(f"{where}: {said}", sent=not isinstance(error, _UNSENT))
