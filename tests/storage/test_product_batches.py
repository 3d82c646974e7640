"""Many products at once are stored as they would be one by one (`features.catalogue.storage`)."""

from typing import Any

import msgspec
import pytest

from driving import NOON
from portico.data.database import Database
from portico.data.listing import Page
from portico.data.table import DELETE_BATCH
from portico.features.catalogue.products import PRODUCTS
from portico.features.catalogue.rules import Product
from portico.features.catalogue.storage import Products

STATUSES = ("active", "active", "draft")


def product(number: int) -> Product:
    return Product(
        id=0,
        name=f"Lamp Ä{number}",
        description=f"Light for room {number % 7}.",
        category=f"c{number % 5}",
        price=number * 997 % 10_007,
        currency="EUR",
        stock_quantity=number % 3,
        status=STATUSES[number % 3],
        images="[]",
        metadata=f'{{"n":"{number}"}}',
        created_at=NOON + number,
        updated_at=NOON + number,
    )


async def shown(products: Products, status: str, search: str = "") -> Page[Any]:
    return await products.listed(PRODUCTS.query(status=status, search=search, limit=100), 0, None)


async def all_of(products: Products) -> list[Product]:
    return [each async for batch in products.batches() for each in batch]


async def test_a_batch_is_stored_as_if_one_by_one(database: Database) -> None:
    products = Products(database)
    many = [product(number) for number in range(30)]
    async with database.transaction() as tx:
        before = await products.insert(tx, product(100))
        await products.insert_many(tx, many)
        after = await products.insert(tx, product(101))
    stored = await all_of(products)
    ids = [each.id for each in stored]
    assert ids == sorted(set(ids))
    assert stored[0] == before
    assert stored[-1] == after
    assert [msgspec.structs.replace(each, id=0) for each in stored[1:-1]] == many
    for status in ("active", "draft"):
        chosen = [each.id for each in reversed(stored) if each.status == status]
        page = await shown(products, status)
        assert page.total == len(chosen)
        assert [each.id for each in page.rows] == chosen
        in_room = [
            e.id for e in reversed(stored) if e.status == status and "room 3" in e.description
        ]
        found = await shown(products, status, "lamp room 3")
        assert (found.total, [each.id for each in found.rows]) == (len(in_room), in_room)


@pytest.mark.parametrize("another", ["sqlite"], indirect=True)  # by the same statements
async def test_everything_goes_however_much_there_is(database: Database) -> None:
    products = Products(database)
    async with database.transaction() as tx:
        for start in range(0, DELETE_BATCH + 2, 5_000):
            await products.insert_many(tx, [product(start + number) for number in range(5_000)])
    assert (await shown(products, "active", "lamp")).total > 0
    async with database.transaction() as tx:
        await products.delete_all(tx)
    assert await all_of(products) == []
    assert (await shown(products, "active")).total == 0
    assert (await shown(products, "active", "lamp")).total == 0


def large(number: int, size: int) -> Product:
    """A product that takes about so many bytes."""
    metadata = msgspec.json.encode({"text": "ä" * (size // 2)}).decode()
    return msgspec.structs.replace(product(number), metadata=metadata)


@pytest.mark.parametrize("search", ["", "lamp"])
async def test_large_products_are_read_a_few_at_a_time(database: Database, search: str) -> None:
    products = Products(database)
    sizes = [100_000] * 5 + [600_000, 100, 100, 200_000]
    async with database.transaction() as tx:
        many = [large(number, size) for number, size in enumerate(sizes)]
        ids = await products.insert_many(tx, many)
    query = PRODUCTS.query(status=None, search=search)
    batches = [batch async for batch in products.matching(query)]
    assert [product.id for batch in batches for product in batch] == [*ids]
    assert [len(batch) for batch in batches] == [2, 2, 1, 1, 3]
