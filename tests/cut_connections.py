"""Ways to PostgreSQL that break as something is committed."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import httpx

from answering import answering
from driving import Api, refused, settings_for
from servers import PostgresServer


def unavailable(answer: httpx.Response) -> None:
    refused(answer, 503, "SERVICE_UNAVAILABLE")
    assert int(answer.headers["retry-after"]) >= 1


class Cut:
    """A way to PostgreSQL that breaks, once, when `word` is about to be committed."""

    def __init__(self, port: int, word: bytes, last: bytes, *, arrives: bool) -> None:
        """`last` stands in what commits; `arrives` is whether the server still does."""
        self._port = port
        self._word = word
        self._last = last
        self._arrives = arrives
        self.whole = True
        self.hears_of_it = asyncio.Event()
        self.hears_of_it.set()
        """Whoever commits hears of the break no sooner."""
        self.connections: list[asyncio.Task[None]] = []

    async def between(self, client: StreamReader, to_client: StreamWriter) -> None:
        """One connection."""
        server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        back = asyncio.create_task(self._pass(server, to_client))
        self.connections.append(back)
        has_word = False
        with closing(to_server):
            while asked := await client.read(2**16):
                has_word = has_word or self._word in asked
                if has_word and self.whole and self._last in asked:
                    self.whole = False
                    back.cancel()
                    await asyncio.wait([back])
                    if self._arrives:
                        to_server.write(asked)
                        await server.read(1)
                    await self.hears_of_it.wait()
                    break
                to_server.write(asked)

    async def _pass(self, reader: StreamReader, writer: StreamWriter) -> None:
        with suppress(OSError):
            while told := await reader.read(2**16):
                writer.write(told)
        writer.close()


@asynccontextmanager
async def beyond(cut: Cut, postgres: PostgresServer, tmp_path: Path) -> AsyncIterator[Api]:
    """The application that has this way to a database of its own."""
    url = postgres.fresh_database()
    async with answering(cut.between) as port:
        through = url.replace(f":{postgres.port}/", f":{port}/")
        api = Api(settings_for(tmp_path, {"PORTICO_DATABASE_URL": through}))
        await api.start()
        yield api
        await api.aclose()
        await api.stop()
        await asyncio.gather(*cut.connections, return_exceptions=True)
