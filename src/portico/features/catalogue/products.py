"""Products: their declaration, and what is their own of what follows from it."""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from portico.core.events import Details
from portico.data.database import Dependency, ListDependency, Params
from portico.features.catalogue.rules import MAX_IMAGES, STATUSES, Product
from portico.kinds import Kind, Record, currency, integer, items, money, states, text, texts, url
from portico.resource.compiled import CREATED, Compiled
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


# True for all products. It lets a filter use the indexes, which all begin with the status.
_ANY_STATUS = f"status IN {STATUSES}"


def list_part(status: str | None, category: str | None) -> Dependency:
    """The part (`Database.version_of`) of all lists and searches of products of this status, and of
    this category if one is given, whatever other filters they have."""
    return ListDependency("products", status or "", category)


_MARKS = {"active": "a", "archived": "r", "draft": "d"}


class _Products(Compiled):
    """Products, whose lists, totals and words are kept by status."""

    column = staticmethod(str)
    table_of = staticmethod(str)
    about_list = (
        "Newest first, or most relevant first with `search`. Shows active products unless `status`"
        " says otherwise."
    )
    chosen: Mapping[str, Any] = MappingProxyType({"status": "active"})
    kept = MappingProxyType({"TRUE": "TRUE", "status = :status": "key = :status"})
    id_ordered = ("category = :category AND status = :status",)

    def __init__(self, kind: Kind[Any]) -> None:
        super().__init__(kind)
        self.an = "a product"
        self.item_shape.__doc__ = "A product in a list."

    def row_shape(self) -> Any:
        return Product

    def index(self) -> Indexed[Any]:
        return Indexed(self.table_name, "product_words", self.words_of, _MARKS)

    def mark_of(self, row: Product) -> str:
        return _MARKS[row.status]

    def mark(self, query: Any) -> str | None:
        status: str | None = query.status
        return status

    @property
    def filed(self) -> Sequence[Field]:
        return self.sent

    def ordering(self) -> list[Any]:
        return []

    def sorted_by(self, _query: Any) -> tuple[str, str]:
        return CREATED, "desc"

    def _condition(self) -> Callable[[Any], tuple[str, Params]]:
        of_fields = super()._condition()

        def condition(query: Any) -> tuple[str, Params]:
            where, params = of_fields(query)
            if query.status is None and where != "TRUE":
                where = f"{where} AND {_ANY_STATUS}"
            if query.in_stock is not None:
                where = f"{where} AND stock_quantity {'>' if query.in_stock else '='} 0"
            return where, params

        return condition

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
