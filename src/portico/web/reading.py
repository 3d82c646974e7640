"""Reads JSON bodies and query strings into declared shapes and reports all faults at once.

A shape is a `msgspec.Struct` whose fields are annotated with a `FieldKind`: how a value is read,
which rule it must satisfy, and its JSON Schema. A field with a default is optional. Input that
cannot be read raises `errors.Unreadable` (400), a value that breaks a rule `errors.Invalid` (422),
see decisions §6.
"""

import json
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Annotated, Any, NoReturn, Protocol, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import unquote_to_bytes

import msgspec

from portico.core.errors import BrokenRule, Fault, Unreadable, invalid, unreadable
from portico.core.text import text_fault
from portico.web.json_schema import facts

S = TypeVar("S", bound=msgspec.Struct)

BODY = "body"
"""The field that a fault of the whole body names."""


MOST_FAULTS = 100

LARGE_TEXT = 65_536
MOST_VALUES = 5_000
"""A JSON text of more than `LARGE_TEXT` characters may have at most `MOST_VALUES` values: no shape
takes more, and reading hundreds of thousands would block the event loop."""


LONGEST_CACHED_QUERY = 8_192
"""The longest query string whose values are cached. Longer ones, such as numbers padded with zeros,
would fill the memory."""


class Faults:
    """Collects the faults of one request, at most `MOST_FAULTS` of each kind."""

    def __init__(self) -> None:
        self.unreadable: list[Fault] = []
        self.broken: list[Fault] = []
        self.deferred: list[Fault] = []
        """Broken rules that a use case checks too: reported here only beside other faults."""

    def cannot_read(self, field: str, message: str) -> None:
        """Notes a value of the wrong form, which becomes a 400."""
        if not self.full:
            self.unreadable.append(Fault(field, message))

    def breaks_rule(self, field: str, message: str) -> None:
        """Notes a well-formed value that breaks a rule, which becomes a 422."""
        if len(self.broken) < MOST_FAULTS:
            self.broken.append(Fault(field, message))

    def defer(self, field: str, message: str) -> None:
        """Notes a broken rule that alone is left to a use case."""
        self.deferred.append(Fault(field, message))

    @property
    def full(self) -> bool:
        """Whether reading further cannot change the answer."""
        return len(self.unreadable) >= MOST_FAULTS

    def check(self) -> None:
        """Raises `Unreadable` or `Invalid` if there is any fault."""
        broken = [*self.broken, *self.deferred]
        if self.unreadable:
            raise unreadable(*[*self.unreadable, *broken][:MOST_FAULTS])
        if self.broken:
            raise invalid(*broken[:MOST_FAULTS])


class FieldKind(Protocol):
    """How one value is read."""

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        """The value for the shape's field; notes faults under `path`."""
        ...

    def schema(self) -> dict[str, Any]:
        """The kind's JSON Schema (2020-12)."""
        ...


class NotJson(ValueError):
    """The text is not JSON that Portico accepts; the message says why, and where."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise NotJson(f"The name {printable(name)!r} appears twice in one object.")
            seen.add(name)
    return result


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise NotJson("A number in the JSON has an exponent that is too large.") from None


def _constant(name: str) -> NoReturn:
    raise NotJson(f"{name} is not a JSON value.")


def printable(text: str) -> str:
    """`text` made safe to repeat in an answer: no NUL or lone surrogates, at most 100
    characters."""
    return text[:100].encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


_decoder = json.JSONDecoder(
    object_pairs_hook=_object, parse_float=_decimal, parse_constant=_constant
)


def parse_json(text: str, most: int = MOST_VALUES) -> Any:
    """The value of a JSON text (RFC 8259), fractions as `Decimal`.

    Raises `NotJson` for malformed, too deep or crowded JSON, duplicate names, NaN and infinities.
    """
    if len(text) > LARGE_TEXT and _has_too_many_values(text, most):
        raise NotJson(f"The JSON has more than {most} values.")
    try:
        return _decoder.decode(text)
    except NotJson:
        raise
    except json.JSONDecodeError as error:
        if text.startswith("\ufeff"):  # RFC 8259 §8.1
            raise NotJson("The JSON begins with a byte order mark: send it without.") from None
        line = f"line {error.lineno}, " if "\n" in text else ""
        fault = error.msg.removesuffix(" at").removesuffix(" starting")  # the place comes first
        message = f"Malformed JSON at {line}column {error.colno}: {fault}."
    except RecursionError:
        message = "The JSON is nested too deeply."
    except ValueError:
        message = "A number in the JSON has too many digits."
    raise NotJson(message)


def read_json(body: bytes, most: int = MOST_VALUES) -> Any:
    """The value of a body, see `parse_json`. Raises `Unreadable`."""
    try:
        return parse_json(body.decode("utf-8"), most)
    except UnicodeDecodeError:
        message = "The body is not UTF-8."
    except NotJson as error:
        message = str(error)
    raise Unreadable("The body is not valid JSON.", [Fault(BODY, message)])


def _has_too_many_values(text: str, most: int) -> bool:
    """Whether JSON has more than so many values. Counts the characters that precede values
    outside of strings, without parsing."""
    plain = text.replace("\\\\", "").replace('\\"', "")
    if plain.count('"') > 4 * most:  # a member of an object has at most two strings
        return True
    outside = "".join(plain.split('"')[::2])
    return sum(map(outside.count, (",", "[", "{"))) > most


def decode(shape: type[S], body: bytes) -> S:
    """Reads a JSON body into `shape`. Raises `Unreadable` or `Invalid` with every fault."""
    values, faults = read_body(shape, body)
    faults.check()
    return shape(**values)


def read_body(
    shape: type[msgspec.Struct], body: bytes, most: int = MOST_VALUES
) -> tuple[dict[str, Any], Faults]:
    """The values of a JSON body's fields, by name, and all faults. Raises `Unreadable` for a body
    that is not JSON."""
    faults = Faults()
    return read_object(shape, read_json(body, most), "", faults), faults


def read_object(shape: type[msgspec.Struct], value: Any, path: str, faults: Faults) -> Any:
    """The values of an object's fields, by name; notes every fault under `path`."""
    if not isinstance(value, dict):
        faults.cannot_read(path or BODY, "must be an object")
        return {}
    values: dict[str, Any] = {}
    kinds = fields(shape)
    for name, item in value.items():
        if faults.full:
            break
        here = f"{path}.{name}" if path else name
        kind = kinds.get(name)
        if kind is None:
            faults.cannot_read(printable(here), "unknown field")
        else:
            values[name] = kind.read(item, here, faults)
    for name in required(shape):
        if name not in value:
            faults.cannot_read(f"{path}.{name}" if path else name, "is required")
    return values


