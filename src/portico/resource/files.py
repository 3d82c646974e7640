"""Records of a kind in files: their columns, and how they are written."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import msgspec
from msgspec import Raw

from portico.core.words import Format
from portico.resource.compiled import Compiled
from portico.resource.fields import DecimalField, Field, ItemsField, MoneyField, TextField
from portico.resource.file_rows import Columns
from portico.web.csv_cells import csv_text


@cache
def columns_of(kind: Compiled) -> Columns:
    """The columns of a kind's files."""
    fields = kind.filed
    return Columns(
        kind.create,
        kind.change,
        [field.name for field in fields],
        one=kind.words,
        many=kind.many.replace("-", " "),
        reference=kind.an,
        numbers=[field.name for field in fields if field.json in ("integer", "number")],
        json=[field.name for field in fields if field.json in ("object", "array")],
        empty={
            field.name: _emptied(field)
            for field in fields
            if field.optional or field.json in ("object", "array")
        },
        booleans=[field.name for field in fields if field.json == "boolean"],
        prices=[field.name for field in fields if isinstance(field, MoneyField)],
        blank=[
            field.name
            for field in fields
            if field.optional and isinstance(field, TextField) and field.low == 0
        ],
    )


def file_text(kind: Compiled, form: Format, batch: Sequence[Any]) -> bytes:
    """Records as rows of a file: their ids and the fields that clients can set."""
    lines = map(kind.line, batch)
    if form == "ndjson":
        return msgspec.json.Encoder().encode_lines(lines)
    others = [(n, cell) for n, field in enumerate(kind.filed, 1) if (cell := _cell_of(field))]

    def cells(line: Any) -> list[object]:
        values = [*msgspec.structs.astuple(line)]
        for n, cell in others:
            if (value := values[n]) is not None:
                values[n] = cell(value)
        return values

    return csv_text(map(cells, lines))


def _cell_of(field: Field) -> Callable[[Any], object] | None:
    """What makes a cell of a field's JSON value; None where it is that value."""
    if field.json == "boolean":
        return {True: "true", False: "false"}.get
    if isinstance(field, DecimalField):
        return _Number if field.low < 0 else _text_of
    if field.json not in ("object", "array"):
        return None
    return _text_of if field.optional else _text_unless_empty


def _text_of(value: Raw) -> str:
    return bytes(value).decode()


def _text_unless_empty(value: Raw) -> str:
    text = bytes(value).decode()
    return "" if text in ("[]", "{}") else text


class _Number:
    """A number that is written as it stands: no text that a formula could begin."""

    def __init__(self, shown: Raw) -> None:
        self._shown = shown

    def __str__(self) -> str:
        return _text_of(self._shown)


def _emptied(field: Field) -> Any:
    """The value of an empty cell in a row that changes a record."""
    if field.optional:
        return None
    return [] if isinstance(field, ItemsField) else {}
