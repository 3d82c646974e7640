"""Notes about products."""

from collections.abc import Iterable, Sequence
from typing import Self

from portico.domain.events.base import Details, Event
from portico.domain.products import Product

MOST_IDS = 10_000
"""How many ids of new products, and of changed ones, the note of an import names."""


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

    action = "product.changed"

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


class ProductsImported(Event, frozen=True):
    """Products were imported from a file. The ids of new and changed ones are from `first_id` to
    `last_id`, both included; `inserted_ids` and `updated_ids` are the lowest `MOST_IDS` of each,
    ascending."""

    action = "products.imported"
    target = "product"

    inserted: int
    updated: int
    first_id: int
    last_id: int
    inserted_ids: Sequence[int]
    updated_ids: Sequence[int]

    @classmethod
    def of(cls, inserted: Sequence[int], updated: Sequence[int]) -> Self:
        """The note of these new and changed products, at least one."""
        every = [*inserted, *updated]
        counts = len(inserted), len(updated)
        return cls(*counts, min(every), max(every), _lowest(inserted), _lowest(updated))

    def plus(self, more: Self) -> Self:
        """The note of both."""
        return type(self)(
            self.inserted + more.inserted,
            self.updated + more.updated,
            min(self.first_id, more.first_id),
            max(self.last_id, more.last_id),
            _lowest([*self.inserted_ids, *more.inserted_ids]),
            _lowest([*self.updated_ids, *more.updated_ids]),
        )

    @property
    def details(self) -> Details:
        return {"inserted": self.inserted, "updated": self.updated}


def _lowest(ids: Iterable[int]) -> Sequence[int]:
    return sorted(ids)[:MOST_IDS]


class SandboxReset(Event, frozen=True):
    """The sandbox was emptied and filled with samples; `filled` says how many of each kind."""

    action = "sandbox.reset"

    filled: Details

    @property
    def details(self) -> Details:
        """How many samples of each kind were created."""
        return self.filled
