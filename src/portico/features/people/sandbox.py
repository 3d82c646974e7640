"""Fills the sandbox with sample data.

The samples are the same after every reset, except for ids and times. Sample users have no password,
so nobody can sign in as one; an operator can create keys for them.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from importlib.resources import files
from typing import TypeVar

import msgspec
from msgspec import Raw

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import Conflict
from portico.core.money import price_units
from portico.core.resources import RESOURCES
from portico.core.times import DAY
from portico.core.users import User
from portico.data.database import UniqueViolation
from portico.data.idempotency_keys import IdempotencyKeys
from portico.data.listing import Order
from portico.environment import Environment
from portico.features.catalogue.rules import Product, SandboxReset
from portico.features.catalogue.storage import EVERY, Products
from portico.features.people.storage import Users
from portico.resource.imports import Imports

T = TypeVar("T", bound=msgspec.Struct)


class SampleUser(msgspec.Struct):
    """A line of `samples/users.ndjson`."""

    name: str
    email: str
    role: str
    plan: str
    avatar_url: str | None
    theme: str
    language: str
    notifications: bool


class SampleProduct(msgspec.Struct):
    """A line of `samples/products.ndjson`, which `portico products import` accepts too."""

    name: str
    category: str
    price: Decimal
    description: str
    currency: str
    stock_quantity: int
    status: str
    images: Raw
    metadata: Raw


class Filled(msgspec.Struct):
    """What the sandbox contains after a reset: samples, and mirrors of live accounts."""

    users: int
    products: int
    mirrors: int


async def is_empty(env: Environment) -> bool:
    """Whether a reset would delete nothing: no product, record, or user but mirrors."""
    users = await env[Users].page(role=None, order=Order("id", descending=False), offset=0, limit=1)
    products = await env[Products].page(EVERY, words=[], offset=0, limit=1)
    records = [await one.listed(one.kind.query(limit=1), 0, None) for one in env.records]
    return users.total == await env[Users].count_mirrors() and not any(
        page.rows for page in (products, *records)
    )


async def reset(env: Environment, by: Author) -> Filled:
    """Replaces the sandbox's data by the samples, in one transaction.

    Mirror users of live accounts and what belongs to them, OAuth clients and the audit log stay. A
    sample user whose e-mail a mirror has is left out. Raises `Conflict` if a user with such an
    e-mail was created meanwhile, `Unavailable` if another writer holds a lock for too long, and
    `ValueError` for `live`.
    """
    if env.mirror is not None:
        raise ValueError("only the sandbox can be reset")

    async def work(change: Change) -> dict[str, int]:
        # Locked, so that everything created meanwhile, and its event, comes after the reset.
        # Products first: a change that inserts one checks the caller's account after that.
        await env[Products].lock_all(change.tx)
        await env[Users].lock_all(change.tx)
        for untold in await env[Imports].take_all(change.tx):
            if note := untold.note:
                change.note(note, Author(untold.actor))
        for records in env.records:
            await records.lock_all(change.tx)
            await records.delete_all(change.tx)
        filled = {
            kind.plural: await _FILLERS[kind.plural](env, change)
            for kind in RESOURCES
            if kind.samples
        }
        for records in env.records:
            await records.fill(change.tx, change.now)
        # A POST that is repeated after the reset must act on the new data.
        await env[IdempotencyKeys].forget(change.tx, change.now + DAY)
        change.note(SandboxReset(filled))
        return filled

    try:
        filled = await env.change(by, work)
    except UniqueViolation as error:
        raise Conflict(
            "A user with a sample's e-mail was created at the same time; nothing was changed."
        ) from error
    return Filled(**filled, mirrors=await env[Users].count_mirrors())


def read(shape: type[T], name: str) -> list[T]:
    """The samples of one kind."""
    file = files("portico.features.people") / "samples" / f"{name}.ndjson"
    return msgspec.json.Decoder(shape).decode_lines(file.read_bytes())


async def _fill_users(env: Environment, change: Change) -> int:
    await env[Users].delete_all_but_mirrors(change.tx)
    added = 0
    for sample, at in _aged(read(SampleUser, "users"), change.now):
        if await env[Users].by_email(sample.email, change.tx) is None:
            await env[Users].insert(change.tx, _user(sample, at))
            added += 1
    return added


async def _fill_products(env: Environment, change: Change) -> int:
    await env[Products].delete_all(change.tx)
    samples = _aged(read(SampleProduct, "products"), change.now)
    products = [_product(sample, at) for sample, at in samples]
    await env[Products].insert_many(change.tx, products)
    return len(products)


_FILLERS = {"users": _fill_users, "products": _fill_products}
"""Replaces a kind of resource by its samples. `core.resources` says which kinds have samples."""


def _aged(samples: Sequence[T], now: int) -> Iterator[tuple[T, int]]:
    """The samples with their creation times: a day apart, the last one yesterday."""
    return zip(samples, (now - age * DAY for age in range(len(samples), 0, -1)), strict=True)


def _user(sample: SampleUser, at: int) -> User:
    return User(
        id=0,
        account_id=None,
        password_hash=None,
        last_login_at=None,
        created_at=at,
        updated_at=at,
        **msgspec.structs.asdict(sample),
    )


def _product(sample: SampleProduct, at: int) -> Product:
    return Product(
        id=0,
        name=sample.name,
        description=sample.description,
        category=sample.category,
        price=price_units(sample.price),
        currency=sample.currency,
        stock_quantity=sample.stock_quantity,
        status=sample.status,
        images=bytes(sample.images).decode(),
        metadata=bytes(sample.metadata).decode(),
        created_at=at,
        updated_at=at,
    )
