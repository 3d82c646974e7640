"""Counting that is bounded by `count_limit` (decisions §15)."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from driving import NOON, Api, Caller, settings_for
from portico.features.catalogue.storage import Products
from portico.features.operations.commands.moving import LEFT_OUT, skip_ids

BOUND = 100
"""The smallest that is allowed."""
FOUND_IN = (("Oak", ""), ("Oaken", ""), ("Lamp", "oak"))
"""Names and descriptions by which a product is found: from the most relevant."""
FILTERS = ("category=light", "search=oak", "search=oak&category=light")


@pytest.fixture
async def api(environ: dict[str, str], tmp_path: Path) -> AsyncIterator[Api]:
    """The running application, which counts to 100."""
    async with Api(settings_for(tmp_path, environ | {"PORTICO_COUNT_LIMIT": str(BOUND)})) as api:
        yield api


async def add(api: Api, *counts: int) -> None:
    """So many products of each way in which they are found."""
    for count, (name, description) in zip(counts, FOUND_IN, strict=False):
        product = await api.product(name=name, description=description)
        async with api.live.db.transaction() as tx:
            more = [msgspec.structs.replace(product, id=0)] * (count - 1)
            await api.live[Products].insert_many(tx, more)


async def read(caller: Caller, address: str) -> tuple[list[int], dict[str, object], str | None]:
    """The ids of a page, its `pagination`, and the address of the next one."""
    answer = await caller.get(address)
    assert answer.status_code == 200, answer.text
    link = re.search(r"<([^>]+)>", answer.headers.get("link", ""))
    body = answer.json()
    return [item["id"] for item in body["data"]], body["pagination"], link and link[1]


WAYS = ((40, 70, 25), (99, 2), (1, 1, 120))
"""How many are found by each way; without a search these are one."""


@pytest.mark.parametrize(
    ("filters", "counts"),
    [(FILTERS[0], (101,)), *((words, counts) for words in FILTERS[1:] for counts in WAYS)],
)
async def test_a_total_beyond_the_limit_is_the_limit_and_links_reach_all_rows(
    api: Api, counts: tuple[int, ...], filters: str
) -> None:
    admin = await api.caller("admin")
    await add(api, *counts)
    pages = []
    following: str | None = f"/products?limit=30&{filters}"
    while following:
        ids, _, following = await read(admin, following)
        pages.append(ids)
    assert [len(page) for page in pages[:-1]] == [30] * (len(pages) - 1)
    assert len({one for page in pages for one in page}) == sum(counts) == sum(map(len, pages))
    told = {"limit": 30, "total_items": 100, "total_pages": 4, "total_is_exact": False}
    for number, page in enumerate(pages[:4], 1):
        ids, pagination, _ = await read(admin, f"/products?limit=30&page={number}&{filters}")
        assert (ids, pagination) == (page, told | {"page": number})
    for number in (5, 2**40):
        ids, pagination, link = await read(admin, f"/products?limit=30&page={number}&{filters}")
        assert (ids, pagination, link) == ([], told | {"page": number}, None)


async def test_a_page_is_full_across_a_gap_of_ids(api: Api) -> None:
    admin = await api.caller("admin")
    await add(api, 150)
    await skip_ids(api.live.db, NOON)  # what comes next has ids far above
    await add(api, 5)
    ids, _, link = await read(admin, "/products?limit=30&category=light")
    assert len(ids) == 30
    assert ids[5] < ids[4] - LEFT_OUT
    assert link is not None
    whole = (await read(admin, "/products"))[1]  # a total that is kept, and so has no bound
    assert whole == {"page": 1, "limit": 25, "total_items": 155, "total_pages": 7}


@pytest.mark.parametrize("filters", FILTERS)
async def test_a_total_within_the_limit_is_exact(api: Api, filters: str) -> None:
    admin = await api.caller("admin")
    await add(api, 50, 30, 20)
    address = f"/products?limit=50&{filters}"
    ids, pagination, _ = await read(admin, f"{address}&page=2")
    assert len(ids) == 50
    assert pagination == {"page": 2, "limit": 50, "total_items": 100, "total_pages": 2}
    await add(api, 1)
    assert (await read(admin, address))[1]["total_is_exact"] is False
