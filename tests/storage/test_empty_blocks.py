"""Blocks of ids in which no product is left do not stay, and no total is wrong for it."""

from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from driving import NOON
from portico.data.database import Database
from portico.data.filtered_totals import BLOCK, TOUCHED, EmptyBlocks
from portico.features.catalogue.rules import STATUSES
from portico.features.catalogue.storage import ProductFilter, Products
from storage.test_filtered_totals import (
    COUNT,
    INSERT,
    LOW,
    POSTGRES,
    STEP,
    Made,
    change,
    filled,
    fitting,
    make,
    total,
)

__all__ = ["filled"]

pytestmark = POSTGRES

FIRST = range(1, COUNT // 5)
"""The numbers of products that fill blocks, no more than are counted one by one."""


@pytest.fixture
async def other(another: Callable[[], Database]) -> AsyncIterator[Database]:
    """The same database, for another process."""
    database = another()
    await database.open()
    yield database
    await database.close()


async def forget(database: Database) -> None:
    async with database.transaction() as tx:
        assert not await EmptyBlocks(database).forget(tx)


async def blocks(database: Database) -> dict[int, int]:
    """How many products the rows of each block tell."""
    rows = await database.all(
        "SELECT block, CAST(sum(total) AS BIGINT) FROM list_blocks WHERE block >= 0 GROUP BY block"
    )
    return {row[0]: row[1] for row in rows}


def told(made: Made) -> dict[int, int]:
    """What these products make of it."""
    return dict(Counter(key // BLOCK for key in made))


async def test_blocks_without_products_go_and_totals_stay_exact(
    filled: tuple[Database, Products, Made],
) -> None:
    database, products, made = filled
    await total(products, LOW)
    await total(products, LOW, ["x"])
    before = await blocks(database)
    await change(database, products, made, FIRST, None)
    await forget(database)
    assert await blocks(database) == told(made)
    assert 0 < len(before) - len(told(made)) < TOUCHED
    for _ in range(2):
        assert await total(products, LOW) == fitting(made, LOW)
        assert await total(products, LOW, ["x"]) == fitting(made, LOW)
        await change(database, products, made, [COUNT - 1], 99)
    await make(database, made, FIRST)
    assert await total(products, LOW) == fitting(made, LOW)
    assert await blocks(database) == told(made)
    ids = sorted(made, reverse=True)
    for offset in (0, len(made) // 2, len(made) - 1, len(made)):
        page = await products.page(ProductFilter(None), words=[], offset=offset, limit=1)
        assert [one.id for one in page.rows] == ids[offset : offset + 1]


async def test_a_block_to_which_somebody_writes_is_not_waited_for(
    filled: tuple[Database, Products, Made], other: Database
) -> None:
    database, products, made = filled
    await change(database, products, made, FIRST, None)
    new = {number * STEP: (STATUSES[number % 3], number) for number in range(1, 7)}
    rows = [
        {"id": key, "status": status, "price": price, "now": NOON}
        for key, (status, price) in new.items()
    ]
    async with other.transaction() as tx:
        await tx.run_many(INSERT.format(override="OVERRIDING SYSTEM VALUE"), rows)
        await tx.run("UPDATE list_blocks SET total = total WHERE block = 0")  # in every shard
        await forget(database)
        assert 0 in await blocks(database)
    assert await blocks(database) == told(made | new)
