"""A product of which nothing matters."""

from driving import NOON
from portico.features.catalogue.rules import Product

LAMP = Product(
    id=0,
    name="Lamp",
    description="",
    category="light",
    price=1,
    currency="USD",
    stock_quantity=0,
    status="active",
    created_at=NOON,
    updated_at=NOON,
)
