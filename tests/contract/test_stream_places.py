"""The places of an account for streams of events, where the end of a commit is not heard."""

from contextlib import AsyncExitStack, suppress
from pathlib import Path

from cut_connections import Cut, beyond, unavailable
from event_streams import streaming
from operating import eventually
from portico.core.errors import Unavailable
from portico.features.events.feed import LEASE_SECONDS, MOST_STREAMS
from servers import PostgresServer

_PLACES = "SELECT count(*) FROM leases WHERE name LIKE 'stream %'"


async def test_a_place_whose_commit_was_lost_sight_of_comes_back(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    cut = Cut(postgres.port, b'"stream 2 0"', b"COMMIT", arrives=True)
    async with beyond(cut, postgres, tmp_path) as api:
        viewer, editor = await api.caller("viewer"), await api.caller("editor")

        async def are_two() -> bool:
            with suppress(Unavailable):
                return await api.live.db.one(_PLACES) == (2,)
            return False

        async with AsyncExitStack() as stack:
            await stack.enter_async_context(streaming(viewer))
            unavailable(await editor.get("/events/stream"))
            assert not cut.whole
            await eventually(are_two, "the commit, whose end nobody heard")
            api.clock.advance(seconds=LEASE_SECONDS)
            for _ in range(MOST_STREAMS):
                await stack.enter_async_context(streaming(editor))
