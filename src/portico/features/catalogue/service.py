"""Use cases of products."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import BrokenRule, Fault, NotFound, invalid
from portico.environment import Environment
from portico.features.catalogue.rules import (
    Product,
    ProductChanged,
    ProductCreated,
    ProductDeleted,
    change_status,
    with_values,
)
from portico.features.catalogue.storage import Products

Check = Callable[[Product], None]
"""Checks `If-Match` against the stored product. Raises `PreconditionFailed`."""


async def create_product(env: Environment, values: dict[str, Any], by: Author) -> Product:
    """Creates a product. `values` are validated fields of `Product`, with images and metadata as
    the contract reads them."""

    async def work(change: Change) -> Product:
        return await created_product(env, change, values)

    return await env.change(by, work)


async def created_product(env: Environment, change: Change, values: dict[str, Any]) -> Product:
    """As `create_product`, within a change."""
    product = await env[Products].insert(change.tx, new_product(values, change.now))
    change.note(ProductCreated(product))
    return product


def new_product(values: dict[str, Any], now: int) -> Product:
    """A product with these values (see `create_product`), without an id."""
    return Product(id=0, created_at=now, updated_at=now, **stored_values(values))


async def change_product(
    env: Environment, product_id: int, values: dict[str, Any], check: Check, by: Author
) -> Product:
    """Changes values of a product and returns it as stored. `values` are as for `create_product`.
    Raises `NotFound`, `PreconditionFailed`, and `Invalid` for a change of status that is not
    allowed."""

    async def work(change: Change) -> Product:
        return await changed_product(env, change, product_id, values, check)

    return await env.change(by, work)


async def changed_product(
    env: Environment, change: Change, product_id: int, values: dict[str, Any], check: Check
) -> Product:
    """As `change_product`, within a change."""
    before = await _locked(env, change, product_id, check)
    if "status" in values:
        _check_status(before.status, values["status"])
    after = with_values(before, stored_values(values))
    if after == before:
        return before
    after = msgspec.structs.replace(after, updated_at=change.now)
    await env[Products].update(change.tx, before, after)
    change.note(ProductChanged(after, before))
    return after


async def status_faults(
    env: Environment, product_id: int, values: Mapping[str, Any]
) -> list[Fault]:
    """The faults of changes to a product that depend on its status."""
    status = values.get("status")
    if status is not None and (product := await env[Products].get(product_id)) is not None:
        try:
            change_status(product.status, status)
        except BrokenRule as error:
            return [Fault("status", str(error))]
    return []


async def delete_product(env: Environment, product_id: int, check: Check, by: Author) -> None:
    """Deletes a product. Raises `NotFound` and `PreconditionFailed`."""

    async def work(change: Change) -> None:
        product = await _locked(env, change, product_id, check)
        await env.release(change, "products", product_id)
        await env[Products].delete(change.tx, product)
        change.note(ProductDeleted(product))

    await env.change(by, work)


async def _locked(env: Environment, change: Change, product_id: int, check: Check) -> Product:
    """The product, locked until the change ends. Raises `NotFound` and what `check` raises."""
    product = await change.lock(env[Products], product_id)
    if product is None:
        raise NotFound(f"There is no product {product_id}.")
    check(product)
    return product


def _check_status(old: str, new: str) -> None:
    try:
        change_status(old, new)
    except BrokenRule as error:
        raise invalid(Fault("status", str(error))) from error


def stored_values(values: dict[str, Any]) -> dict[str, Any]:
    """These values as `Product` stores them: images and metadata become JSON text."""
    stored = dict(values)
    if "images" in stored:
        images = [{"url": image["url"], "alt": image.get("alt", "")} for image in stored["images"]]
        stored["images"] = msgspec.json.encode(images).decode()
    if "metadata" in stored:
        stored["metadata"] = msgspec.json.encode(stored["metadata"]).decode()
    return stored
