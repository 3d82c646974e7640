"""Many calls at once: how many are under way, over how many connections."""

import asyncio
from asyncio import StreamReader, StreamWriter

import httpx

from answering import answering
from client.scripted import ANYBODY, KEY, PLACE
from oauth.authority import Authority
from operating import eventually
from portico_client import AsyncClient
from portico_client.drivers import AT_ONCE

CALLS = 4 * AT_ONCE


async def passed_on(reader: StreamReader, writer: StreamWriter) -> None:
    """Passes bytes on to their end."""
    while part := await reader.read(2**16):
        writer.write(part)
        await writer.drain()
    writer.close()


async def test_many_calls_share_some_connections(served: Authority, ca: str) -> None:
    opened = most = 0

    async def between(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal opened, most
        opened += 1
        most = max(most, opened)
        port = served.installation.port
        from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
        answers = asyncio.create_task(passed_on(from_server, writer))
        await passed_on(reader, to_server)
        opened -= 1
        await answers

    async with (
        answering(between) as port,
        AsyncClient(served.installation.key, base_url=f"https://localhost:{port}/v1", ca=ca) as own,
    ):
        found = await asyncio.gather(*[own.me() for _ in range(CALLS)])
    assert len({one.id for one in found}) == 1
    assert most <= AT_ONCE


class AsyncHeld(httpx.AsyncBaseTransport):
    """The same for asyncio; streams are never answered."""

    def __init__(self) -> None:
        self.waiting = self.most = 0
        self.go = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """See `httpx.AsyncBaseTransport`."""
        if request.url.path.endswith("/stream"):
            await asyncio.get_running_loop().create_future()
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            await self.go.wait()
        finally:
            self.waiting -= 1
        return httpx.Response(200, json={"data": ANYBODY})


async def test_streams_take_no_calls_place_and_a_cancelled_call_gives_its_own_back() -> None:
    held = AsyncHeld()
    async with AsyncClient(KEY, base_url=PLACE, transport=held) as client:
        streams = [asyncio.ensure_future(anext(client.events.stream())) for _ in range(AT_ONCE)]
        calls = [asyncio.ensure_future(client.me()) for _ in range(2 * AT_ONCE)]
        await eventually(lambda: held.waiting == AT_ONCE, "the calls")
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)
        held.go.set()
        assert (await client.me()).id == ANYBODY["id"]
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    assert held.most == AT_ONCE
