"""A product as it is stored."""

import msgspec

from portico.core.events import Details, Event

STATUSES = ("active", "archived", "draft")

MAX_IMAGES = 50


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


class SandboxReset(Event, frozen=True):
    """The sandbox was emptied and filled with samples; `filled` says how many of each kind."""

    action = "sandbox.reset"

    filled: Details

    @property
    def details(self) -> Details:
        """How many samples of each kind were created."""
        return self.filled
