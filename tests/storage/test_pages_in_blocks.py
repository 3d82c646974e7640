"""Pages of products anywhere in a long list are those of a plain list, whatever has changed."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from driving import NOON
from portico.core.money import UNITS_PER_ONE
from portico.data.database import Database
from portico.data.filtered_totals import BLOCK
from portico.data.listing import DEEP, Listing, Order
from portico.features.catalogue.products import PRODUCTS
from portico.features.catalogue.rules import STATUSES
from portico.features.catalogue.storage import Products
from storage.recording import recorded

COUNT = 3 * DEEP
STEP = 11
"""Between two ids, so that the products lie in several blocks."""

INSERT = """
INSERT INTO products (id, name, description, category, price, currency, stock_quantity, status,
    images, metadata, created_at, updated_at) {override}
VALUES (:id, 'x', '', 'c', :price, 'EUR', 0, :status, '[]', '{{}}', :now, :now)"""


def price(product_id: int) -> int:
    """Rises with the id, so that some ranges have only what is old."""
    return product_id // STEP % 50 + product_id // (500 * STEP) * 100


def query(limit: int = 25, **chosen: Any) -> Any:
    """A query of products of every status, unless one is chosen."""
    return PRODUCTS.query(**{"status": None, "limit": limit, **chosen})


def units(number: int) -> Decimal:
    """A price of so many units."""
    return Decimal(number) / UNITS_PER_ONE


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """More fit a filter than are looked through."""
    monkeypatch.setattr("portico.data.listing.RECENT", 50 * STEP)


@pytest.fixture
async def filled(database: Database) -> tuple[Database, dict[int, str]]:
    """Many products, by their ids, with their statuses."""
    made = {n * STEP: STATUSES[0 if n % 5 else n // 5 % 3] for n in range(1, COUNT + 1)}
    override = "OVERRIDING SYSTEM VALUE" if database.engine == "postgres" else ""
    rows = [
        {"id": key, "status": status, "price": price(key), "now": NOON}
        for key, status in made.items()
    ]
    async with database.transaction() as tx:
        await tx.run_many(INSERT.format(override=override), rows)
    assert COUNT * STEP > 7 * BLOCK
    return database, made


PRICES = st.integers(0, 700)
PLACES = st.lists(
    st.tuples(
        st.one_of(st.integers(DEEP - 2, COUNT + 20), st.integers(0, 700)),
        st.sampled_from([1, 25, 100]),
        st.sampled_from([None, *STATUSES]),
    ),
    min_size=1,
    max_size=6,
)
CHANGES = st.lists(st.tuples(st.integers(1, COUNT), st.sampled_from([None, *STATUSES])), max_size=6)


async def change(
    database: Database, made: dict[int, str], changes: list[tuple[int, str | None]]
) -> None:
    products = Products(database)
    async with database.transaction() as tx:
        for number, status in changes:  # without a status it goes
            product = await products.get(number * STEP, tx)
            if product is not None and status is None:
                await products.delete(tx, product)
                del made[product.id]
            elif product is not None and status is not None:
                changed = msgspec.structs.replace(product, status=status)
                await products.update(tx, product, changed)
                made[product.id] = status


@pytest.mark.usefixtures("few")
@given(places=PLACES, changes=CHANGES, bounds=st.tuples(PRICES, PRICES))
@settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_every_page_of_a_filter_is_that_of_a_plain_list(
    filled: tuple[Database, dict[int, str]],
    places: list[tuple[int, int, str | None]],
    changes: list[tuple[int, str | None]],
    bounds: tuple[int, int],
) -> None:
    """Whether enough fit among the newest, or what fits is older."""
    database, made = filled
    products = Products(database)
    least, most = sorted(bounds)
    for offset, limit, status in places:
        chosen = query(limit, status=status, min_price=units(least), max_price=units(most))
        for _ in range(2):  # counted before, and not
            page = await products.listed(chosen, offset, None)
            wanted = [
                key
                for key in sorted(made, reverse=True)
                if status in (None, made[key]) and least <= price(key) <= most
            ]
            assert [each.id for each in page.rows] == wanted[offset : offset + limit]
            assert page.total == len(wanted)
        await change(database, made, changes)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    "order", [Order("id", descending=False), *(Order("price", way) for way in (False, True))]
)
async def test_page_in_another_order_is_that_of_a_plain_list(
    filled: tuple[Database, dict[int, str]], order: Order
) -> None:
    """However many fit the filter."""
    database, made = filled
    listing = Listing(database, PRODUCTS.listing, in_blocks=True)
    for where, kept, status in (("TRUE", "TRUE", None), ("status = 'active'", None, "active")):
        wanted = sorted(
            (key for key in made if status in (None, made[key])),
            key=lambda key: (price(key) if order.column == "price" else 0, key),
            reverse=order.descending,
        )
        for offset in (0, DEEP + 1, len(wanted) - 60):
            page = await listing.page(where, {}, order=order, offset=offset, limit=25, kept=kept)
            after = await listing.page(
                where, {}, order=order, offset=0, limit=25, behind=page.next, kept=kept
            )
            found = [each.id for each in (*page.rows, *after.rows)]
            assert found == wanted[offset : offset + 50], offset


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("offset", "reads"), [(0, 2), (COUNT - 50, 3)])
async def test_a_wide_range_of_prices_sorts_nothing(
    filled: tuple[Database, dict[int, str]], offset: int, reads: int
) -> None:
    database, _ = filled
    products = Products(database)
    if database.engine == "postgres":  # its planner knows how many fit
        return
    recording = recorded(database)
    await products.listed(query(min_price=units(1)), offset, None)
    assert len(recording.asked) == reads
    assert "products_by_price" not in await recording.plan()
    few = query(min_price=units(500))  # of rows about one in six
    await products.listed(few, 300, None)
    assert "products_by_price" in await recording.plan()
    common = query(status="active", category="c")
    await products.listed(common, COUNT // 2, None)
    assert "COVERING INDEX products_by_category " in await recording.plan()


@pytest.mark.usefixtures("few")
async def test_sort_by_a_column_with_an_index_sorts_nothing_for_a_common_filter(
    filled: tuple[Database, dict[int, str]],
) -> None:
    database, _ = filled
    if database.engine == "postgres":  # its planner knows how many fit
        return
    async with database.transaction() as tx:
        await tx.script("CREATE INDEX products_by_price_alone ON products (price, id)")
    recording = recorded(database)
    listing = Listing(database, PRODUCTS.listing, in_blocks=True)
    behind = None
    for _ in range(2):
        page = await listing.page(
            "status = 'active'",
            {},
            order=Order("price", descending=False),
            offset=0,
            limit=25,
            behind=behind,
            kept=None,
        )
        plan = await recording.plan()
        assert "INDEX products_by_price_alone" in plan
        assert "products_by_status" not in plan
        behind = page.next


async def test_page_in_an_order_without_an_index_is_read_in_a_thread(
    filled: tuple[Database, dict[int, str]],
) -> None:
    database, _ = filled
    products = Products(database)
    recording = recorded(database)
    await products.listed(query(), 0, None)
    assert recording.asked == []
    await products.listed(query(), 0, None, ("price", "asc"))
    assert len(recording.asked) == 1
