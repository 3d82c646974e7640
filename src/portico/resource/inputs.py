"""Values of fields as people read and write them: in forms, lists and on the page of a record."""

import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from portico.core.errors import BrokenRule
from portico.core.money import price_shown, price_text, price_units, price_written
from portico.resource.compiled import Compiled
from portico.resource.fields import (
    DecimalField,
    Field,
    ItemsField,
    MomentField,
    MoneyField,
    ReferenceField,
    TextField,
    TextsField,
    described,
)
from portico.web.envelope import timestamp
from portico.web.pages.forms import Form
from portico.web.reading import Faults

_WHOLE = re.compile("-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?")
LONG = 200
"""Texts that may be longer than this have several lines."""

PREFIX = "f-"
"""Before the name of a field's input: a field may be called like another part of a form."""


def reading(field: Field, code: str = "") -> Callable[[str], Any]:
    """Reads what was written for a field into its stored form; raises `BrokenRule`. Prices are in
    the currency with this code."""
    reader = described(field)

    def read(text: str) -> Any:
        faults = Faults()
        value = reader.read(_sent(field, text, code), field.name, faults)
        for fault in (*faults.unreadable, *faults.broken):
            raise BrokenRule(fault.message)
        return value

    return read


def as_price(text: str, code: str = "") -> Decimal:
    """Reads a price as people write it (`price_written`). Raises `BrokenRule`."""
    return Decimal(price_text(price_written(text, code)))


def _sent(field: Field, text: str, code: str) -> Any:
    if isinstance(field, TextField):
        return text
    text = text.strip()
    if isinstance(field, MoneyField):
        return as_price(text, code)
    if isinstance(field, DecimalField):
        if not _NUMBER.fullmatch(text):
            raise BrokenRule("must be a number, such as 24.50")
        return Decimal(text)
    if field.json == "integer":
        if not _WHOLE.fullmatch(text):
            raise BrokenRule("must be a whole number, such as 12")
        return int(text)
    if field.json == "boolean":
        return {"true": True, "false": False}.get(text, text)
    return text


def read_input(form: Form, field: Field, name: str, code: str = "") -> Any:
    """The stored form of a field's input. A fault is kept by the form. `code` as in `reading`."""
    if not form.text(name):
        if field.optional:
            return None
        if isinstance(field, TextField) and field.low == 0:
            return ""
    return form.read(name, reading(field, code))


class Group(NamedTuple):
    """The inputs of a field with several rows: names with texts, or a list of objects."""

    field: Field
    columns: Sequence[tuple[str, Field]]
    most: int

    def inputs(self, number: int) -> list[str]:
        """The names of the inputs of a row."""
        return [f"{PREFIX}{self.field.name}-{number}-{name}" for name, _ in self.columns]

    def sent(self, form: Form) -> int:
        """How many rows a form sent."""
        number = 0
        while number < self.most and any(map(form.has, self.inputs(number + 1))):
            number += 1
        return number

    def read(self, form: Form) -> Any:
        """The stored form of all rows that are not empty."""
        rows = [self.inputs(number + 1) for number in range(self.sent(form))]
        found: list[Any] = []
        names: set[str] = set()
        for inputs in rows:
            if not any(map(form.text, inputs)):
                continue
            values = [
                read_input(form, field, name)
                for name, (_, field) in zip(inputs, self.columns, strict=True)
            ]
            if isinstance(self.field, TextsField):
                form.read(inputs[0], _once(names))
            found.append(values)
        return None if form.faults else self._stored(found)

    def _stored(self, rows: list[list[Any]]) -> Any:
        if isinstance(self.field, TextsField):
            return self.field.stored(dict(rows))
        return self.field.stored(
            [
                {name: value for (name, _), value in zip(self.columns, row, strict=True)}
                for row in rows
            ]
        )

    def texts(self, stored: str) -> list[list[str]]:
        """The rows of a stored value, as they are written."""
        value = json.loads(stored, parse_float=Decimal)
        if isinstance(self.field, TextsField):
            return [[name, text] for name, text in value.items()]
        return [[_written(field, item[name]) for name, field in self.columns] for item in value]


