"""What happens is told to many at once: in order, each event once, however slow they are."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from busy_machine import within
from driving import Api
from operating import eventually
from portico.core.events import Published
from portico.data.database import Signal
from portico.features.events.feed import LOOK_SECONDS, RECENT, RECENT_BYTES, Feed, Follower
from portico.features.events.storage import EventPage, Events

SOON = 20.0
NEVER = 0.3
"""Seconds in which nothing must come."""
MADE, RARE = "product.created", "sandbox.reset"


async def happen(api: Api, *kinds: str, data: str = "{}") -> None:
    """Events of these types, in one transaction."""
    async with api.live.db.transaction() as tx:
        for kind in kinds:
            await api.live[Events].add(tx, api.clock(), Published(kind, data))
    api.live.db.signal.notify()


async def stored(api: Api, count: int) -> list[int]:
    """The ids of all events, once there are so many."""
    async with asyncio.timeout(SOON):
        while True:
            await api.live[Events].number()
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


@pytest.mark.one_engine
@pytest.mark.parametrize(
    ("count", "data"), [(RECENT + 44, "{}"), (20, f'"{"x" * (RECENT_BYTES // 8)}"')]
)
async def test_a_slow_follower_misses_no_event_and_holds_bounded_memory(
    api: Api, count: int, data: str
) -> None:
    async with following(api) as slow, following(api) as quick:
        for _ in range(count):
            await happen(api, MADE, data=data)
        ids = await stored(api, count)
        assert await taken(quick, count) == ids
        assert await taken(slow, count) == ids
        assert await slow.take(NEVER) == []
        feed = api.live[Feed]
        assert len(feed._recent) <= RECENT  # noqa: SLF001 - what it holds is not shown
        assert feed._bytes <= RECENT_BYTES  # noqa: SLF001 - the same


async def test_followers_beside_writers_get_each_event_once_in_order(api: Api) -> None:
    writers, each = 6, 15
    count = writers * each

    async def write() -> None:
        for _ in range(each):
            await happen(api, MADE)

    async def follow(found: list[int], after: int | None, pause: int, *, returns: bool) -> None:
        while len(found) < count:
            async with following(api, found[-1] if found else after) as follower:
                while len(found) < count:
                    for _ in range(pause):
                        await asyncio.sleep(0)
                    found += [event.id for event in await follower.take(SOON)]
                    if returns:
                        break

    seen: list[list[int]] = [[] for _ in range(7)]
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for number, found in enumerate(seen):
            after = 0 if number % 2 or number == 6 else None
            group.create_task(follow(found, after, number * 10, returns=number == 6))
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
    waiting = [asyncio.create_task(taken(follower, 1)) for follower in followers]
    await asyncio.sleep(NEVER)
    monkeypatch.setattr(type(api.live[Events]), "page", counting)
    await happen(api, MADE)
    await asyncio.gather(*waiting)
    assert 1 <= len(reads) <= 4, "a wake for the commit, and one where PostgreSQL has numbered it"
    waits = asyncio.create_task(followers[0].take(SOON))
    await asyncio.sleep(0)
    for follower in followers:
        follower.end()
    async with asyncio.timeout(SOON / 2):
        assert await waits == []
    reads.clear()
    await happen(api, MADE)
    await asyncio.sleep(NEVER)
    assert reads == [], "nobody follows"


async def test_an_event_committed_as_a_follower_begins_is_not_missed(api: Api) -> None:
    """Between their look at the newest id and the feed's own, without a signal for it."""
    feed = Feed(api.live[Events], Signal())
    follower = await feed.follow(None, None)
    waiting = asyncio.create_task(follower.take(SOON))
    await asyncio.sleep(NEVER)
    await happen(api, MADE)
    ids = await stored(api, 1)
    with within(LOOK_SECONDS / 2):
        await feed.run()
        assert [event.id for event in await waiting] == ids
