"""The kinds of values in JSON bodies."""

from collections.abc import Callable, Sized
from decimal import Decimal
from itertools import islice
from typing import Any, ClassVar

import msgspec

from portico.core.errors import BrokenRule
from portico.core.text import text_fault
from portico.web import json_schema
from portico.web.json_schema import facts
from portico.web.reading import Faults, FieldKind, printable, read_object, required
from portico.web.reading import fields as fields_of

_BEYOND = Decimal(10**40)


class _Ruled:
    """A JSON value of one type that satisfies a rule of the domain."""

    _type: ClassVar[str]

    def __init__(self, rule: Callable[[Any], Any], **schema: Any) -> None:
        """`schema` adds to the facts of the rule."""
        self._rule = rule
        self._schema = schema

    def schema(self) -> dict[str, Any]:
        return {"type": self._type, **facts(self._rule), **self._schema}

    def _ruled(self, value: Any, path: str, faults: Faults) -> Any:
        try:
            return self._rule(value)
        except BrokenRule as error:
            faults.breaks_rule(path, str(error))
            return None


class Text(_Ruled):
    """A JSON string."""

    _type = "string"

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        if not isinstance(value, str):
            faults.cannot_read(path, "must be a string")
        elif fault := text_fault(value):
            faults.cannot_read(path, fault)
        else:
            return self._ruled(value, path, faults)
        return None


def any_text(**schema: Any) -> Text:
    """Any JSON string that can be stored; `schema` as in `Text`."""
    return Text(str, pattern=json_schema.TEXT, **schema)


class Integer(_Ruled):
    """A JSON number without a fraction."""

    _type = "integer"

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        # 5.0 is an integer in JSON Schema, and clients that compute in floats send it.
        if isinstance(value, Decimal) and value == value.to_integral_value():
            # No rule allows larger values, and converting a large exponent would take forever.
            value = int(max(-_BEYOND, min(value, _BEYOND)))
        if not isinstance(value, int) or isinstance(value, bool):
            faults.cannot_read(path, "must be an integer")
            return None
        return self._ruled(value, path, faults)


class Number(_Ruled):
    """A JSON number, read exactly."""

    _type = "number"

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        if not isinstance(value, int | Decimal) or isinstance(value, bool):
            faults.cannot_read(path, "must be a number")
            return None
        return self._ruled(value, path, faults)


class Boolean:
    """true or false."""

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        if not isinstance(value, bool):
            faults.cannot_read(path, "must be true or false")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


class Nullable:
    """null, or a value of another kind."""

    def __init__(self, kind: FieldKind) -> None:
        self._kind = kind

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        return None if value is None else self._kind.read(value, path, faults)

    def schema(self) -> dict[str, Any]:
        schema = self._kind.schema()
        return {**schema, "type": [schema["type"], "null"]}


class FormOnly:
    """Checks that a value has the form of another kind and leaves it as it was sent. A use case
    checks its rules, so that it can report their faults together with its own: `Faults.defer`."""

    def __init__(self, kind: FieldKind) -> None:
        self._kind = kind

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        form = Faults()
        self._kind.read(value, path, form)
        for fault in form.unreadable:
            faults.cannot_read(fault.field, fault.message)
        for fault in form.broken:
            faults.defer(fault.field, fault.message)
        return value

    def schema(self) -> dict[str, Any]:
        return self._kind.schema()


class Object:
    """An object with declared fields, read as a dict of those that were sent."""

    def __init__(self, shape: type[msgspec.Struct]) -> None:
        self._shape = shape

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        return read_object(self._shape, value, path, faults)

    def schema(self) -> dict[str, Any]:
        return object_schema(self._shape)


_EXTRA_ENTRIES = 100
"""How many entries beyond the allowed number are still checked for other faults."""


class Items:
    """An array of one kind of value."""

    def __init__(self, kind: FieldKind, most: int | Sized, least: int = 0) -> None:
        """`most` is a number, or a container: as many as there are in it."""
        self._kind = kind
        self._limit = most
        self._least = least

    @property
    def _most(self) -> int:
        return self._limit if isinstance(self._limit, int) else len(self._limit)

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        if not isinstance(value, list):
            faults.cannot_read(path, "must be an array")
            return None
        if len(value) > self._most:
            faults.breaks_rule(path, f"must have at most {self._most} entries")
        if len(value) < self._least:
            faults.breaks_rule(path, f"must have at least {self._least}")
        return [
            self._kind.read(item, f"{path}.{index}", faults)
            for index, item in enumerate(value[: self._most + _EXTRA_ENTRIES])
        ]

    def schema(self) -> dict[str, Any]:
        least = {"minItems": self._least} if self._least else {}
        return {"type": "array", "items": self._kind.schema(), "maxItems": self._most, **least}


class Texts:
    """An object with arbitrary names whose values are strings."""

    def __init__(self, name: Text, value: Text, most: int) -> None:
        self._name = name
        self._value = value
        self._most = most

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        if not isinstance(value, dict):
            faults.cannot_read(path, "must be an object")
            return None
        if len(value) > self._most:
            faults.breaks_rule(path, f"must have at most {self._most} names")
        return {
            self._name.read(name, path, faults): self._value.read(
                text, f"{path}.{printable(name)}", faults
            )
            for name, text in islice(value.items(), self._most + _EXTRA_ENTRIES)
        }

    def schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "propertyNames": self._name.schema(),
            "additionalProperties": self._value.schema(),
            "maxProperties": self._most,
        }


def object_schema(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a shape that is read. Default values are given in the description: some
    code generators treat fields with `default` as required."""
    properties = {name: kind.schema() for name, kind in fields_of(shape).items()}
    for item in msgspec.structs.fields(shape):
        if item.default not in (msgspec.NODEFAULT, msgspec.UNSET, None, ""):
            description = properties[item.name].get("description", "")
            by_default = f"Default: `{item.default}`."
            properties[item.name]["description"] = f"{description} {by_default}".strip()
    schema: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if needed := sorted(required(shape)):
        schema["required"] = needed
    return schema
