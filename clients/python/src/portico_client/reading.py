"""JSON: models, errors and bodies. Numbers stay exact: fractions are `Decimal`."""

import contextlib
import dataclasses
import json
import math
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any

from portico_client.errors import (
    BY_CODE,
    APIError,
    Fault,
    OAuthError,
    RateLimited,
    ServiceUnavailable,
    UnexpectedAnswer,
)
from portico_client.events import Event, UnknownEvent, shape
from portico_client.flow import Response

Read = Callable[[Any], Any]

MOST_DIGITS = 9
"""How many digits of a wait in seconds are read: 9 are thirty years. Python can wait for some
centuries at most, and refuses to parse thousands of digits."""
LONGEST_WAIT = int("9" * MOST_DIGITS)

_HTTP_DATE = re.compile(r"[A-Z][a-z]+,? [\w -]+ \d\d:\d\d:\d\d(?: GMT| \d{4})", re.ASCII)
"""An HTTP date in any of its three forms (RFC 9110 §5.6.7)."""

_BY_STATUS = {429: RateLimited, 503: ServiceUnavailable}


def decode(content: bytes) -> Any:
    """The value of a JSON text. Raises ValueError."""
    try:
        return json.loads(content, parse_float=Decimal)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ArithmeticError:
        raise ValueError("it has a number that no Decimal can hold") from None


def encode(value: Any) -> str:
    """A value as JSON text. A `Decimal` is written exactly.

    Raises ValueError for numbers that JSON does not have, TypeError for anything but `None`, bool,
    int, str, `Decimal`, mappings, sequences and dataclasses: a float may have lost digits already.
    """
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise ValueError(f"{value} is not a number in JSON")
        return format(value, "f")
    if value is None or isinstance(value, str | int):
        return json.dumps(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return encode({field.name: getattr(value, field.name) for field in fields})
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{json.dumps(k)}:{encode(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return "[" + ",".join(map(encode, value)) + "]"
    if isinstance(value, float):
        raise TypeError("send a Decimal or an int, not a float")
    raise TypeError(f"JSON cannot represent a {type(value).__name__}")


@cache
def reader(kind: Any) -> Read:
    """A function that converts a JSON value to type `kind`. It ignores unknown fields.

    Supports dataclasses, typed dictionaries, tuples of one type, unions with None, `Decimal` and
    `datetime`, and leaves anything else unchanged. Fields with a default may be missing. The
    function raises KeyError, TypeError, ValueError, ArithmeticError and AttributeError.
    """
    if kind is Decimal:
        return Decimal
    if kind is datetime:
        return datetime.fromisoformat
    if dataclasses.is_dataclass(kind):
        return _object_reader(kind)
    if typing.is_typeddict(kind):
        return _mapping_reader(kind)
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        item = reader(arguments[0])
        return lambda value: tuple(map(item, value))
    if origin is types.UnionType and type(None) in arguments:
        inner = reader(next(one for one in arguments if one is not type(None)))
        return lambda value: None if value is None else inner(value)
    return _nothing if kind is types.NoneType else _as_it_is


def _nothing(_value: Any) -> None:
    return None


def _as_it_is(value: Any) -> Any:
    return value


def _object_reader(kind: Any) -> Read:
    hints = typing.get_type_hints(kind)
    # A field that is not compared, the entity tag, is not part of the JSON.
    fields = [field for field in dataclasses.fields(kind) if field.compare]
    steps = [(field.name, reader(hints[field.name])) for field in fields]
    absent = {f.name: f.default for f in fields if f.default is not dataclasses.MISSING}

    def read(value: Any) -> Any:
        if absent:
            value = {**absent, **value}
        return kind(*[value[n] if step is _as_it_is else step(value[n]) for n, step in steps])

    return read


def _mapping_reader(kind: Any) -> Read:
    steps = {name: reader(hint) for name, hint in typing.get_type_hints(kind).items()}
    return lambda value: {name: steps[name](one) for name, one in value.items() if name in steps}


def _event_readers() -> Iterator[tuple[str, tuple[type, Read, Read]]]:
    for kind in typing.get_args(Event):
        name, data, previous = shape(kind)
        yield name, (kind, reader(data), reader(previous))


_EVENTS = {name: steps for name, steps in _event_readers() if name != "unknown"}


def event(value: Any) -> Event:
    """The event of a JSON value. Raises KeyError, TypeError and ValueError.

    One whose data cannot be read becomes an `UnknownEvent` too: an error would keep callers from
    the events after it.
    """
    id_, name, data = value["id"], value["type"], value["data"]
    if not (type(id_) is int and isinstance(name, str) and isinstance(data, dict)):
        raise TypeError("it is not an event")
    at, previous = datetime.fromisoformat(value["timestamp"]), value.get("previous")
    if name in _EVENTS:
        kind, read, read_previous = _EVENTS[name]
        with contextlib.suppress(KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
            made: Event = kind(id_, name, at, read(data), read_previous(previous))
            return made
    return UnknownEvent(id_, "unknown", at, data, previous, name)


def data_of(response: Response, kind: Any, **extra: Any) -> Any:
    """The `data` of a successful response as a `kind`, with `extra` fields added.

    Raises `UnexpectedAnswer`.
    """
    try:
        made = reader(kind)(decode(response.content)["data"])
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise unexpected(response) from error
    return dataclasses.replace(made, **extra) if extra else made


def unexpected(response: Response) -> UnexpectedAnswer:
    """The error for a successful response that cannot be understood."""
    request_id = response.headers.get("x-request-id")
    said = f"cannot be understood [{request_id}]" if request_id else "is not from Portico"
    return UnexpectedAnswer(f"the response {response.status} {said}")


def error_of(response: Response) -> APIError:
    """The error of a response, whether it comes from the service or something in between."""
    request_id, wait = response.headers.get("x-request-id"), retry_after(response)
    try:
        body = decode(response.content)
        error = body["error"]
        if isinstance(error, str):
            message = str(body.get("error_description", error))
            kind = _BY_STATUS.get(response.status, OAuthError)
            return kind(response.status, error, message, (), request_id, wait)
        details = error["details"]
        faults = tuple(Fault(_text(one, "field"), _text(one, "message")) for one in details)
        code, message = _text(error, "code"), _text(error, "message")
        kind = BY_CODE.get(code, APIError)
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        kind = _BY_STATUS.get(response.status, APIError)
        message = "The response is not from Portico."
        return kind(response.status, kind.CODE, message, (), request_id, wait)
    return kind(response.status, code, message, faults, request_id, wait)


def _text(told: Any, name: str) -> str:
    found = told[name]
    if not isinstance(found, str):
        raise TypeError(f"{name} is not a string")
    return found


def retry_after(response: Response) -> int | None:
    """The `Retry-After` of a response in seconds, or None; of a very long number, its first digits.
    A date is compared with the response's own `Date`, if it has one, because clocks differ."""
    text = response.headers.get("retry-after", "")
    if text.isascii() and text.isdigit():
        return int(text.lstrip("0")[:MOST_DIGITS] or 0)
    until, sent = _seconds(text), _seconds(response.headers.get("date", ""))
    if until is None:
        return None
    wait = math.ceil(until - (response.at if sent is None else sent))
    return max(0, min(wait, LONGEST_WAIT))


def _seconds(text: str) -> float | None:
    """The time of an HTTP date in Unix seconds."""
    if not _HTTP_DATE.fullmatch(text):
        return None
    try:
        return parsedate_to_datetime(text).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        return None
