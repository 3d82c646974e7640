"""`portico serve` with streams of a test's own beside the API, and other timeouts: READ and LOOK
seconds, and IDLE ones where they are given. What happens to them is told on standard output."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import uvloop

from portico import logs, mounts
from portico.cli.connections import ConnectionTimeouts
from portico.cli.serve import serve
from portico.settings import load
from portico.web.messages import Reply, Request, Stream
from portico.web.routing import Access, Route
from portico.web.streams import event_bytes, event_stream, position_bytes

KIB = 1024
FLOOD = 64 * KIB * KIB
"""Bytes of a flood, if somebody reads it."""

LUMP = bytes(8 * KIB * KIB)

signal = asyncio.Event()


def say(text: str) -> None:
    """Tells the test."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


async def _quiet() -> AsyncGenerator[bytes, None]:
    try:
        yield position_bytes(0)  # in here too: who has the head may go before this is sent
        await signal.wait()
        yield event_bytes(1, "rung", "{}")
    finally:
        say("closed")


async def _flood() -> AsyncGenerator[bytes, None]:
    sent = 0
    try:
        while sent < FLOOD:
            sent += 4 * KIB
            yield b"x" * (4 * KIB)
    finally:
        say(f"flooded {sent}")


async def _lumps() -> AsyncGenerator[bytes, None]:
    while True:
        yield LUMP


async def _broken() -> AsyncGenerator[bytes, None]:
    yield position_bytes(0)
    raise ValueError("broken")


async def _part() -> AsyncGenerator[bytes, None]:
    yield b"a part"
    await signal.wait()
    yield b" and the rest"


async def _cut() -> AsyncGenerator[bytes, None]:
    yield b"a part"
    await signal.wait()
    raise ValueError("cut")


async def part(_request: Request) -> Reply:
    """A part of a whole at once, and the rest when the signal rings."""
    return Stream(200, _part(), lambda: say("ended"), [], finite=True)


async def cut(_request: Request) -> Reply:
    """A part of a whole at once; fails when the signal rings."""
    return Stream(200, _cut(), lambda: say("ended"), [], finite=True)


async def quiet(_request: Request) -> Reply:
    """Says nothing but at its start, until the signal rings."""
    return event_stream(_quiet(), lambda: say("ended"))


async def flood(_request: Request) -> Reply:
    """Sends as much as is taken."""
    return event_stream(_flood(), lambda: say("ended"))


async def lumps(_request: Request) -> Reply:
    """Sends as much as is taken, in large chunks."""
    return event_stream(_lumps(), lambda: say("ended"))


async def broken(_request: Request) -> Reply:
    """Fails after its start."""
    return event_stream(_broken(), lambda: say("ended"))


async def ring(_request: Request) -> Reply:
    """Rings the signal, once."""
    signal.set()
    signal.clear()
    return Reply(204)


mounts.BUILT_IN = (
    *mounts.BUILT_IN,
    *(
        Route(
            method="GET",
            path=f"/{handler.__name__}",
            handler=handler,
            access=Access.ANY_CALLER,
            summary="X",
            no_store=True,
        )
        for handler in (quiet, flood, lumps, broken, part, cut, ring)
    ),
)

if __name__ == "__main__":
    read, look, *idle = map(float, sys.argv[1:])
    timeouts = ConnectionTimeouts(read, look, look, *idle)
    settings = load({}, os.environ, Path.cwd())
    logs.configure(settings.log_level)
    uvloop.run(serve(settings, lambda: say("Portico serves"), timeouts=timeouts))
