"""Which indexes the filters of products are answered from, on SQLite, which keeps no statistics."""

import re

import msgspec
import pytest

from portico.data.database import Database
from portico.features.catalogue.products import ProductFilter
from portico.features.catalogue.storage import Products
from storage.lamp import LAMP
from storage.recording import recorded

SQLITE = pytest.mark.parametrize("another", ["sqlite"], indirect=True)
BY_BOTH = re.compile(r"SEARCH products USING COVERING INDEX products_by_category_and_price \(.*>")


async def fill(database: Database) -> Products:
    """A rare category and a common one, with equal prices."""
    products = Products(database)
    async with database.transaction() as tx:
        for category, count in (("rare", 3), ("common", 30)):
            lamp = msgspec.structs.replace(LAMP, category=category, price=5)
            await products.insert_many(tx, [lamp] * count)
    return products


@SQLITE
@pytest.mark.parametrize("status", ["active", None])
@pytest.mark.parametrize("in_stock", [None, False])
async def test_a_category_in_a_price_range_is_counted_and_read_in_one_index(
    database: Database, status: str | None, *, in_stock: bool | None
) -> None:
    products = await fill(database)
    asked = recorded(database)
    chosen = ProductFilter(status, category="rare", min_price=5, in_stock=in_stock)
    page = await products.page(chosen, words=[], offset=0, limit=25)
    assert page.total == len(page.rows) == 3
    for number in range(len(asked.asked)):
        assert BY_BOTH.search(plan := await asked.plan(number)), plan
