from decimal import Decimal

from portico.kinds import Kind, Record, Refused, currency, integer, money, reference, states, text


class Order(Record):
    """What somebody ordered."""

    number: str = text(1, 40, unique=True, search=True, example="2026-0001")
    product_id: int = reference("products")
    quantity: int = integer(1, 1000, default=1)
    total: Decimal = money()
    currency: str = currency()
    note: str = text(0, 2000, default="", search=True)
    status: str = states(
        {"open": ["paid", "cancelled"], "paid": ["shipped"], "shipped": [], "cancelled": []},
        start="open",
    )


orders = Kind(
    Order,
    one="order",
    many="orders",
    readers=["viewer", "editor"],
    writers=["editor"],
    filters=["status", "product_id", "total"],
    sorts=["created_at", "number"],
)


@orders.before_change
async def in_stock(change, before, after):
    if before is None and after is not None:
        product = await change.read("products", after.product_id)
        if product is not None and product.stock_quantity < after.quantity:
            raise Refused(quantity="is more than there is in stock")
