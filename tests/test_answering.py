"""Whenever a test's own server ends, it leaves no connection behind."""

import asyncio
import gc
import socket

import pytest

from answering import TURNS, answering


@pytest.mark.parametrize("turns", range(2 * TURNS))
async def test_a_connection_that_comes_as_the_server_ends_is_closed(turns: int) -> None:
    async def listen(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()  # to its end

    async with answering(listen) as port:
        client = socket.create_connection(("127.0.0.1", port))
        for _ in range(turns):
            await asyncio.sleep(0)
    client.close()
    gc.collect()  # which warns of what was left open
