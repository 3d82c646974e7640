"""Which indexes filters and searches of products use on SQLite, which keeps no statistics."""

import re
from decimal import Decimal

import msgspec
import pytest

from portico.data.database import Database
from portico.features.catalogue.products import PRODUCTS
from portico.features.catalogue.storage import Products
from storage.lamp import LAMP
from storage.recording import recorded

pytestmark = pytest.mark.parametrize("another", ["sqlite"], indirect=True)

BY_BOTH = re.compile(r"SEARCH products USING COVERING INDEX products_by_category_and_price \(.*>")


@pytest.fixture
async def products(database: Database) -> Products:
    """A rare category and a common one, with equal prices."""
    products = Products(database)
    async with database.transaction() as tx:
        for category, count in (("rare", 3), ("common", 30)):
            lamp = msgspec.structs.replace(LAMP, category=category, price=5)
            await products.insert_many(tx, [lamp] * count)
    return products


async def test_category_in_a_price_range_is_counted_and_read_in_one_index(
    database: Database, products: Products
) -> None:
    asked = recorded(database)
    for status in ("active", None):
        chosen = PRODUCTS.query(status=status, category="rare", min_price=Decimal("0.0005"))
        page = await products.listed(chosen, 0, None)
        assert page.total == len(page.rows) == 3
    for number in range(len(asked.asked)):
        assert BY_BOTH.search(plan := await asked.plan(number)), plan


async def test_search_looks_for_its_words_before_anything_else(
    database: Database, products: Products
) -> None:
    asked = recorded(database)
    query = PRODUCTS.query(category="rare", max_price=Decimal("0.0009"), search="lamp")
    assert len([batch async for batch in products.matching(query)]) == 1
    assert (await products.listed(query, 0, None)).total == 3
    joined = [n for n, (sql, _) in enumerate(asked.asked) if "MATCH" in sql]
    assert len(joined) > 2, "the batch, what was counted, and the rows"
    for number in joined:
        steps = (await asked.plan(number)).splitlines()
        read = [line for line in steps if line.startswith(("SCAN product", "SEARCH product"))]
        assert read[0].startswith("SCAN product_words")
        assert "INTEGER PRIMARY KEY" in read[1]
