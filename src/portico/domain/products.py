"""A product, and the rules for its values. The rules raise `BrokenRule`."""

from collections.abc import Mapping
from typing import Any

import msgspec

from portico.domain.errors import BrokenRule
from portico.domain.rules import Between, Measured, OneOf, Trimmed
from portico.domain.text import web_url

STATUSES = ("active", "archived", "draft")

MAX_IMAGES = 50
MAX_METADATA_KEYS = 50

_NEXT_STATUSES = {
    "draft": ("active", "archived"),
    "active": ("archived",),
    "archived": ("active",),
}


class Image(msgspec.Struct, frozen=True):
    """A picture of a product, with its alternative text."""

    url: str
    alt: str = ""


class Product(msgspec.Struct, frozen=True):
    """An entry of the catalog.

    `price` is in units (1/10000 of `currency`), times are epoch milliseconds. `images` (a list of
    `Image`) and `metadata` (text to text) are JSON text, which most reads pass on undecoded and
    lists omit.
    """

    id: int
    name: str
    description: str
    category: str
    price: int
    currency: str
    stock_quantity: int
    status: str
    created_at: int
    updated_at: int
    images: str = "[]"
    metadata: str = "{}"


_decode = msgspec.json.Decoder(dict[str, str]).decode


def with_values(product: Product, values: Mapping[str, Any]) -> Product:
    """The product with these values, which are in their stored form. Metadata that only differs in
    order stays as it was."""
    text = values.get("metadata", product.metadata)
    if text != product.metadata and _decode(text) == _decode(product.metadata):
        values = {**values, "metadata": product.metadata}
    return msgspec.structs.replace(product, **values)


name = Trimmed(1, 200)
category = Trimmed(1, 100)
description = Measured(0, 10_000)
stock_quantity = Between(0, 2**31 - 1)
status = OneOf(STATUSES)
image_url = web_url
image_alt = Measured(0, 500)
metadata_key = Measured(1, 100)
metadata_value = Measured(0, 1_000)


def next_statuses(status: str) -> tuple[str, ...]:
    """The statuses that a product with this status can change to."""
    return _NEXT_STATUSES[status]


def change_status(old: str, new: str) -> str:
    """The status after a change from `old` to `new`, which may be the same. Raises `BrokenRule`."""
    if new != old and new not in _NEXT_STATUSES[old]:
        raise BrokenRule(f"cannot change from {old} to {new}")
    return new
