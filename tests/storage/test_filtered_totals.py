"""Totals of filters are exact at once after every change, and most of them are not counted anew."""

from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driving import NOON
from portico.core.money import UNITS_PER_ONE
from portico.data.database import Database
from portico.data.filtered_totals import BLOCK, TOUCHED, EmptyBlocks
from portico.features.catalogue.products import PRODUCTS
from portico.features.catalogue.rules import STATUSES
from portico.features.catalogue.storage import Products

COUNT = 600
STEP = BLOCK // 12
"""Between two ids: there are more blocks than are counted one by one."""

INSERT = """
INSERT INTO products (id, name, description, category, price, currency, stock_quantity, status,
    images, metadata, created_at, updated_at) {override}
VALUES (:id, 'x', '', 'c', :price, 'EUR', 0, :status, '[]', '{{}}', :now, :now)"""
WORDS = {
    "sqlite": "INSERT INTO product_words (rowid, name, description) VALUES (:id, :word, '')",
    "postgres": "INSERT INTO product_words (id, words)"
    " VALUES (:id, array_to_tsvector(ARRAY[:word, '=' || :word]))",
}
MARKS = {"active": "ax", "archived": "rx", "draft": "dx"}
LOW = PRODUCTS.query(status=None, min_price=Decimal(0), max_price=Decimal("0.0049"))
"""What half of the products fit, first."""

Made = dict[int, tuple[str, int]]
"""By their ids, the products' statuses and prices."""


async def make(database: Database, made: Made, numbers: Sequence[int]) -> None:
    override = "OVERRIDING SYSTEM VALUE" if database.engine == "postgres" else ""
    new = {n * STEP: (STATUSES[n % 3], n % 100) for n in numbers if n * STEP not in made}
    rows = [
        {"id": key, "status": status, "price": price, "now": NOON}
        for key, (status, price) in new.items()
    ]
    async with database.transaction() as tx:
        await tx.run_many(INSERT.format(override=override), rows)
        words = [{"id": key, "word": MARKS[status]} for key, (status, _) in new.items()]
        await tx.run_many(WORDS[database.engine], words)
    made.update(new)


