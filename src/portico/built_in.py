"""Portico's own kinds as rules and references of other kinds see them."""

import json
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

from msgspec.structs import asdict

from portico.change import Change
from portico.core.errors import invalid
from portico.core.money import price_text
from portico.core.users import User
from portico.environment import Environment
from portico.features.catalogue import service as catalogue_service
from portico.features.catalogue.rules import Product
from portico.features.catalogue.schemas import ChangeProduct, CreateProduct
from portico.features.catalogue.storage import Products
from portico.features.people.storage import USERS
from portico.resource.changes import unchecked
from portico.resource.compiled import OWN
from portico.resource.declared import Record
from portico.resource.fields import MOMENT
from portico.resource.installed import Installed
from portico.settings import Settings
from portico.web.reading import Faults, read_object, sent


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


def _values(values: Mapping[str, Any], *, new: bool = False) -> dict[str, Any]:
    """Values of a product as the API reads them. Raises `Invalid`."""
    shape = CreateProduct if new else ChangeProduct
    faults = Faults()
    read = read_object(shape, dict(values), "", faults)
    if found := [*faults.unreadable, *faults.broken]:
        raise invalid(*found)
    return sent(shape(**read))


class RuledProducts:
    """Products, as rules read and change them."""

    table = "products"

    def __init__(self, env: Environment) -> None:
        self._env = env

    async def read(self, change: Change, row_id: int) -> Record | None:
        product = await change.lock(self._env[Products], row_id)
        return None if product is None else ProductRecord.of(product)

    async def update(self, change: Change, row_id: int, values: Mapping[str, Any]) -> Record:
        product = await catalogue_service.changed_product(
            self._env, change, row_id, _values(values), unchecked
        )
        return ProductRecord.of(product)

    async def create(self, change: Change, values: Mapping[str, Any]) -> Record:
        given = _values(values, new=True)
        return ProductRecord.of(await catalogue_service.created_product(self._env, change, given))


class RuledUsers:
    """Users, as rules read them."""

    table = "users"

    def __init__(self, env: Environment) -> None:
        self._env = env

    async def read(self, _change: Change, row_id: int) -> Record | None:
        user = await USERS.one(self._env.db, USERS.by_id, {"id": row_id})
        return None if user is None else UserRecord.of(user)

    async def update(self, *_: object) -> Record:
        raise LookupError("A rule cannot change users.")

    create = update


def installed(directory: Path, settings: Settings) -> Installed:
    """The kinds that the files of a directory declare. Raises `KindsError`."""
    built_in = {"products": RuledProducts, "users": RuledUsers}
    return Installed(directory, settings.declared.roles, settings.count_limit, built_in)
