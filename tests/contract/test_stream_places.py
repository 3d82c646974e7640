"""The places of an account for streams of events, where a clock was ahead, or a commit is lost."""

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from cut_connections import Cut, beyond, unavailable
from event_streams import SOON, streaming
from operating import eventually
from portico.core.errors import Unavailable
from portico.features.events.subscriptions import LEASE_SECONDS, MOST
from servers import PostgresServer

_PLACES = "SELECT count(*), max(until) FROM leases WHERE name LIKE 'stream %'"


async def test_a_place_whose_commit_was_lost_sight_of_comes_back(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    cut = Cut(postgres.port, b'"stream 2 0"', b"COMMIT", arrives=True)
    async with beyond(cut, postgres, tmp_path) as api:
        viewer, editor = await api.caller("viewer"), await api.caller("editor")

        async def places() -> int:
            async with asyncio.timeout(SOON):
                while True:
                    with suppress(Unavailable):
                        return int((await api.live.db.one(_PLACES) or (0,))[0])

        async def are_two() -> bool:
            return await places() == 2

        async def is_back() -> bool:
            return await places() == 1

        async with AsyncExitStack() as stack:
            await stack.enter_async_context(streaming(viewer))
            unavailable(await editor.get("/events/stream"))
            assert not cut.whole
            await eventually(are_two, "the commit, whose end nobody heard")
            api.clock.advance(seconds=LEASE_SECONDS - 1)
            await eventually(is_back, "the place")
            for _ in range(MOST):
                await stack.enter_async_context(streaming(editor))
