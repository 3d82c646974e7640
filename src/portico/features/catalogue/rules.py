"""A product, and the rules for its values. The rules raise `BrokenRule`."""

from collections.abc import Collection, Mapping
from typing import Any, Literal

import msgspec

from portico.core.audit import Actor
from portico.core.errors import BrokenRule, Fault
from portico.core.events import Details, Event
from portico.core.rules import MAX_METADATA_KEYS as MAX_METADATA_KEYS
from portico.core.rules import Between, Measured, OneOf, Trimmed
from portico.core.rules import metadata_key as metadata_key
from portico.core.rules import metadata_value as metadata_value
from portico.core.text import web_url
from portico.core.times import DAY, MINUTE, SECOND
from portico.resource.file_rows import FileRow
from portico.resource.notes import IMPORTED, RecordsImported

STATUSES = ("active", "archived", "draft")

MAX_IMAGES = 50

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


def next_statuses(status: str) -> tuple[str, ...]:
    """The statuses that a product with this status can change to."""
    return _NEXT_STATUSES[status]


def change_status(old: str, new: str) -> str:
    """The status after a change from `old` to `new`, which may be the same. Raises `BrokenRule`."""
    if new != old and new not in _NEXT_STATUSES[old]:
        raise BrokenRule(f"cannot change from {old} to {new}")
    return new


class _OfProduct(Event, frozen=True):
    target = "product"

    product: Product

    @property
    def target_id(self) -> int:
        return self.product.id


class ProductCreated(_OfProduct, frozen=True):
    """A product was created."""

    action = "product.created"

    @property
    def details(self) -> Details:
        return {"name": self.product.name}


class ProductChanged(_OfProduct, frozen=True):
    """Values of a product changed: from `before` to `product`."""

    action = "product.updated"

    before: Product

    @property
    def details(self) -> Details:
        """The names of the fields that differ, except `updated_at`."""
        names = (f for f in self.product.__struct_fields__ if f != "updated_at")
        fields = [f for f in names if getattr(self.product, f) != getattr(self.before, f)]
        return {"fields": fields}


class ProductDeleted(_OfProduct, frozen=True):
    """A product was deleted; `product` is its last state."""

    action = "product.deleted"

    @property
    def details(self) -> Details:
        return {"name": self.product.name}


class ProductsImported(RecordsImported, frozen=True):
    """Products were imported from a file."""

    action = "products.imported"
    target = "product"


IMPORTED["products"] = ProductsImported


class SandboxReset(Event, frozen=True):
    """The sandbox was emptied and filled with samples; `filled` says how many of each kind."""

    action = "sandbox.reset"

    filled: Details

    @property
    def details(self) -> Details:
        """How many samples of each kind were created."""
        return self.filled


def changed(before: Product | None, row: FileRow) -> Product | Fault:
    """The product as changed by a row with its id, or why it cannot be. The row's values are in
    their stored form."""
    if before is None:
        return Fault("id", f"must be the id of a product; there is no product {row.id}")
    try:
        change_status(before.status, row.values.get("status", before.status))
    except BrokenRule as fault:
        return Fault("status", str(fault))
    return with_values(before, row.values)


State = Literal["checking", "checked", "storing", "stored", "failed"]
WAITING: Collection[State] = ("checking", "checked", "storing")
"""The states in which the file is still needed."""

MAX_BYTES = 100 * 1024 * 1024
MAX_WAITING = 3
"""The most files of one account that are not stored yet."""

NO_COUNTS = {"line": 0, "done": 0, "inserted": 0, "updated": 0, "unchanged": 0, "faulty": 0}
"""The counting fields of an `Upload`, before anything is counted."""

KEPT = DAY
SILENT = 15 * SECOND
"""How long a worker may be silent before another process takes over its file."""
LOST = MINUTE
"""How long no worker may have been seen before a file counts as lost with its host."""

MAX_TOLD = 1_000
MAX_FAULTS = 10
"""The most faulty rows listed for a file, and faults for a row: the others are only counted."""


class Upload(msgspec.Struct, frozen=True):
    """An uploaded file, its purpose and its progress. Times are epoch milliseconds.

    The file is named `token`, in the data directory of the host that received it; only a process
    that finds it there checks and stores it. `account_id` is an account in live, `actor` belongs to
    this environment. The counts are first those of the check, then those of storing; `line` and
    `done` say up to which line and byte.
    """

    id: int
    token: str
    account_id: int
    actor: Actor
    name: str
    updates: bool
    size: int
    state: State
    created_at: int
    """When it was uploaded, or storing it was requested: it is kept for a day from then on."""
    seen_at: int = 0
    """When a process last reported to be working on it."""
    line: int = 0
    done: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    faulty: int = 0
    problem: str = ""
    """Why it failed as a whole."""

    @property
    def under_way(self) -> bool:
        """Whether a process works on it, or should."""
        return self.state in ("checking", "storing")
