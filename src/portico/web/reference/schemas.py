"""The schemas of an OpenAPI document (JSON Schema 2020-12; in 3.0 an older dialect of it), as
fields with their rules, and as examples."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

Json = Mapping[str, Any]

_FEW = 8
"""The most values of an enumeration to list where a description can tell of them."""
_DEEPEST = 6
"""How many levels of fields are shown: schemas may contain themselves."""

_Above = tuple[frozenset[str], ...]
"""The references that lead to a schema, level by level."""

_EXAMPLES = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T08:15:30Z",
    "email": "ada@example.com",
    "uri": "https://example.com/",
    "uuid": "5f0c1e9a-7b2d-4c1e-9a7b-2d5f0c1e9a7b",
}
"""Examples of strings by their format."""

_EXCLUDING = re.compile(r"\^\[\^[^\]]*\]\*\$")
"""Patterns that only exclude characters, such as NUL: they would tell readers nothing."""

_BOUNDS = (
    ("minLength", "at least {} characters"),
    ("maxLength", "at most {} characters"),
    ("minItems", "at least {}"),
    ("maxItems", "at most {}"),
    ("maxProperties", "at most {} names"),
    ("multipleOf", "a multiple of {}"),
)


class FieldView(msgspec.Struct, frozen=True):
    """A parameter, or a field of a body."""

    name: str
    kind: str
    required: bool = False
    rules: tuple[str, ...] = ()
    description: str = ""
    choices: tuple[str, ...] = ()
    """The allowed values, if they are few."""
    example: str = ""
    """A value that a parameter may have."""


class Schemas:
    """The schemas of one document."""

    def __init__(self, document: Json) -> None:
        self._document = document

    def resolved(self, value: Any) -> Json:
        """The target of a `$ref`, or the value itself. Empty if it is in another document."""
        seen: set[str] = set()
        while isinstance(value, Mapping) and "$ref" in value:
            reference = str(value["$ref"])
            beside = {name: keyword for name, keyword in value.items() if name in _BESIDE}
            target = {} if reference in seen else self._target(reference)
            value = {**target, **beside} if isinstance(target, Mapping) else {}
            seen.add(reference)
        return value if isinstance(value, Mapping) else {}

    def _target(self, reference: str) -> Any:
        found: Any = self._document if reference.startswith("#/") else {}
        for part in reference[2:].split("/"):
            name = unquote(part).replace("~1", "/").replace("~0", "~")
            found = found.get(name, {}) if isinstance(found, Mapping) else {}
        return found

    def field(self, name: str, schema: Any, facts: Json, example: str = "") -> FieldView:
        """A field with this schema; `facts` say what its place adds: `required`, `description`,
        `deprecated`."""
        whole = self._whole(schema)
        description = facts.get("description") or whole.get("description", "")
        deprecated = ["deprecated"] if facts.get("deprecated") or whole.get("deprecated") else []
        return FieldView(
            name=name,
            kind=self._kind(schema),
            required=facts.get("required", False),
            rules=(*_rules(whole, described=bool(description)), *deprecated),
            description=description,
            choices=tuple(_choices(whole, described=bool(description))),
            example=example,
        )

    def fields(self, schema: Any) -> list[FieldView]:
        """The fields of a body that a client sends or gets; those within others have dotted
        names."""
        found = {one.name: one for one in self._inner(schema, "", ())}
        return [*found.values()] or [self.field("body", schema, {"required": True})]

    def _inner(self, schema: Any, prefix: str, above: _Above) -> Iterator[FieldView]:
        whole, inside = self._whole(schema), _below(schema, above)
        if inside is None:
            return
        required = whole.get("required", ())
        for name, inner in whole.get("properties", {}).items():
            if not self.resolved(inner).get("readOnly"):
                yield self.field(f"{prefix}{name}", inner, {"required": name in required})
                yield from self._inner(inner, f"{prefix}{name}.", inside)
        if "items" in whole:
            yield from self._inner(whole["items"], f"{prefix.rstrip('.')}[].", inside)

    def example(self, holder: Json, schema: Any = None, *, hidden: str = "readOnly") -> Any:
        """An example of what a parameter or media type object describes, its own if it has one.
        One that is made leaves out what is `hidden`: `readOnly` or `writeOnly`."""
        if "example" in holder:
            return holder["example"]
        for one in holder.get("examples", {}).values():
            return self.resolved(one).get("value")
        return self._made(holder.get("schema", schema), (), hidden)

    def _made(self, schema: Any, above: _Above, hidden: str) -> Any:
        whole = self._whole(schema)
        for name in ("example", "const", "default"):
            if name in whole:
                return whole[name]
        for name in ("examples", "enum"):
            if whole.get(name):
                return whole[name][0]
        inside = _below(schema, above)
        if inside is None:
            return None
        match self._kinds(whole):
            case ["object", *_]:
                return {
                    name: self._made(inner, inside, hidden)
                    for name, inner in whole.get("properties", {}).items()
                    if not self.resolved(inner).get(hidden)
                }
            case ["array", *_]:
                return [self._made(whole.get("items", {}), inside, hidden)]
            case ["integer" | "number", *_]:
                low = whole.get("minimum", 1)
                return max(low, 1)
            case ["boolean", *_]:
                return True
            case ["string", *_]:
                return _EXAMPLES.get(whole.get("format", ""), "text")
        return None

    def _whole(self, schema: Any, depth: int = _DEEPEST) -> dict[str, Any]:
        """A schema with all that it is made of by `allOf`, and by `oneOf` or `anyOf`: of several
        alternatives it has the properties, none of which is required."""
        own = dict(self.resolved(schema))
        if not depth:
            return own
        for part in own.pop("allOf", ()):
            own = _joined(own, self._whole(part, depth - 1))
        ways = [
            way
            for way in (self._whole(way, depth - 1) for way in _alternatives(own))
            if way.get("type") != "null"
        ]
        for way in ways:
            shared = way if len(ways) == 1 else {"properties": way.get("properties", {})}
            own = _joined(own, {name: keyword for name, keyword in shared.items() if keyword})
        return own

    def _kinds(self, whole: Json) -> list[str]:
        kinds = whole.get("type")
        if isinstance(kinds, str):
            kinds = [kinds]
        if not kinds:
            inner = (kind for way in _alternatives(whole) for kind in self._kinds(self._whole(way)))
            by_keyword = (("properties", "object"), ("items", "array"))
            kinds = list(dict.fromkeys(inner))
            kinds = kinds or [kind for name, kind in by_keyword if name in whole]
        return [*kinds, *(["null"] if whole.get("nullable") and "null" not in kinds else [])]

    def _kind(self, schema: Any, depth: int = _DEEPEST) -> str:
        """What a value is, in words: `array of strings or null`."""
        whole = self._whole(schema)
        kinds = []
        for kind in self._kinds(whole):
            inner = whole.get("items" if kind == "array" else "additionalProperties")
            if kind == "array" and inner and depth:
                kinds.append(f"array of {_plural(self._kind(inner, depth - 1))}")
            elif kind == "object" and inner and "properties" not in whole and inner is not True:
                kinds.append(f"object of {_plural(self._kind(inner, depth - 1))}")
            elif kind == "string" and "format" in whole:
                kinds.append(f"string ({whole['format']})")
            else:
                kinds.append(kind)
        return " or ".join(kinds) or "any value"


_BESIDE = ("summary", "description", "deprecated")
"""What may stand beside a `$ref` and says more of this place."""


def _below(schema: Any, above: _Above) -> _Above | None:
    """What is above the fields of a schema; None if they are not to be shown once more."""
    parts = [schema, *schema.get("allOf", ()), *_alternatives(schema)] if schema else []
    references = frozenset(part["$ref"] for part in parts if "$ref" in part)
    if len(above) == _DEEPEST or any(references & one for one in above):
        return None
    return (*above, references)


def _alternatives(schema: Json) -> list[Any]:
    return [*schema.get("oneOf", ()), *schema.get("anyOf", ())]


def _joined(one: dict[str, Any], other: Json) -> dict[str, Any]:
    joined = {**other, **one}
    if "properties" in one and "properties" in other:
        joined["properties"] = {**one["properties"], **other["properties"]}
    if "required" in one and "required" in other:
        joined["required"] = [*one["required"], *other["required"]]
    return joined


def _plural(kind: str) -> str:
    if not kind.isalpha():
        return kind if kind.startswith(("array", "object of", "any")) else f"({kind})"
    return f"{kind}s"


def _choices(schema: Json, *, described: bool) -> list[str]:
    if schema.get("type") == "boolean":
        return ["true", "false"]
    values = [value for value in schema.get("enum", ()) if value is not None]
    return [str(value) for value in values] if len(values) <= _FEW or not described else []


def _rules(schema: Json, *, described: bool) -> Iterator[str]:
    """The rules for a value that its schema states, in words."""
    if "enum" in schema and (choices := _choices(schema, described=described)):
        yield "one of " + ", ".join(f"`{value}`" for value in choices)
    if "const" in schema:
        yield f"always `{_written(schema['const'])}`"
    yield from _range(schema)
    for name, words in _BOUNDS:
        if schema.get(name, 0) > (name in ("minLength", "minItems")):
            yield words.format(f"{schema[name]:,}")
    if not described and not _EXCLUDING.fullmatch(schema.get("pattern", "^[^]*$")):
        yield f"pattern `{schema['pattern']}`"
    if schema.get("default") not in (None, "", [], {}):
        yield f"default `{_written(schema['default'])}`"
    if schema.get("writeOnly"):
        yield "write-only"


def _range(schema: Json) -> Iterator[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if above is True:  # OpenAPI 3.0
        low, above = None, low
    if below is True:
        high, below = None, high
    if low is not None and high is not None:
        yield f"{low:,} to {high:,}"
    elif low is not None:
        yield f"{low:,} or more"
    elif high is not None:
        yield f"{high:,} or less"
    if above is not None and above is not False:
        yield f"more than {above:,}"
    if below is not None and below is not False:
        yield f"less than {below:,}"


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
