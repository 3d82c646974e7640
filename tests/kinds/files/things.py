"""A kind with every sort of field, and one that refers to it in each way."""

import datetime as dt
from asyncio import CancelledError
from decimal import Decimal

from portico.kinds import (
    Conflict,
    Forbidden,
    Kind,
    Record,
    Refused,
    boolean,
    choice,
    currency,
    date,
    decimal,
    email,
    integer,
    items,
    moment,
    money,
    reference,
    states,
    text,
    texts,
    url,
)


class Line(Record):
    """A line of a thing."""

    sku: str = text(1, 20)
    price: Decimal = money()
    count: int = integer(1, 99, default=1)
    day: dt.date | None = date(optional=True)


class Thing(Record):
    """Has every sort of field."""

    name: str = text(1, 40, search=True)
    order: str = text(0, 40, default="", trim=False)
    group: int = integer(-5, 5, default=0)
    rank: int | None = integer(0, 10**9, optional=True)
    price: Decimal | None = money(optional=True)
    weight: Decimal = decimal(3, -10, Decimal("99.5"), default=Decimal("1.25"))
    active: bool = boolean(default=True)
    colour: str | None = choice(["red", 'deep "blue"', "<b>"], optional=True)
    stage: str = states({"new": ["used"], "used": []}, start="new")
    day: dt.date | None = date(optional=True)
    at: dt.datetime | None = moment(optional=True)
    contact: str | None = email(optional=True)
    site: str | None = url(optional=True)
    currency: str = currency()
    code: str | None = text(1, 10, optional=True, unique=True)
    origin: str = text(1, 10, default="here", fixed=True)
    parent_id: int | None = reference("things", optional=True, on_delete="clear")
    owner_id: int | None = reference("things", optional=True)
    within_id: int | None = reference("things", optional=True, on_delete="delete")
    product_id: int | None = reference("products", optional=True, on_delete="clear")
    labels: dict[str, str] = texts(5, default={}, whole=False)
    lines: list[Line] = items(Line, 3, default=[], whole=False)
    essay: str = text(0, 5000, default="", search=True, whole=False)


things = Kind(
    Thing,
    one="thing",
    many="things",
    readers=["viewer", "editor"],
    writers=["editor"],
    filters=["group", "active", "colour", "stage", "price", "weight", "day", "at", "contact",
             "site", "currency", "parent_id", "rank"],
    sorts=["created_at", "name", "rank", "price", "day", "code"],
    samples="things.ndjson",
)  # fmt: skip

seen: list[tuple[object, object]] = []


@things.before_change
async def obey(change, before, after):
    word = (after or before).order
    if word == "refuse":
        raise Refused(name="is refused")
    if word == "conflict":
        raise Conflict("It is so.")
    if word == "forbidden":
        raise Forbidden("Not you.")
    if word == "fail":
        raise ZeroDivisionError("secret")
    if word == "cancelled":
        raise CancelledError
    if word == "sleep":
        import asyncio

        await asyncio.sleep(60)
    if word == "broken":
        return after.replace(group=99)
    if word == "upper":
        return after.replace(name=after.name.upper(), weight=after.weight + 1)
    if word == "take" and before is None:
        product = await change.read("products", after.product_id)
        await change.update("products", after.product_id, stock_quantity=product.stock_quantity - 1)
        await change.create("things", name=f"for {change.caller.email}")
    return None


@things.after_commit
async def note(portico, before, after):
    seen.append((before, after))
    if after is not None and after.order == "follow":
        await portico.update("things", after.id, order="followed")
