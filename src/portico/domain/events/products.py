"""Notes about products."""

from portico.domain.events.base import Details, Event
from portico.domain.products import Product


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
    `last_id`, both included."""

    action = "products.imported"
    target = "product"

    inserted: int
    updated: int
    first_id: int
    last_id: int

    @property
    def details(self) -> Details:
        return {"inserted": self.inserted, "updated": self.updated}


class SandboxReset(Event, frozen=True):
    """The sandbox was emptied and filled with samples; `filled` says how many of each kind."""

    action = "sandbox.reset"

    filled: Details

    @property
    def details(self) -> Details:
        """How many samples of each kind were created."""
        return self.filled
