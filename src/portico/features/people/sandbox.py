"""Fills the sandbox with sample data.

The samples are the same after every reset, except for ids and times. Sample users have no password,
so nobody can sign in as one; an operator can create keys for them.
"""

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import msgspec

from portico.change import Change, IdempotencyKeys
from portico.core.audit import Author
from portico.core.errors import Conflict
from portico.core.resources import RESOURCES
from portico.core.times import DAY
from portico.core.users import User
from portico.data.database import UniqueViolation
from portico.data.listing import Order
from portico.environment import Environment
from portico.features.catalogue.rules import SandboxReset
from portico.features.catalogue.storage import Products
from portico.features.people.storage import Users
from portico.resource.imports import Imports


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


class Filled(msgspec.Struct):
    """What the sandbox contains after a reset: samples, and mirrors of live accounts."""

    users: int
    products: int
    mirrors: int


async def is_empty(env: Environment) -> bool:
    """Whether a reset would delete nothing: no product, record, or user but mirrors."""
    users = await env[Users].page(role=None, order=Order("id", descending=False), offset=0, limit=1)
    pages = [
        await one.listed(one.kind.query(limit=1, **dict.fromkeys(one.kind.chosen)), 0, None)
        for one in (env[Products], *env.records)
    ]
    return users.total == await env[Users].count_mirrors() and not any(page.rows for page in pages)


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
        tables = {many: store.kind.table_name for many, store in env.stores.items()}
        for records in _referred_to_first(env.records):
            await records.fill(change.tx, change.now, tables)
        # A POST that is repeated after the reset must act on the new data.
        await env[IdempotencyKeys].forget(change.tx, change.now + DAY)
        change.note(SandboxReset(filled))
        return filled

    try:
        filled = await env.change(by, work)
    except UniqueViolation as error:
        raise Conflict(
            "A value of a sample that must be unique is taken; nothing was changed."
        ) from error
    return Filled(**filled, mirrors=await env[Users].count_mirrors())


def _referred_to_first(kinds: Sequence[Any]) -> list[Any]:
    """The records of kinds, in an order in which samples can refer to those of others."""
    ordered: list[Any] = []
    left = [*kinds]
    while left:
        names = {one.kind.many for one in left}
        free = [
            one
            for one in left
            if not names & {field.to for field in one.kind.references} - {one.kind.many}
        ]
        ordered += free or left[:1]
        left = [one for one in left if one not in ordered]
    return ordered


async def _fill_users(env: Environment, change: Change) -> int:
    await env[Users].delete_all_but_mirrors(change.tx)
    added = 0
    file = files("portico.features.people") / "samples" / "users.ndjson"
    samples = msgspec.json.Decoder(SampleUser).decode_lines(file.read_bytes())
    for age, sample in zip(range(len(samples), 0, -1), samples, strict=True):
        if await env[Users].by_email(sample.email, change.tx) is None:
            await env[Users].insert(change.tx, _user(sample, change.now - age * DAY))
            added += 1
    return added


async def _fill_products(env: Environment, change: Change) -> int:
    await env[Products].delete_all(change.tx)
    return await env[Products].fill(change.tx, change.now)


_FILLERS = {"users": _fill_users, "products": _fill_products}
"""Replaces a kind of resource by its samples. `core.resources` says which kinds have samples."""


def _user(sample: SampleUser, at: int) -> User:
    return User(
        id=0,
        created_at=at,
        updated_at=at,
        **msgspec.structs.asdict(sample),
    )
