"""What happens is told to many at once: in order, each event once, however slow they are."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from busy_machine import within
from driving import Api
from operating import eventually
from portico.core.events import Published
from portico.data.database import Bell
from portico.features.events.feed import LOOK_SECONDS, PAGE, RECENT, RECENT_BYTES, Feed, Follower
from portico.features.events.storage import EventPage, Events

SOON = 20.0
NEVER = 0.3
"""Seconds in which nothing must come."""

MADE = "product.created"
RARE = "sandbox.reset"


async def happen(api: Api, *kinds: str, data: str = "{}") -> None:
    """Events of these types, in one transaction."""
    env = api.live
    async with env.db.transaction() as tx:
        for kind in kinds:
            await env[Events].add(tx, api.clock(), Published(kind, data))
    env.db.bell.ring()


async def stored(api: Api, count: int) -> list[int]:
    """The ids of all events, once there are so many."""
    async with asyncio.timeout(SOON):
        while True:
            await api.live[Events].settle()
            told = await api.live[Events].to_tell(0, count + 1)
            if len(told) >= count:
                return [event.id for event in told]


@asynccontextmanager
async def following(
    api: Api, after: int | None = None, types: Sequence[str] | None = None
) -> AsyncIterator[Follower]:
    follower = await api.live[Feed].follow(after, types)
    yield follower
    follower.end()


async def taken(follower: Follower, count: int) -> list[int]:
    """The ids of the next so many events."""
    found: list[int] = []
    async with asyncio.timeout(SOON):
        while len(found) < count:
            found += [event.id for event in await follower.take(SOON)]
    return found


async def test_a_follower_without_an_id_gets_new_events_only(api: Api) -> None:
    await happen(api, MADE)
    async with following(api) as one, following(api) as other:
        await happen(api, MADE, RARE)
        before, *new = await stored(api, 3)
        assert before not in new
        assert await taken(one, 2) == await taken(other, 2) == new
        assert await one.take(NEVER) == []
        await happen(api, MADE)
        assert await taken(one, 1) == (await stored(api, 4))[-1:]


@pytest.mark.parametrize("kept", [True, False])
async def test_a_follower_from_an_id_gets_later_then_new_events(api: Api, *, kept: bool) -> None:
    """Whether somebody else has kept the feed alive meanwhile, or not."""
    await happen(api, *[MADE] * 3)
    ids = await stored(api, 3)
    async with following(api) as other:
        if not kept:
            other.end()
        async with following(api, 0) as oldest, following(api, ids[1]) as second:
            await happen(api, MADE)
            ids = await stored(api, 4)
            assert await taken(oldest, 4) == ids
            assert await taken(second, 2) == ids[2:]


async def test_a_follower_from_a_future_id_gets_events_after_it(api: Api) -> None:
    await happen(api, MADE)
    newest = (await stored(api, 1))[-1]
    async with following(api, newest + 2) as early, following(api):
        await happen(api, MADE)
        await stored(api, 2)
        await happen(api, MADE, MADE)
        ids = await stored(api, 4)
        assert await taken(early, 1) == [one for one in ids if one > newest + 2]


async def test_a_follower_gets_its_types_only(api: Api) -> None:
    await happen(api, *[MADE] * (PAGE + 5), RARE, MADE)
    async with following(api, 0, [RARE]) as rare, following(api, None, [RARE]) as later:
        ids = await stored(api, PAGE + 7)
        assert await taken(rare, 1) == [ids[-2]]
        await happen(api, MADE)
        assert await rare.take(NEVER) == []
        await happen(api, RARE, MADE)
        newest = (await stored(api, PAGE + 10))[-2]
        assert await taken(rare, 1) == await taken(later, 1) == [newest]


@pytest.mark.parametrize(
    ("count", "data"), [(2 * RECENT + 7, "{}"), (20, f'"{"x" * (RECENT_BYTES // 8)}"')]
)
async def test_a_slow_follower_misses_no_event_and_holds_bounded_memory(
    api: Api, count: int, data: str
) -> None:
    async with following(api) as slow, following(api) as quick:
        await happen(api, MADE)
        assert len(await taken(quick, 1)) == 1
        for _ in range(count):
            await happen(api, MADE, data=data)
        ids = await stored(api, count + 1)
        assert await taken(quick, count) == ids[1:]
        assert await taken(slow, count + 1) == ids
        assert await slow.take(NEVER) == []
        feed = api.live[Feed]
        assert len(feed._recent) <= RECENT  # noqa: SLF001 - what it holds is not shown
        assert feed._bytes <= RECENT_BYTES  # noqa: SLF001 - the same


async def test_followers_beside_writers_get_each_event_once_in_order(
    api: Api,
) -> None:
    writers, each = 8, 25
    count = writers * each

    async def write() -> None:
        for _ in range(each):
            await happen(api, MADE)

    async def follow(pause: int, found: list[int], after: int | None) -> None:
        async with following(api, after) as follower:
            while len(found) < count:
                for _ in range(pause):
                    await asyncio.sleep(0)
                found += [event.id for event in await follower.take(SOON)]

    async def late(found: list[int]) -> None:
        """Follows a few events at a time, going away and coming back."""
        after = 0
        while len(found) < count:
            async with following(api, after) as follower:
                found += [event.id for event in await follower.take(SOON)]
                after = found[-1]

    seen: list[list[int]] = [[] for _ in range(9)]
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for number, found in enumerate(seen[:-1]):
            group.create_task(follow(number * 10, found, 0 if number % 2 else None))
        group.create_task(late(seen[-1]))
        followers = api.live[Feed]._followers  # noqa: SLF001 - nothing tells of it
        await eventually(lambda: len(followers) == len(seen), "the last follower")
        for _ in range(writers):
            group.create_task(write())
    ids = await stored(api, count)
    assert ids == sorted(set(ids))
    assert all(found == ids for found in seen)


async def test_a_new_event_is_read_once_for_all_followers(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[int] = []
    page = type(api.live[Events]).page

    async def counting(self: object, after: int, *rest: object) -> EventPage:
        reads.append(after)
        return await page(self, after, *rest)  # type: ignore[arg-type]

    followers = [await api.live[Feed].follow(None, None) for _ in range(50)]
    await happen(api, MADE)
    for follower in followers:
        await taken(follower, 1)
    waiting = [asyncio.create_task(taken(follower, 1)) for follower in followers]
    await asyncio.sleep(NEVER)
    monkeypatch.setattr(type(api.live[Events]), "page", counting)
    await happen(api, MADE)
    await asyncio.gather(*waiting)
    assert 1 <= len(reads) <= 4, "a wake for the commit, and one where PostgreSQL has numbered it"
    for follower in followers:
        follower.end()
    reads.clear()
    await happen(api, MADE)
    await asyncio.sleep(NEVER)
    assert reads == [], "nobody follows"


async def test_ending_a_follower_wakes_its_wait(api: Api) -> None:
    async with following(api) as follower:
        waiting = asyncio.create_task(follower.take(SOON))
        await asyncio.sleep(0)
        follower.end()
        async with asyncio.timeout(SOON / 2):
            assert await waiting == []
        await happen(api, MADE)
        assert await follower.take(NEVER) == []


async def test_an_event_committed_as_a_follower_begins_is_not_missed(api: Api) -> None:
    """Between their look at the newest id and the feed's own, without a bell for it."""
    feed = Feed(api.live[Events], Bell())
    follower = await feed.follow(None, None)
    waiting = asyncio.create_task(follower.take(SOON))
    await asyncio.sleep(NEVER)
    await happen(api, MADE)
    ids = await stored(api, 1)
    with within(LOOK_SECONDS / 2):
        await feed.run()
        assert [event.id for event in await waiting] == ids
