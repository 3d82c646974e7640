"""The kinds of values in JSON bodies."""

from collections.abc import Callable, Sized
from decimal import Decimal
from itertools import islice
from typing import Any

import msgspec

from portico.core.errors import BrokenRule
from portico.core.text import text_fault
from portico.web import json_schema
from portico.web.json_schema import facts
from portico.web.reading import Faults, FieldKind, printable, read_object, required
from portico.web.reading import fields as fields_of

_BEYOND = Decimal(10**40)


def _ruled(rule: Callable[[Any], Any], value: Any, path: str, faults: Faults) -> Any:
    try:
        return rule(value)
    except BrokenRule as error:
        faults.breaks_rule(path, str(error))
        return None


class Text:
    """A JSON string that satisfies a rule of the domain."""

    def __init__(self, rule: Callable[[str], str], **schema: Any) -> None:
        """`schema` adds to the facts of the rule."""
        self._rule = rule
        self._schema = schema

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        """See `FieldKind.read`."""
        if not isinstance(value, str):
            faults.cannot_read(path, "must be a string")
        elif fault := text_fault(value):
            faults.cannot_read(path, fault)
        else:
            return _ruled(self._rule, value, path, faults)
        return None

    def schema(self) -> dict[str, Any]:
        """See `FieldKind.schema`."""
        return {"type": "string", **facts(self._rule), **self._schema}


def any_text(**schema: Any) -> Text:
    """Any JSON string that can be stored; `schema` as in `Text`."""
    return Text(str, pattern=json_schema.TEXT, **schema)


class Integer:
    """A JSON number without a fraction."""

    def __init__(self, rule: Callable[[int], int], **schema: Any) -> None:
        """`schema` as in `Text`."""
        self._rule = rule
        self._schema = schema

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        """See `FieldKind.read`."""
        # 5.0 is an integer in JSON Schema, and clients that compute in floats send it.
        if isinstance(value, Decimal) and value == value.to_integral_value():
            # No rule allows larger values, and converting a large exponent would take forever.
            value = int(max(-_BEYOND, min(value, _BEYOND)))
        if not isinstance(value, int) or isinstance(value, bool):
            faults.cannot_read(path, "must be an integer")
            return None
        return _ruled(self._rule, value, path, faults)

    def schema(self) -> dict[str, Any]:
        """See `FieldKind.schema`."""
        return {"type": "integer", **facts(self._rule), **self._schema}


class Number:
    """A JSON number, read exactly."""

    def __init__(self, rule: Callable[[Decimal | int], int], **schema: Any) -> None:
        """`schema` as in `Text`."""
        self._rule = rule
        self._schema = schema

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        """See `FieldKind.read`."""
        if not isinstance(value, int | Decimal) or isinstance(value, bool):
            faults.cannot_read(path, "must be a number")
            return None
        return _ruled(self._rule, value, path, faults)

    def schema(self) -> dict[str, Any]:
        """See `FieldKind.schema`."""
        return {"type": "number", **facts(self._rule), **self._schema}


class Boolean:
    """true or false."""

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        """See `FieldKind.read`."""
        if not isinstance(value, bool):
            faults.cannot_read(path, "must be true or false")
        return value

    def schema(self) -> dict[str, Any]:
        """See `FieldKind.schema`."""
        return {"type": "boolean"}


class Nullable:
    """null, or a value of another kind."""

    def __init__(self, kind: FieldKind) -> None:
        self._kind = kind

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        """See `FieldKind.read`."""
        return None if value is None else self._kind.read(value, path, faults)

    def schema(self) -> dict[str, Any]:
        """See `FieldKind.schema`."""
        schema = self._kind.schema()
        return {**schema, "type": [schema["type"], "null"]}


class FormOnly:
    """Checks that a value has the form of another kind and leaves it as it was sent. A use case
    checks its rules, so that it can report their faults together with its own: `Faults.defer`."""

    def __init__(self, kind: FieldKind) -> None:
        self._kind = kind

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        """See `FieldKind.read`."""
        form = Faults()
        self._kind.read(value, path, form)
        for fault in form.unreadable:
            faults.cannot_read(fault.field, fault.message)
        for fault in form.broken:
            faults.defer(fault.field, fault.message)
        return value

    def schema(self) -> dict[str, Any]:
        """See `FieldKind.schema`."""
        return self._kind.schema()


class Object:
    """An object with declared fields, read as a dict of those that were sent."""

    def __init__(self, shape: type[msgspec.Struct]) -> None:
        self._shape = shape

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        """See `FieldKind.read`."""
        return read_object(self._shape, value, path, faults)

    def schema(self) -> dict[str, Any]:
        """See `FieldKind.schema`."""
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
        """See `FieldKind.read`."""
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
        """See `FieldKind.schema`."""
        least = {"minItems": self._least} if self._least else {}
        return {"type": "array", "items": self._kind.schema(), "maxItems": self._most, **least}


class Texts:
    """An object with arbitrary names whose values are strings."""

    def __init__(self, name: Text, value: Text, most: int) -> None:
        self._name = name
        self._value = value
        self._most = most

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        """See `FieldKind.read`."""
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
        """See `FieldKind.schema`."""
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
