"""What happens to the catalog."""

from portico.domain.events.base import Details, Event
from portico.domain.products import Product


class _OfProduct(Event, frozen=True):
    target = "product"

    product: Product

    @property
    def target_id(self) -> int:
        return self.product.id


class ProductCreated(_OfProduct, frozen=True):
    """A product was made."""

    action = "product.created"

    @property
    def details(self) -> Details:
        return {"name": self.product.name}


class ProductChanged(_OfProduct, frozen=True):
    """Values of a product changed; `product` is as it is now."""

    action = "product.changed"

    before: Product

    @property
    def details(self) -> Details:
        """The fields that differ."""
        names = (f for f in self.product.__struct_fields__ if f != "updated_at")
        fields = [f for f in names if getattr(self.product, f) != getattr(self.before, f)]
        return {"fields": fields}


class ProductDeleted(_OfProduct, frozen=True):
    """A product is gone."""

    action = "product.deleted"

    @property
    def details(self) -> Details:
        return {"name": self.product.name}


class ProductsImported(Event, frozen=True):
    """Products came in from a file; `first_id` and `last_id` bound the ids of those that are new or
    changed."""

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
    """The sandbox was filled with samples."""

    action = "sandbox.reset"

    filled: Details

    @property
    def details(self) -> Details:
        """How many of each kind."""
        return self.filled
