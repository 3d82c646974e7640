"""Streams of events as a client reads them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec

from busy_machine import within

SOON = 20.0
A_SECOND = 1.5
"""In which a stream ends whose credential has ended."""


class Reader:
    """What comes on a stream."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()
        self.position = 0
        """The id after which it says that one has to go on."""

    async def line(self) -> str:
        """The next line."""
        async with asyncio.timeout(SOON):
            return await anext(self._lines)

    async def event(self) -> dict[str, Any]:
        """The next event."""
        fields: dict[str, str] = {}
        while (line := await self.line()) or "data" not in fields:
            name, _, value = line.partition(": ")
            fields[name] = value
        event: dict[str, Any] = msgspec.json.decode(fields["data"])
        assert (fields["id"], fields["event"]) == (str(event["id"]), event["type"])
        return event

    async def over(self) -> None:
        """Reads to the end, whenever that comes."""
        async for _ in self._lines:
            pass

    async def end(self) -> None:
        """Reads to the end, which must come within a second."""
        with within(A_SECOND):
            async with asyncio.timeout(SOON):
                await self.over()


@asynccontextmanager
async def streaming(
    client: httpx.AsyncClient, last: str | None = None, **query: Any
) -> AsyncIterator[Reader]:
    """An open stream, whose first comment was read."""
    headers = {} if last is None else {"last-event-id": last}
    async with client.stream("GET", "/events/stream", params=query, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        reader = Reader(answer)
        assert await reader.line() == ":"
        reader.position = int((await reader.line()).removeprefix("id: "))
        yield reader
