"""What was counted of one version of the products is never told of another."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from portico.data.database import NOTHING, Database, Params, Reader, Row, T
from portico.data.search import tokens
from portico.features.catalogue.storage import ProductFilter, Products
from storage.lamp import LAMP
from storage.recording import recorded

Pause = Callable[[int], Awaitable[object]]
"""Waits before the read with this number, from one on."""


class Pausing:
    """The reads of one snapshot, each after a pause."""

    def __init__(self, reader: Reader, pause: Pause) -> None:
        self._reader = reader
        self._pause = pause
        self._number = 0

    async def one(self, sql: str, params: Params = NOTHING) -> Row | None:
        """See `Reader`."""
        self._number += 1
        await self._pause(self._number)
        return await self._reader.one(sql, params)

    async def all(self, sql: str, params: Params = NOTHING) -> list[Row]:
        """See `Reader`."""
        self._number += 1
        await self._pause(self._number)
        return await self._reader.all(sql, params)


async def add(database: Database, products: Products) -> None:
    async with database.transaction() as tx:
        await products.insert(tx, LAMP)


async def test_a_search_that_began_before_a_change_counts_for_none_that_begins_after(
    database: Database,
) -> None:
    products = Products(database)
    await add(database, products)
    began, changed, counting, over = (asyncio.Event() for _ in range(4))

    async def earlier(number: int) -> None:
        if number == 4:  # its rows: all is counted that it needs
            began.set()
            await changed.wait()
        if number > 5:  # it counts once more
            counting.set()
            await over.wait()

    async def later(number: int) -> None:
        if number == 2:  # it has seen that there is another version
            changed.set()
            await counting.wait()

    async def nothing(_: int) -> None:
        pass

    pauses: list[Pause] = [earlier, later]
    snapshot = database.snapshot

    async def paused(work: Callable[[Reader], Awaitable[T]]) -> T:
        pause = pauses.pop(0) if pauses else nothing
        return await snapshot(lambda reader: work(Pausing(reader, pause)))

    database.snapshot = paused  # type: ignore[method-assign]

    async def total() -> int:
        chosen = ProductFilter(status="active")
        page = await products.page(chosen, words=tokens("lamp"), offset=0, limit=9)
        assert len(page.rows) == page.total
        return page.total

    first = asyncio.create_task(total())
    first.add_done_callback(lambda _: counting.set())
    await began.wait()
    await add(database, products)
    second = asyncio.create_task(total())
    second.add_done_callback(lambda _: over.set())
    assert (await second, await first) == (2, 1)
    assert await total() == 2


@pytest.mark.parametrize("another", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "chosen",
    [
        ProductFilter("active", min_price=0),
        ProductFilter("active", category="light", max_price=9),
        ProductFilter(None, min_price=1, in_stock=False),
    ],
)
async def test_a_search_looks_for_its_words_before_anything_else(
    database: Database, chosen: ProductFilter
) -> None:
    products = Products(database)
    for _ in range(5):
        await add(database, products)
    asked = recorded(database)
    assert len([batch async for batch in products.batches(chosen, ["lamp"])]) == 1
    page = await products.page(chosen, words=["lamp"], offset=0, limit=5)
    assert page.total == 5
    joined = [n for n, (sql, _) in enumerate(asked.asked) if "MATCH" in sql]
    assert len(joined) > 2, "the batch, what was counted, and the rows"
    for number in joined:
        steps = (await asked.plan(number)).splitlines()
        read = [line for line in steps if line.startswith(("SCAN product", "SEARCH product"))]
        assert read[0].startswith("SCAN product_words")
        assert "INTEGER PRIMARY KEY" in read[1]
