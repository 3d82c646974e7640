"""A kind with the fields of products, to be measured beside them."""

from decimal import Decimal

from portico.kinds import Kind, Record, currency, integer, money, states, text


class Item(Record):
    """The twin of a product."""

    name: str = text(1, 255, search=True)
    description: str = text(0, 5000, default="", search=True, whole=False)
    category: str = text(1, 100, search=True)
    price: Decimal = money()
    currency: str = currency()
    stock_quantity: int = integer(0, 2_147_483_647, default=0)
    status: str = states(
        {"draft": ["active"], "active": ["archived"], "archived": ["active"]}, start="draft"
    )


items = Kind(
    Item,
    one="item",
    many="items",
    readers=["viewer", "editor"],
    writers=["editor"],
    filters=["category", "status", "price"],
    sorts=["created_at", "name", "price"],
)
