"""The places of an account for streams of events, where a clock was ahead, or a commit is lost."""

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from contract.test_event_streams import SOON, streaming
from contract.test_unavailable_stores import Cut, beyond, unavailable
from driving import Api, refused
from portico.domain.errors import Unavailable
from portico.services.subscriptions import LEASE_SECONDS, MOST
from servers import PostgresServer

_PLACES = "SELECT count(*), max(until) FROM leases WHERE name LIKE 'stream %'"


async def test_a_clock_that_is_put_back_takes_no_place_from_a_stream(api: Api) -> None:
    here = await api.caller("editor")
    api.clock.advance(seconds=3_600)
    async with AsyncExitStack() as stack:
        for _ in range(MOST):
            await stack.enter_async_context(streaming(here))
        for seconds in (LEASE_SECONDS - 1, -3_600):
            api.clock.advance(seconds=seconds)
            renewed = MOST, api.clock() + LEASE_SECONDS * 1_000
            async with asyncio.timeout(SOON):
                while tuple(await api.live.db.one(_PLACES) or ()) != renewed:  # noqa: ASYNC110 - another task does it
                    await asyncio.sleep(0.01)
        refused(await here.get("/events/stream"), 429, "RATE_LIMITED")


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

        async with AsyncExitStack() as stack:
            await stack.enter_async_context(streaming(viewer))
            unavailable(await editor.get("/events/stream"))
            assert not cut.whole
            assert await places() == 2
            api.clock.advance(seconds=LEASE_SECONDS - 1)
            async with asyncio.timeout(SOON):
                while await places() > 1:  # noqa: ASYNC110 - another task does it
                    await asyncio.sleep(0.01)
            for _ in range(MOST):
                await stack.enter_async_context(streaming(editor))
