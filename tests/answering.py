"""Loopback servers whose behavior a test defines."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from ssl import SSLContext

Talk = Callable[[StreamReader, StreamWriter], Awaitable[None]]

TURNS = 3
"""Turns of the event loop from when a connection is accepted until it can be used."""


@asynccontextmanager
async def answering(
    talk: Talk, tls: SSLContext | None = None, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[int]:
    """Runs `talk` for each connection, and yields the port. A connection is closed when its `talk`
    ends, or when the client disconnects; the remaining ones are closed at the end."""
    talks: set[asyncio.Task[None]] = set()

    async def whole(reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(ConnectionError):
            await talk(reader, writer)

    def accept(reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.ensure_future(whole(reader, writer))
        talks.add(task)
        task.add_done_callback(talks.discard)
        # Not closed by the task: if it is cancelled before its first turn, it does nothing.
        task.add_done_callback(lambda _: writer.close())

    listener = await asyncio.start_server(accept, host, port, ssl=tls, limit=2**20)
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        await close(listener)
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        await listener.wait_closed()


async def close(listener: asyncio.Server) -> None:
    """Stops accepting and closes the listener. asyncio would neither serve nor close a connection
    that it is just accepting if the listener were closed by then; uvloop accepts immediately."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, asyncio.SelectorEventLoop):
        for one in listener.sockets:
            loop.remove_reader(one)
        for _ in range(TURNS):
            await asyncio.sleep(0)
    listener.close()
