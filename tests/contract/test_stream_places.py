"""The places of an account for streams of events, where a clock was ahead, or a commit is lost."""

import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path

from cut_connections import Cut, beyond, unavailable
from driving import Api
from event_streams import SOON, streaming
from operating import eventually
from portico.core.errors import Unavailable
from portico.data.leases import Leases
from portico.features.events.subscriptions import LEASE_SECONDS, MOST, Subscriptions
from servers import PostgresServer

_PLACES = "SELECT count(*), max(until) FROM leases WHERE name LIKE 'stream %'"


async def test_a_server_renews_its_own_places_alone(api: Api) -> None:
    editor = await api.caller("editor")
    until = api.clock() + LEASE_SECONDS * 1_000
    async with api.live.db.transaction() as tx:
        name = f"stream {editor.user.id} 0"
        assert await api.live[Leases].take(tx, name, "killed", now=api.clock(), until=until)

    async def is_renewed() -> bool:
        renewed = api.clock() + LEASE_SECONDS * 1_000
        return await api.live.db.one(_PLACES) == (2, renewed)

    async with streaming(editor):
        api.clock.advance(seconds=LEASE_SECONDS - 1)
        await eventually(is_renewed, "the renewal")
        assert await api.live.db.one(f"{_PLACES} AND holder = 'killed'") == (1, until)


async def test_a_place_that_another_server_has_got_meanwhile_is_not_given_back(api: Api) -> None:
    editor = await api.caller("editor")
    async with streaming(editor) as stream:
        later = api.clock() + LEASE_SECONDS * 1_000
        async with api.live.db.transaction() as tx:
            name, until = f"stream {editor.user.id} 0", later + LEASE_SECONDS * 1_000
            assert await api.live[Leases].take(tx, name, "another", now=later, until=until)
        api.clock.advance(seconds=LEASE_SECONDS)
        await stream.end()
    async with streaming(editor):  # before which places are given back
        assert await api.live.db.one(f"{_PLACES} AND holder = 'another'") == (1, until)
        assert (await api.live.db.one(_PLACES) or ())[0] == 2


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


async def test_a_place_that_is_given_back_with_an_unknown_end_is_not_taken_from_a_newer_stream(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    cut = Cut(postgres.port, b'["stream 2 0"]', b"COMMIT", arrives=True)
    cut.hears_of_it.clear()
    async with beyond(cut, postgres, tmp_path) as api:
        await api.caller("viewer")
        editor = await api.caller("editor")

        async def is_free() -> bool:
            return await api.live.db.one(_PLACES) == (0, None)

        async with streaming(editor):
            assert (await api.live.db.one(_PLACES) or ())[0] == 1
        await eventually(lambda: not cut.whole, "the return of the place")
        await eventually(is_free, "its commit, of which nobody has heard")
        async with streaming(editor):
            cut.hears_of_it.set()
            releasing = api.live[Subscriptions]._releasing  # noqa: SLF001 - nobody else hears of it
            await eventually(lambda: not releasing, "the unknown end")
            async with streaming(editor):  # before which places are given back
                assert (await api.live.db.one(_PLACES) or ())[0] == 2