@pytest.fixture
async def filled(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> tuple[Database, Products, Made]:
    """Many products, and one who lists them for all examples, and takes none for rare."""
    monkeypatch.setattr("portico.resource.search._RARE", 0)
    made: Made = {}
    await make(database, made, range(1, COUNT + 1, 2))
    assert COUNT * STEP // BLOCK > TOUCHED
    return database, Products(database), made


async def change(
    database: Database, products: Products, made: Made, numbers: Sequence[int], price: int | None
) -> None:
    """All at one time: they cost that, or go where it is None."""
    async with database.transaction() as tx:
        for number in numbers:
            product = await products.get(number * STEP, tx)
            if product is None:
                continue
            if price is None:
                await products.delete(tx, product)
                del made[product.id]
            else:
                status = STATUSES[price % 3]
                changed = msgspec.structs.replace(product, price=price, status=status)
                await products.update(tx, product, changed)
                made[product.id] = (status, price)


async def total(products: Products, chosen: Any, search: str = "") -> int:
    page = await products.listed(msgspec.structs.replace(chosen, search=search), 0, None)
    return page.total


def fitting(made: Made, chosen: Any) -> int:
    least, most = chosen.min_price * UNITS_PER_ONE, chosen.max_price * UNITS_PER_ONE
    return sum(
        chosen.status in (None, status) and least <= price <= most
        for status, price in made.values()
    )


NUMBERS = st.one_of(
    st.lists(st.integers(1, COUNT), min_size=1, max_size=4),
    st.integers(0, 9).map(lambda first: range(first + 1, COUNT + 1, 10)),  # of most blocks
)
CHANGES = st.lists(
    st.tuples(NUMBERS, st.one_of(st.none(), st.just("make"), st.integers(0, 99))), max_size=5
)
FILTERS = st.lists(
    st.builds(
        PRODUCTS.query,
        status=st.sampled_from([None, *STATUSES]),
        min_price=st.sampled_from([Decimal(0), Decimal("0.0020")]),
        max_price=st.sampled_from([Decimal("0.0049"), Decimal("0.0090")]),
    ),
    min_size=1,
    max_size=3,
)


@given(changes=CHANGES, filters=FILTERS)
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_the_total_is_that_of_all_that_fit_after_any_changes(
    filled: tuple[Database, Products, Made],
    changes: list[tuple[Sequence[int], int | str | None]],
    filters: list[Any],
) -> None:
    database, products, made = filled
    for numbers, what in changes:
        if isinstance(what, str):
            await make(database, made, numbers)
        else:
            await change(database, products, made, numbers, what)
        for chosen in filters:
            assert await total(products, chosen) == fitting(made, chosen)
            assert await total(products, chosen, "x") == fitting(made, chosen)
        assert await total(products, PRODUCTS.query(status=None), "x") == len(made)


async def unseen(database: Database) -> None:
    """Changes what fits in all blocks but the first, and nothing tells of it."""
    async with database.transaction() as tx:
        await tx.script("SET LOCAL session_replication_role = replica")
        await tx.run("UPDATE products SET price = 99 WHERE id > :after", {"after": BLOCK})


POSTGRES = pytest.mark.parametrize("another", ["postgres"], indirect=True)


@POSTGRES
async def test_after_a_change_only_the_blocks_that_it_touched_are_counted(
    filled: tuple[Database, Products, Made],
) -> None:
    database, products, made = filled
    before = await total(products, LOW)
    await unseen(database)
    await change(database, products, made, [1], 99)
    assert await total(products, LOW) == before - 1
    await change(database, products, made, range(1, COUNT, 10), 99)  # too much for that
    assert await total(products, LOW) == len(
        [n for n in range(3, BLOCK // STEP + 1, 2) if n % 10 != 1]
    )


@POSTGRES
async def test_a_search_counts_only_the_blocks_that_a_change_touched(
    filled: tuple[Database, Products, Made],
) -> None:
    database, products, made = filled
    active = PRODUCTS.query(status="active")
    before = [await total(products, chosen, "x") for chosen in (LOW, active)]
    async with database.transaction() as tx:
        await tx.run("DELETE FROM product_words WHERE id > :after", {"after": BLOCK})
    await change(database, products, made, [3], None)  # active, and of a low price
    after = [await total(products, chosen, "x") for chosen in (LOW, active)]
    assert after == [number - 1 for number in before]


@POSTGRES
async def test_what_is_committed_late_is_counted_then(
    filled: tuple[Database, Products, Made], another: Callable[[], Database]
) -> None:
    database, products, made = filled
    other = another()
    await other.open()
    before = await total(products, LOW)
    first = await products.get(STEP)
    assert first is not None
    async with other.transaction() as tx:
        await tx.one("SELECT pg_current_xact_id()")  # older than what is committed before it
        await products.update(tx, first, msgspec.structs.replace(first, price=99))
        await change(database, products, made, [COUNT // 2 + 1], 99)
        assert await total(products, LOW) == before - 1
    assert await total(products, LOW) == before - 2
    await other.close()


@POSTGRES
async def test_blocks_without_products_go_and_totals_stay_exact(
    filled: tuple[Database, Products, Made],
) -> None:
    async def blocks() -> dict[int, int]:
        """How many products the rows of each block tell."""
        sql = "SELECT block, CAST(sum(total) AS BIGINT) FROM list_blocks"
        rows = await database.all(f"{sql} WHERE block >= 0 GROUP BY block")
        return {row[0]: row[1] for row in rows}

    database, products, made = filled
    first = range(1, COUNT // 5)  # which fill blocks, no more than are counted one by one
    await total(products, LOW)
    before = await blocks()
    await change(database, products, made, first, None)
    async with database.transaction() as tx:
        assert not await EmptyBlocks(database).forget(tx)
    told = Counter(key // BLOCK for key in made)
    assert await blocks() == told
    assert 0 < len(before) - len(told) < TOUCHED
    assert await total(products, LOW) == fitting(made, LOW)
    assert await total(products, LOW, "x") == fitting(made, LOW)
    await make(database, made, first)
    assert await total(products, LOW) == fitting(made, LOW)
    assert await blocks() == Counter(key // BLOCK for key in made)
