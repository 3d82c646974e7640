"""Kinds of resources of one's own, by one file each.

A file in the directory `kinds` declares a record and its kind; what follows (routes, scopes,
events, pages, commands) is made when the server starts. `docs/kinds.md` shows it step by step.

    class Order(Record):
        number: str = text(1, 40, unique=True, search=True)
        status: str = states({"open": ["paid"], "paid": []}, start="open")


    orders = Kind(Order, one="order", many="orders", readers=["viewer"], writers=["editor"])

Every maker takes these options: `default` (without it, and without `optional`, the field must be
sent at creation), `optional` (may be null, and is where nothing is sent), `unique`, `search` (text
only), `fixed` (cannot be changed), `whole=False` (left out of lists), `example`, `about` and `was`
(the field's former name).
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, TypedDict, Unpack

from portico.resource.declared import Conflict, Forbidden, Kind, Record, Refused, caller
from portico.resource.fields import (
    BooleanField,
    ChoiceField,
    DateField,
    DecimalField,
    IntegerField,
    ItemsField,
    MomentField,
    MoneyField,
    ReferenceField,
    StatesField,
    TextField,
    TextsField,
    currency_field,
    email_field,
    url_field,
)

__all__ = [
    "Conflict",
    "Forbidden",
    "Kind",
    "Record",
    "Refused",
    "boolean",
    "choice",
    "currency",
    "date",
    "decimal",
    "email",
    "integer",
    "items",
    "moment",
    "money",
    "reference",
    "states",
    "text",
    "texts",
    "url",
]


class Options(TypedDict, total=False):
    """What every maker takes; see the module."""

    default: Any
    optional: bool
    unique: bool
    search: bool
    fixed: bool
    whole: bool
    example: Any
    about: str
    was: str


# Each maker returns `Any`: it stands where the field's value has its declared type.


def text(low: int, high: int, *, trim: bool = True, **options: Unpack[Options]) -> Any:
    """Text (`str`) of `low` to `high` characters, measured without the white space around it;
    with `trim=False` that stays."""
    return TextField(low, high, trim=trim, place=caller(), **options)


def integer(low: int, high: int, **options: Unpack[Options]) -> Any:
    """A whole number (`int`) from `low` to `high`."""
    return IntegerField(low, high, place=caller(), **options)


def money(**options: Unpack[Options]) -> Any:
    """A price (`Decimal`): exact, at most 4 decimals, from 0 to below 10^12."""
    return MoneyField(place=caller(), **options)


def decimal(
    places: int, low: int | Decimal, high: int | Decimal, **options: Unpack[Options]
) -> Any:
    """An exact number (`Decimal`) from `low` to `high` with at most so many decimal places."""
    return DecimalField(places, low, high, place=caller(), **options)


def boolean(**options: Unpack[Options]) -> Any:
    """True or false (`bool`)."""
    return BooleanField(place=caller(), **options)


def choice(words: Sequence[str], **options: Unpack[Options]) -> Any:
    """One of these texts (`str`)."""
    return ChoiceField(words, place=caller(), **options)


def states(
    following: Mapping[str, Sequence[str]], *, start: str, **options: Unpack[Options]
) -> Any:
    """One of these states (`str`), each with those that may follow it. A record begins in `start`
    unless another is sent."""
    given: Any = options
    return StatesField(following, start, place=caller(), **given)


def date(**options: Unpack[Options]) -> Any:
    """A date (`datetime.date`), in JSON such as 2026-11-28."""
    return DateField(place=caller(), **options)


def moment(**options: Unpack[Options]) -> Any:
    """A time (`datetime.datetime`, in UTC), in JSON by RFC 3339, to the millisecond."""
    return MomentField(place=caller(), **options)


def email(**options: Unpack[Options]) -> Any:
    """An e-mail address (`str`)."""
    return email_field(place=caller(), **options)


def url(**options: Unpack[Options]) -> Any:
    """An http or https URL (`str`)."""
    return url_field(place=caller(), **options)


def currency(**options: Unpack[Options]) -> Any:
    """An ISO 4217 code (`str`), by default USD."""
    given: Any = {"default": "USD", **options}
    return currency_field(place=caller(), **given)


def reference(to: str, *, on_delete: str | None = None, **options: Unpack[Options]) -> Any:
    """The id (`int`) of a record of the kind `to`, such as "products". What is referred to cannot
    be deleted, unless `on_delete` says that this field is then cleared ("clear", which needs
    `optional`) or that this record is deleted too ("delete")."""
    return ReferenceField(to, on_delete, place=caller(), **options)


def texts(most: int, **options: Unpack[Options]) -> Any:
    """At most so many names with texts (`dict[str, str]`)."""
    return TextsField(most, place=caller(), **options)


def items(shape: type[Record], most: int, **options: Unpack[Options]) -> Any:
    """A list of at most so many objects (`list[Shape]`); `shape` is a `Record` of plain fields."""
    return ItemsField(shape, most, place=caller(), **options)
