"""Filling the sandbox with sample data.

The samples are the same at every reset but for ids and times. Sample users have no password, so
nobody can sign in as one; an operator can make them keys.
"""

from decimal import Decimal
from importlib.resources import files
from typing import TypeVar

import msgspec
from msgspec import Raw

from portico.domain.audit import By
from portico.domain.errors import Conflict
from portico.domain.events import SandboxReset
from portico.domain.money import price_units
from portico.domain.products import Product
from portico.domain.times import DAY
from portico.domain.users import User
from portico.services.change import Change
from portico.services.environment import Environment
from portico.storage.database import Transaction, UniqueViolation

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
    """A line of `samples/products.ndjson`, which `portico products import` would take too."""

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
    """What a reset sandbox holds: samples, and mirrors of live accounts, which stayed."""

    users: int
    products: int
    mirrors: int


async def reset(env: Environment, by: By) -> Filled:
    """Replaces all that the sandbox holds by the samples, in one transaction.

    Mirror users of live accounts with all that is theirs, OAuth clients and the audit log stay; a
    sample user whose e-mail a mirror has is left out. Raises `Conflict` where a user with such an
    e-mail came in meanwhile, and ValueError for an environment that has a mirror itself: live.
    """
    if env.mirror is not None:
        raise ValueError("only the sandbox is ever reset")
    now = env.clock()
    samples = read(SampleProduct, "products")
    ages = range(len(samples), 0, -1)
    products = [
        _product(sample, now - age * DAY) for sample, age in zip(samples, ages, strict=True)
    ]

    async def work(change: Change) -> int:
        await env.users.delete_all_but_mirrors(change.tx)
        users = await _add_users(env, change.tx, now)
        await env.products.delete_all(change.tx)
        await env.products.insert_many(change.tx, products)
        # Whoever repeats a POST after a reset means what is there now.
        await env.idempotency_keys.forget(change.tx, now + DAY)
        change.note(SandboxReset(users, len(products)))
        return users

    try:
        users = await env.change(by, work)
    except UniqueViolation as error:
        raise Conflict(
            "A user with a sample's e-mail came in at the same moment; nothing was changed."
        ) from error
    return Filled(users, len(products), len(await env.users.mirrors()))


def read(shape: type[T], name: str) -> list[T]:
    """The samples of one kind."""
    file = files("portico.services") / "samples" / f"{name}.ndjson"
    return msgspec.json.Decoder(shape).decode_lines(file.read_bytes())


async def _add_users(env: Environment, tx: Transaction, now: int) -> int:
    added = 0
    samples = read(SampleUser, "users")
    for sample, age in zip(samples, range(len(samples), 0, -1), strict=True):
        if await env.users.by_email(sample.email, tx) is None:
            await env.users.insert(tx, _user(sample, now - age * DAY))
            added += 1
    return added


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
