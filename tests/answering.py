"""Servers on loopback that answer as a test likes."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing, suppress

Talk = Callable[[StreamReader, StreamWriter], Awaitable[None]]


@asynccontextmanager
async def answering(talk: Talk) -> AsyncIterator[int]:
    """Has each connection talked to, and tells the port. A connection is closed when its talk ends,
    by itself or since the other side has gone away, and all that are left are at the end."""
    talks: set[asyncio.Task[None]] = set()

    async def whole(reader: StreamReader, writer: StreamWriter) -> None:
        with closing(writer), suppress(ConnectionError):
            await talk(reader, writer)

    def accept(reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.ensure_future(whole(reader, writer))
        talks.add(task)
        task.add_done_callback(talks.discard)

    listener = await asyncio.start_server(accept, "127.0.0.1")
    try:
        yield listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        for task in talks:
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        await listener.wait_closed()