@lru_cache
def fields(shape: type[msgspec.Struct]) -> Mapping[str, FieldKind]:
    """The kind of each field of a shape."""
    hints = get_type_hints(shape, include_extras=True)
    return {name: _kind(hints[name]) for name in shape.__struct_fields__}


def _kind(hint: Any) -> FieldKind:
    if get_origin(hint) is Annotated:
        kind: FieldKind = next(item for item in hint.__metadata__ if hasattr(item, "read"))
        return kind
    # `Annotated[…] | UnsetType` and similar: the one annotated member has the kind.
    return next(_kind(item) for item in get_args(hint) if get_origin(item) is Annotated)


@lru_cache
def required(shape: type[msgspec.Struct]) -> tuple[str, ...]:
    """The names of the fields without a default, in their order."""
    return tuple(item.name for item in msgspec.structs.fields(shape) if item.required)


def decode_query(shape: type[S], query: str) -> S:
    """Reads a query string into `shape`, whose fields are annotated with a `Param`.

    Raises `Unreadable` for unknown, repeated, empty and invalid parameters.
    """
    return (_decoded_cached if len(query) <= LONGEST_CACHED_QUERY else _decoded)(shape, query)


def _decoded(shape: type[S], query: str) -> S:
    faults = Faults()
    values: dict[str, Any] = {}
    kinds = fields(shape)
    for pair in filter(None, query.split("&")):
        if faults.full:
            break
        raw_name, _, raw_value = pair.partition("=")
        name, text = _unquote(raw_name), _unquote(raw_value)
        kind = kinds.get(name) if name is not None else None
        if name is None or kind is None:
            shown = printable(name if name is not None else raw_name)
            faults.cannot_read(shown, "unknown query parameter")
        elif name in values:
            faults.cannot_read(name, "must not be sent more than once")
        elif text is None or text_fault(text):
            faults.cannot_read(name, "must be percent-encoded UTF-8 without NUL")
        else:
            values[name] = kind.read(text, name, faults)
    if across := getattr(shape, "across", None):
        for fault in across(values):
            faults.cannot_read(fault.field, fault.message)
    faults.check()
    return shape(**values)


_decoded_cached = lru_cache(maxsize=1024)(_decoded)


def _unquote(text: str) -> str | None:
    try:
        return unquote_to_bytes(text.replace("+", " ")).decode("utf-8")
    except (UnicodeDecodeError, UnicodeEncodeError):
        return None


class Param:
    """A query parameter, read by `parse`, which raises `BrokenRule`."""

    def __init__(self, parse: Callable[[str], Any], *, empty: bool = False, **schema: Any) -> None:
        """`empty` allows an empty value; `schema` adds to the facts of `parse`."""
        self._parse = parse
        self._empty = empty
        self._schema = schema

    def read(self, value: str, path: str, faults: Faults) -> Any:
        if not value and not self._empty:
            faults.cannot_read(path, "must not be empty; omit the parameter instead")
            return None
        try:
            return self._parse(value)
        except BrokenRule as error:
            faults.cannot_read(path, str(error))
            return None

    def schema(self) -> dict[str, Any]:
        return {**facts(self._parse), **self._schema}


def sent(body: msgspec.Struct) -> dict[str, Any]:
    """The values of a body that were sent or have a default, without those that are unset."""
    return {
        name: value
        for name in body.__struct_fields__
        if (value := getattr(body, name)) is not msgspec.UNSET
    }
