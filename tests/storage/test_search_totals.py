"""What was counted of one version of the products is never told of another."""

import pytest

from portico.data.database import Database
from portico.features.catalogue.products import ProductFilter
from portico.features.catalogue.storage import Products
from storage.lamp import LAMP
from storage.recording import recorded


async def add(database: Database, products: Products) -> None:
    async with database.transaction() as tx:
        await products.insert(tx, LAMP)


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
