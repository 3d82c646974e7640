"""Portico's own kinds as rules of other kinds see them."""

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Self

from msgspec.structs import asdict

from portico.core.errors import invalid
from portico.core.money import price_text
from portico.core.users import User
from portico.features.catalogue.rules import Product
from portico.features.catalogue.schemas import ChangeProduct, CreateProduct
from portico.resource.compiled import OWN
from portico.resource.declared import Record
from portico.resource.fields import MOMENT
from portico.web.reading import Faults, read_object, sent

BUILT_IN = {"products": "products", "users": "users"}
"""The tables of the kinds to which references can lead."""


class ProductRecord(Record):
    """A product: its fields are those of the API, `price` is a `Decimal`."""

    @classmethod
    def of(cls, product: Product) -> Self:
        """The record of a product."""
        times = {name: MOMENT.given(getattr(product, name)) for name in OWN[1:]}
        values = {
            "price": Decimal(price_text(product.price)),
            "in_stock": product.stock_quantity > 0,
            "images": json.loads(product.images),
            "metadata": json.loads(product.metadata),
        }
        return cls(**(asdict(product) | values | times))


class UserRecord(Record):
    """A user, without credentials."""

    @classmethod
    def of(cls, user: User) -> Self:
        """The record of a user."""
        names = ("id", "name", "email", "role", "plan")
        times = {name: MOMENT.given(getattr(user, name)) for name in OWN[1:]}
        return cls(**{name: getattr(user, name) for name in names}, **times)


def product_values(values: Mapping[str, Any], *, new: bool = False) -> dict[str, Any]:
    """Values of a product as the API reads them. Raises `Invalid`."""
    shape = CreateProduct if new else ChangeProduct
    faults = Faults()
    read = read_object(shape, dict(values), "", faults)
    if found := [*faults.unreadable, *faults.broken]:
        raise invalid(*found)
    return sent(shape(**read))
