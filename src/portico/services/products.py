"""Use cases of products."""

from collections.abc import Callable
from typing import Any

import msgspec

from portico.domain.audit import Actor
from portico.domain.errors import BrokenRule, Fault, Invalid, NotFound
from portico.domain.products import Product, change_status
from portico.services.environment import Environment
from portico.storage.database import Keep

Check = Callable[[Product], None]
"""Raises `PreconditionFailed` where the caller expected the product to be another."""


async def create_product(
    env: Environment, values: dict[str, Any], by: Actor, keep: Keep[Product] | None = None
) -> Product:
    """Stores a new product with these values, which its rules have passed."""
    now = env.clock()
    async with env.db.transaction() as tx:
        product = await env.products.insert(tx, new_product(values, now))
        facts = {"name": product.name}
        await env.audit.record(
            tx, by, now, "product.created", target="product", target_id=product.id, details=facts
        )
        if keep is not None:
            await keep(tx, product)
    return product


def new_product(values: dict[str, Any], now: int) -> Product:
    """A product with these values, which its rules have passed; it has no id yet."""
    return Product(id=0, created_at=now, updated_at=now, **_stored(values))


async def change_product(
    env: Environment, product_id: int, values: dict[str, Any], check: Check, by: Actor
) -> Product:
    """Changes a product's values. Raises `NotFound`, `PreconditionFailed`, and `Invalid` for a
    change of status that the states do not allow."""
    async with env.db.transaction() as tx:
        product = await env.products.get(product_id, tx)
        if product is None:
            raise NotFound(f"There is no product {product_id}.")
        check(product)
        if "status" in values:
            try:
                change_status(product.status, values["status"])
            except BrokenRule as error:
                raise Invalid(
                    "Some fields have values that are not allowed.", [Fault("status", str(error))]
                ) from error
        changed = msgspec.structs.replace(product, **_stored(values))
        if changed == product:
            return product
        now = env.clock()
        fields = [name for name in values if getattr(changed, name) != getattr(product, name)]
        changed = msgspec.structs.replace(changed, updated_at=now)
        await env.products.update(tx, changed)
        facts = {"fields": fields}
        await env.audit.record(
            tx, by, now, "product.changed", target="product", target_id=product_id, details=facts
        )
    return changed


async def delete_product(env: Environment, product_id: int, check: Check, by: Actor) -> None:
    """Removes a product. Raises `NotFound` and `PreconditionFailed`."""
    async with env.db.transaction() as tx:
        product = await env.products.get(product_id, tx)
        if product is None:
            raise NotFound(f"There is no product {product_id}.")
        check(product)
        await env.products.delete(tx, product_id)
        await env.audit.record(
            tx,
            by,
            env.clock(),
            "product.deleted",
            target="product",
            target_id=product_id,
            details={"name": product.name},
        )


def _stored(values: dict[str, Any]) -> dict[str, Any]:
    """Values as a `Product` holds them: images and metadata as JSON text."""
    stored = dict(values)
    if "images" in stored:
        images = [{"url": image["url"], "alt": image.get("alt", "")} for image in stored["images"]]
        stored["images"] = msgspec.json.encode(images).decode()
    if "metadata" in stored:
        stored["metadata"] = msgspec.json.encode(stored["metadata"]).decode()
    return stored