def _once(names: set[str]) -> Callable[[str], str]:
    def rule(text: str) -> str:
        name = text.strip()
        if name in names:
            raise BrokenRule("is used twice: each name has one value")
        names.add(name)
        return name

    return rule


_NAME, _TEXT = TextField(1, 100, trim=False), TextField(0, 1_000, trim=False)


def group_of(field: Field) -> Group | None:
    """The inputs of a field with several rows; None for any other."""
    if isinstance(field, TextsField):
        return Group(field, (("name", _NAME), ("value", _TEXT)), field.most)
    if isinstance(field, ItemsField):
        return Group(field, [(inner.name, inner) for inner in field.inner], field.most)
    return None


def _written(field: Field, value: Any) -> str:
    """A value of JSON as it is written."""
    if value is None:
        return ""
    if isinstance(field, MoneyField):
        return price_shown(price_units(value), "", grouped=False)
    return str(value).lower() if isinstance(value, bool) else str(value)


def written(field: Field, stored: Any, currency: str = "") -> str:
    """A stored value as it is written into its input, or compared with another."""
    if stored is None:
        return ""
    if group := group_of(field):
        separator = ": " if isinstance(field, TextsField) else ", "
        return "\n".join(separator.join(filter(None, row)) for row in group.texts(stored))
    if isinstance(field, MoneyField):
        return price_shown(stored, currency, grouped=False)
    if isinstance(field, DecimalField):
        return field.text(stored)
    if isinstance(field, MomentField):
        return timestamp(stored)
    return str(field.show(stored)).lower() if field.json == "boolean" else str(stored)


NUMBERS = ("integer", "decimal", "money")


class Cell(NamedTuple):
    """A value to show: `text` for most sorts, `value` where a template formats it."""

    title: str
    sort: str
    text: str
    value: Any
    link: str = ""
    """The path of the record that it refers to, if the user may see it."""

    @property
    def is_number(self) -> bool:
        """Whether it stands at the right of its column."""
        return self.sort in NUMBERS

    @property
    def is_long(self) -> bool:
        """Whether it has a section of its own."""
        return self.sort in ("long", "texts", "items")


def cell(kind: Compiled, field: Field, row: Any, scopes: frozenset[str]) -> Cell:
    """The value of a field, for somebody with these scopes."""
    stored = kind.stored(row, field)
    sort, value = field.sort, stored
    text = written(field, stored, currency_of(kind, row))
    link = ""
    if stored is None:
        return Cell(field.title, sort, "", None)
    if isinstance(field, MoneyField):
        code = currency_of(kind, row)
        text = f"{price_shown(stored, code)} {code}".rstrip()
    elif isinstance(field, DecimalField):
        text = f"{Decimal(text):,}"
    elif sort == "integer":
        text = f"{stored:,}"
    elif sort == "boolean":
        text = "Yes" if stored else "No"
    elif isinstance(field, ReferenceField) and f"read:{field.to}" in scopes and field.to != "users":
        link = f"/{field.to}/{stored}"
    elif isinstance(field, TextField) and field.high > LONG:
        sort = "long"
    elif group := group_of(field):
        value = group.texts(stored)
    return Cell(field.title, sort, text, value, link)


def currency_of(kind: Compiled, row: Any) -> str:
    """The currency of a record's prices, if it has one."""
    field = currency_field_of(kind)
    return kind.stored(row, field) or "" if field else ""


def currency_field_of(kind: Compiled) -> Field | None:
    """The field with the currency of all prices, if it is one."""
    codes = [field for field in kind.fields if field.sort == "currency"]
    return codes[0] if len(codes) == 1 else None
