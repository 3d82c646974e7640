"""A receiver of webhooks in the test's own event loop, with a given answer."""

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from answering import answering
from operating import TIMEOUT_SECONDS
from portico.features.operations.certificates import ensure

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Received(NamedTuple):
    """A request. The names of headers are in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes


class Receiver:
    """Answers every request alike, and keeps the connection unless the answer closes it."""

    def __init__(self, answer: bytes | Answer = OK) -> None:
        self._answer = answer
        self.connections = 0
        self.open = 0
        self.most_open = 0
        self.requests: list[Received] = []
        self._arrived = asyncio.Event()
        self.port = 0

    async def got(self, count: int) -> list[Received]:
        """Waits for so many requests, and returns all of them."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while len(self.requests) < count:
                self._arrived.clear()
                await self._arrived.wait()
        return self.requests

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection to its end."""
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while not writer.is_closing():
                self.requests.append(await _request(reader))
                self._arrived.set()
                if isinstance(self._answer, bytes):
                    writer.write(self._answer)
                    await writer.drain()
                else:
                    await self._answer(writer)
        self.open -= 1
        writer.transport.abort()


async def _request(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    line, *fields = head.removesuffix("\r\n\r\n").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
    return Received(line, headers, await reader.readexactly(int(headers["content-length"])))


class Authority(NamedTuple):
    """An authority that signed a receiver's certificate, as TLS contexts for both sides."""

    receivers: ssl.SSLContext
    senders: ssl.SSLContext


def authority(directory: Path, *hosts: str) -> Authority:
    """A new authority, with a certificate for loopback addresses and `hosts`."""
    files = ensure(directory, hosts, int(datetime.now(UTC).timestamp() * 1000))
    receivers = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    receivers.load_cert_chain(files.certificate, files.key)
    return Authority(receivers, ssl.create_default_context(cafile=str(files.ca_certificate)))


@asynccontextmanager
async def receiving(
    receiver: Receiver,
    tls: ssl.SSLContext | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
) -> AsyncIterator[Receiver]:
    """Runs a receiver, on a free port unless one is given."""
    async with answering(receiver.serve, tls, host=host, port=port) as receiver.port:
        yield receiver


@contextmanager
def received(answer: bytes | Answer = OK, port: int = 0) -> Iterator[Receiver]:
    """Runs a receiver in a thread, for a test without an event loop."""
    receiver = Receiver(answer)
    loop = asyncio.new_event_loop()
    ready, over = threading.Event(), asyncio.Event()

    async def serve() -> None:
        async with receiving(receiver, port=port):
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(TIMEOUT_SECONDS)
        yield receiver
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()
