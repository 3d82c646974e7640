"""Events may be large: a page of them ends before it takes more than some memory and time."""

from itertools import pairwise
from typing import Any

import pytest

from driving import Api, Caller
from portico.core.events import Published
from portico.features.events.feed import Feed
from portico.features.events.storage import PAGE_BYTES, Events

THIRD = PAGE_BYTES // 3 - 10
TWICE = 2 * PAGE_BYTES


async def happen(api: Api, *sizes: int) -> None:
    """Updates whose data takes so many bytes, and whose old values take two."""
    async with api.live.db.transaction() as tx:
        for size in sizes:
            told = Published("product.updated", f'"{"x" * (size - 2)}"', "{}")
            await api.live[Events].add(tx, api.clock(), told)


async def walked(caller: Caller, limit: int, **query: str) -> list[list[int]]:
    """The sizes of the events of every page of the list."""
    after, pages, more = 0, [], True
    while more:
        params: dict[str, Any] = {"after": after, "limit": limit, **query}
        answer = (await caller.get("/events", params=params)).json()
        pages.append([len(event["data"]) + 2 for event in answer["data"]])
        after, more = answer["pagination"]["last_id"], answer["pagination"]["has_more"]
    return pages


@pytest.mark.one_engine
@pytest.mark.parametrize("query", [{}, {"type": "product.updated"}])
async def test_a_page_of_events_ends_at_a_mebibyte(api: Api, query: dict[str, str]) -> None:
    viewer = await api.caller("viewer")
    await happen(api, *[THIRD] * 7)
    assert await walked(viewer, 100, **query) == [[THIRD] * 3, [THIRD] * 3, [THIRD]]
    follower = await api.live[Feed].follow(0, ["product.updated"])
    assert [len(await follower.take(20.0)) for _ in range(3)] == [3, 3, 1]
    follower.end()
    await happen(api, 100, TWICE, 200, 300, TWICE)
    rest = [[THIRD, 100], [TWICE], [200, 300], [TWICE]]
    assert (await walked(viewer, 100, **query))[2:] == rest


@pytest.mark.one_engine
async def test_pages_of_small_events_have_as_many_as_were_asked_for(api: Api) -> None:
    viewer = await api.caller("viewer")
    sizes = [*range(100, 121)]
    await happen(api, *sizes)
    for limit in (1, 9, 10, 11):
        pages = await walked(viewer, limit)
        assert [size for page in pages for size in page] == sizes
        assert all(len(page) == limit for page, _ in pairwise(pages))
