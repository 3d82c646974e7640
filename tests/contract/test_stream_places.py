"""The places of an account for streams of events, where a clock was ahead."""

import asyncio
from contextlib import AsyncExitStack

from contract.test_event_streams import SOON, streaming
from driving import Api, refused
from portico.services.subscriptions import LEASE_SECONDS, MOST

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
