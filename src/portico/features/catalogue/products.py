"""Products: their declaration, and what is their own of what follows from it."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import msgspec

from portico.core.events import Details
from portico.core.money import bound_units
from portico.data.database import Dependency, ListDependency, Params
from portico.data.search import tokens
from portico.features.catalogue.rules import MAX_IMAGES, STATUSES, Product
from portico.kinds import Kind, Record, currency, integer, items, money, states, text, texts, url
from portico.resource.compiled import Compiled
from portico.resource.fields import BooleanField, Field
from portico.resource.search import Indexed

_IMAGE = {"url": "https://example.com/lamp.jpg", "alt": "The lamp, lit"}


class Image(Record):
    """A picture of a product, with its alternative text."""

    url: str = url(example=_IMAGE["url"])
    alt: str = text(0, 500, trim=False, default="", example=_IMAGE["alt"])


class InStock(BooleanField):
    """Whether there are any."""

    derived = True
    shown = "row.stock_quantity > 0"

    def given(self, row: Product) -> bool:
        return row.stock_quantity > 0


class ProductRecord(Record):
    """A product with all fields."""

    name: str = text(1, 200, search=True, example="Desk lamp")
    description: str = text(
        *(0, 10_000), trim=False, default="", search=True, example="Warm light on a jointed arm."
    )
    category: str = text(1, 100, example="lighting")
    price: Decimal = money()
    currency: str = currency()
    in_stock: bool = InStock(about="Whether `stock_quantity` is above 0.")  # type: ignore[assignment]
    stock_quantity: int = integer(0, 2**31 - 1, default=0, example=12)
    status: str = states(
        {"active": ["archived"], "archived": ["active"], "draft": ["active", "archived"]},
        start="draft",
        example="active",
    )
    images: list[Image] = items(Image, MAX_IMAGES, default=[], whole=False, example=[_IMAGE])
    metadata: dict[str, str] = texts(50, default={}, whole=False, example={"colour": "brass"})


class ProductFilter(msgspec.Struct, frozen=True):
    """Which products a list shows; None means any. Prices are in units (`core.money`), and the
    bounds are inclusive."""

    status: str | None
    category: str | None = None
    min_price: int | None = None
    max_price: int | None = None
    in_stock: bool | None = None

    def sql(self) -> tuple[str, Params]:
        """The condition and its values."""
        terms: list[str] = []
        params: dict[str, object] = {}
        if self.status is not None:
            terms.append("status = :status")
            params["status"] = self.status
        if self.category is not None:
            terms.append("category = :category")
            params["category"] = self.category
        if self.min_price is not None:
            terms.append("price >= :min_price")
            params["min_price"] = self.min_price
        if self.max_price is not None:
            terms.append("price <= :max_price")
            params["max_price"] = self.max_price
        if terms and self.status is None:
            terms.append(_ANY_STATUS)
        if self.in_stock is not None:
            terms.append("stock_quantity > 0" if self.in_stock else "stock_quantity = 0")
        return " AND ".join(terms) or "TRUE", params

    @property
    def by_status_alone(self) -> bool:
        """Whether the filter is by status only, or by nothing."""
        return self == ProductFilter(self.status)

    @property
    def is_indexed(self) -> bool:
        """Whether an index begins with the filter's columns and goes on with the id."""
        return self == ProductFilter(self.status, self.category) and self.status is not None


# True for all products. It lets a filter use the indexes, which all begin with the status.
_ANY_STATUS = f"status IN {STATUSES}"


def filter_of(query: Any) -> ProductFilter:
    """The filter of a list's query."""
    low, high, stock = query.min_price, query.max_price, query.in_stock
    return ProductFilter(
        status=query.status,
        category=query.category,
        min_price=None if low is None else bound_units(low, up=True),
        max_price=None if high is None else bound_units(high, up=False),
        in_stock=None if stock is None else bool(stock),
    )


def list_part(status: str | None, category: str | None) -> Dependency:
    """The part (`Database.version_of`) of all lists and searches of products of this status, and of
    this category if one is given, whatever other filters they have."""
    return ListDependency("products", status or "", category)


_MARKS = {"active": "a", "archived": "r", "draft": "d"}


def _words(product: Product) -> tuple[list[str], list[str]]:
    """The words of the name and those of the description, marked with the product's status."""
    mark = _MARKS[product.status]
    return (
        [mark + word for word in tokens(product.name)],
        [mark + word for word in tokens(product.description)],
    )


class _Products(Compiled):
    """Products, whose lists, totals and words are kept by status."""

    column = staticmethod(str)
    table_of = staticmethod(str)
    about_list = (
        "Newest first, or most relevant first with `search`. Shows active products unless `status`"
        " says otherwise."
    )

    chosen: Mapping[str, Any] = MappingProxyType({"status": "active"})

    def __init__(self, kind: Kind[Any]) -> None:
        super().__init__(kind)
        self.an = "a product"
        self.item_shape.__doc__ = "A product in a list."

    def row_shape(self) -> Any:
        return Product

    def index(self) -> Indexed[Any]:
        return Indexed(self.table_name, "product_words", _words, _MARKS)

    def texts(self, row: Product) -> list[str]:
        return [row.name, row.description, row.status]

    @property
    def filed(self) -> Sequence[Field]:
        return self.sent

    def ordering(self) -> list[Any]:
        return []

    def _condition(self) -> Callable[[Any], tuple[str, Params]]:
        return lambda query: filter_of(query).sql()

    def shows(self, query: Any) -> Dependency:
        return list_part(query.status, query.category)

    def depended(self, row: Product) -> tuple[Dependency, ...]:
        return list_part(row.status, row.category), list_part(row.status, None)

    def facts(self, row: Product) -> Details:
        return {"name": row.name}

    def example(self) -> dict[str, Any]:
        return {name: value for name, value in super().example().items() if name != "currency"}

    def change_example(self) -> dict[str, Any]:
        return {"price": 19.95, "stock_quantity": 3}


PRODUCTS = _Products(
    Kind(
        ProductRecord,
        one="product",
        many="products",
        readers=["viewer", "editor"],
        writers=["editor"],
        filters=["category", "price", "in_stock", "status"],
        samples="samples.ndjson",
    )
)
