"""The sorts of fields: how a value is read, stored, shown, filtered and given to rules.

A value has four forms. *Sent* is JSON; `reader` reads it into the *stored* form, that of the
database (text and whole numbers only). `shown` is an expression that makes JSON of the stored form,
and `given` the Python value that rules get; `sent` makes of such a value what a client would send.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, Inexact
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta, Raw

from portico.core.errors import BrokenRule
from portico.core.ids import MAX_ID, whole_number
from portico.core.money import (
    MAX_PRICE,
    UNITS_PER_ONE,
    bound_units,
    currency,
    price_bound,
    price_text,
    price_units,
)
from portico.core.rules import Between, Measured, OneOf, Trimmed
from portico.core.text import web_url
from portico.core.times import moment, storable
from portico.core.users import email
from portico.web.envelope import encode, timestamp
from portico.web.fields import Boolean, Integer, Items, Number, Text, Texts
from portico.web.reading import Faults, FieldKind, read_object

NOTHING: Any = object()
"""That an option was not given."""

LONGEST = 100_000
MOST_TEXTS = 1_000
LARGEST = 2**53
"""The most that a number of JSON holds exactly everywhere."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Field:
    """A declared field. Its subclasses are the sorts of fields."""

    sort = ""
    """The name of its sort, as it is stored with the table: another one is another type."""
    column = "TEXT"
    """Its type in both engines."""
    equality = False
    """Whether it may be a filter by equality."""
    ranged = False
    """Whether it may be a filter by `min_` and `max_`."""
    sortable = True
    derived = False
    """Whether its value follows from others of the record: it is neither stored nor sent."""
    answered = ""
    """What describes its value in answers, unless it says `about`."""
    shown = "{}"
    json: str | tuple[str, ...] = "string"
    answers: Any = str
    """The type of its value in answers."""
    asked: ClassVar[Mapping[str, Any]] = {"type": "string"}
    """The JSON Schema of its filter."""

    def __init__(
        self,
        *,
        default: Any = NOTHING,
        optional: bool = False,
        unique: bool = False,
        search: bool = False,
        fixed: bool = False,
        whole: bool = True,
        example: Any = NOTHING,
        about: str = "",
        was: str | None = None,
        place: tuple[str, int] = ("", 0),
    ) -> None:
        self.default = default
        self.optional = optional
        self.unique = unique
        self.search = search
        self.fixed = fixed
        self.whole = whole
        self.example = example
        self.about = about
        self.was = was
        self.place = place
        self.name = ""

    def __set_name__(self, _owner: type, name: str) -> None:
        self.name = name

    @property
    def required(self) -> bool:
        """Whether it must be sent at creation."""
        return self.default is NOTHING and not self.optional

    @property
    def title(self) -> str:
        """Its name for people."""
        words = self.name.replace("_", " ").capitalize()
        if words == "Url":
            return "URL"
        return f"{words.removesuffix(' id')} ID" if words.endswith(" id") else words

    def faults(self) -> list[str]:
        """What is wrong with its own options; each continues the field's name."""
        return []

    def reader(self) -> FieldKind:
        """How a value that was sent is read into its stored form."""
        raise NotImplementedError

    def stored(self, value: Any) -> Any:
        """The stored form of what `reader` has read."""
        return value

    def show(self, stored: Any) -> Any:
        """The JSON value of a stored one."""
        return stored

    def given(self, stored: Any) -> Any:
        """The value that rules get."""
        return stored

    def sent(self, value: Any) -> Any:
        """What a client would send for a value that a rule gives."""
        return value

    @property
    def answer_schema(self) -> dict[str, Any]:
        """The JSON Schema of its value in answers, besides what follows from the type."""
        return {}

    def answer(self) -> Any:
        """The type of the JSON value in answers, with its description."""
        return Annotated[self.answers, self.meta(**self.answer_schema)]

    def parameter(self) -> Callable[[str], Any]:
        """Reads a filter's value into its stored form; raises `BrokenRule`."""
        raise NotImplementedError

    def some_example(self) -> Any:
        """An example, as it is sent."""
        if self.example is not NOTHING:
            return self.example
        if self.default not in (NOTHING, None):
            return self.default
        return self.usual()

    def usual(self) -> Any:
        """An example where none was declared."""
        return "text"

    def meta(self, **schema: Any) -> Meta:
        """The description of its JSON value."""
        description = self.about or self.answered
        shape = {**schema, **({"description": description} if description else {})}
        return Meta(examples=[self.shown_example()], extra_json_schema=shape)

    def shown_example(self) -> Any:
        """The example as it is answered."""
        return self.some_example()


class TextField(Field):
    """Text of `low` to `high` characters."""

    sort = "text"
    equality = True

    def __init__(self, low: int, high: int, *, trim: bool, **options: Any) -> None:
        super().__init__(**options)
        self.low, self.high = low, high
        self.rule: Callable[[str], str] = (Trimmed if trim else Measured)(low, high)

    def faults(self) -> list[str]:
        if not 0 <= self.low <= self.high <= LONGEST or self.high == 0:
            return [f"has bounds that no text meets: write 0 <= low <= high <= {LONGEST}"]
        return []

    def reader(self) -> FieldKind:
        return Text(self.rule)

    def parameter(self) -> Callable[[str], Any]:
        return self.rule

    def usual(self) -> Any:
        return "example"[: self.high].ljust(self.low, "x")


class IntegerField(Field):
    """A whole number."""

    sort = "integer"
    answers = int
    asked: ClassVar = {"type": "integer"}
    column = "BIGINT"
    ranged = True
    json = "integer"

    def __init__(self, low: int, high: int, **options: Any) -> None:
        super().__init__(**options)
        self.low, self.high = low, high

    def faults(self) -> list[str]:
        if not -LARGEST <= self.low <= self.high <= LARGEST:
            return [f"has bounds that no number meets: write {-LARGEST} <= low <= high <= 2**53"]
        return []

    def reader(self) -> FieldKind:
        return Integer(Between(self.low, self.high))

    @property
    def answer_schema(self) -> dict[str, Any]:
        return {"minimum": 0} if self.low == 0 else {}

    def parameter(self) -> Callable[[str], Any]:
        return _whole_bound

    def usual(self) -> Any:
        return min(max(1, self.low), self.high)


def _whole_bound(text: str) -> int:
    digits = text.removeprefix("-")
    number = whole_number(digits)
    if number is None or number > LARGEST:
        raise BrokenRule("must be a whole number")
    return -number if text != digits else number


class DecimalField(Field):
    """An exact number with at most `places` decimals; stored as a whole number of its last one."""

    sort = "decimal"
    answers = Raw
    asked: ClassVar = {"type": "number"}
    column = "BIGINT"
    ranged = True
    json = "number"

    def __init__(self, places: int, low: Any, high: Any, **options: Any) -> None:
        super().__init__(**options)
        self.places, self.low, self.high = places, low, high

    def faults(self) -> list[str]:
        if not isinstance(self.places, int) or not 0 <= self.places <= 9:
            return ["must have 0 to 9 places"]
        most = LARGEST * 100 // 10**self.places
        if not -most <= self.low <= self.high <= most:
            return [f"has bounds that no number meets: write {-most} <= low <= high <= {most}"]
        return []

    def rule(self, value: Decimal | int) -> int:
        """The stored form of a number. Raises `BrokenRule`."""
        number = Decimal(value)
        if not number.is_finite():
            raise BrokenRule("must be a number")
        if not Decimal(self.low) <= number <= Decimal(self.high):
            raise BrokenRule(f"must be from {self.low} to {self.high}")
        try:
            exact = number.quantize(Decimal(1).scaleb(-self.places), context=_EXACT)
        except Inexact:
            raise BrokenRule(f"must have at most {self.places} decimals") from None
        return int(exact.scaleb(self.places, context=_EXACT))

    def reader(self) -> FieldKind:
        return Number(self.rule, minimum=_plain(self.low), maximum=_plain(self.high))

    def show(self, stored: Any) -> Any:
        return Raw(self.text(stored))

    def text(self, stored: int) -> str:
        """A stored number as JSON."""
        text = format(Decimal(stored).scaleb(-self.places), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text

    def given(self, stored: Any) -> Any:
        return Decimal(self.text(stored))

    def sent(self, value: Any) -> Any:
        return Decimal(str(value)) if isinstance(value, float) else value

    @property
    def answer_schema(self) -> dict[str, Any]:
        return {"type": "number"}

    def bound(self, bound: Decimal, *, up: bool) -> int:
        """A bound of a filter in its stored form, rounded inward."""
        beyond = LARGEST * 1000  # further from zero than any stored number
        if bound.adjusted() > 18:
            return -beyond if bound.is_signed() else beyond
        context = _UP if up else _DOWN
        unit = Decimal(1).scaleb(-self.places)
        units = int(bound.quantize(unit, context=context).scaleb(self.places, context=context))
        return min(max(-beyond, units), beyond)

    def parameter(self) -> Callable[[str], Any]:
        return _decimal_bound

    def usual(self) -> Any:
        return _plain(min(max(Decimal(1), Decimal(self.low)), Decimal(self.high)))

    def shown_example(self) -> Any:
        return _plain(self.some_example())


_EXACT = Context(prec=40, traps=[Inexact])
_DOWN = Context(prec=40, rounding=ROUND_FLOOR, traps=[])
_UP = Context(prec=40, rounding=ROUND_CEILING, traps=[])


def _plain(value: Any) -> Any:
    """A number that JSON can write."""
    number = Decimal(str(value))
    return int(number) if number == number.to_integral_value() else float(number)


def _decimal_bound(text: str) -> Decimal:
    bound = price_bound(text.removeprefix("-"))
    return -bound if text.startswith("-") else bound


class MoneyField(DecimalField):
    """A price (decisions §7)."""

    sort = "money"
    asked: ClassVar = {"type": "number", "minimum": 0}
    answered = "Exact, at most four decimals."
    shown = "Raw(price_text({}))"

    def __init__(self, **options: Any) -> None:
        super().__init__(4, 0, Decimal(MAX_PRICE) / UNITS_PER_ONE, **options)

    def reader(self) -> FieldKind:
        return Number(price_units)

    def text(self, stored: int) -> str:
        return price_text(stored)

    def bound(self, bound: Decimal, *, up: bool) -> int:
        return bound_units(bound, up=up)

    def parameter(self) -> Callable[[str], Any]:
        return price_bound

    @property
    def answer_schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": 0}

    def usual(self) -> Any:
        return 24.5


class BooleanField(Field):
    """True or false."""

    sort = "boolean"
    answers = bool
    asked: ClassVar = {"type": "boolean"}
    column = "BIGINT"
    equality = True
    shown = "({}) == 1"
    json = "boolean"

    def reader(self) -> FieldKind:
        return Boolean()

    def stored(self, value: Any) -> Any:
        return int(value)

    def show(self, stored: Any) -> Any:
        return bool(stored)

    def given(self, stored: Any) -> Any:
        return bool(stored)

    def parameter(self) -> Callable[[str], Any]:
        return _truth

    def usual(self) -> Any:
        return True


def _truth(text: str) -> int:
    if text not in ("true", "false"):
        raise BrokenRule("must be true or false")
    return int(text == "true")


class ChoiceField(Field):
    """One of a few words."""

    sort = "choice"
    equality = True

    def __init__(self, words: Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        self.words = tuple(words)
        self.rule = OneOf(self.words)

    def faults(self) -> list[str]:
        if not self.words or len(set(self.words)) < len(self.words):
            return ["must have choices, each of them once"]
        if not all(isinstance(one, str) and one.strip() == one and one for one in self.words):
            return ["must have choices that are texts without white space around them"]
        return []

    def reader(self) -> FieldKind:
        return Text(self.rule)

    @property
    def answer_schema(self) -> dict[str, Any]:
        return {"enum": [*self.words]}

    def parameter(self) -> Callable[[str], Any]:
        return self.rule

    def usual(self) -> Any:
        return self.words[0] if self.words else ""


class StatesField(ChoiceField):
    """One of a few states, and which may follow which."""

    sort = "states"

    def __init__(self, following: Mapping[str, Sequence[str]], start: str, **options: Any) -> None:
        super().__init__(tuple(following), default=start, **options)
        self.following = {state: tuple(then) for state, then in following.items()}

    def faults(self) -> list[str]:
        found = super().faults()
        if self.default not in self.words:
            found.append("must start in one of its states")
        unknown = {one for then in self.following.values() for one in then} - {*self.words}
        if unknown:
            found.append(f"leads to {', '.join(sorted(unknown))}, which is no state of its own")
        return found

    def follow(self, old: str, new: str) -> str | None:
        """Why a record cannot go from `old` to `new`; None if it can."""
        if new == old or new in self.following.get(old, ()):
            return None
        return f"cannot change from {old} to {new}"


class DateField(Field):
    """A date, such as 2026-11-28."""

    sort = "date"
    asked: ClassVar = {"type": "string", "format": "date"}
    ranged = True

    def reader(self) -> FieldKind:
        return Text(_date, format="date", description="Such as 2026-11-28.")

    def given(self, stored: Any) -> Any:
        return date.fromisoformat(stored)

    def sent(self, value: Any) -> Any:
        return value.isoformat() if isinstance(value, date) else value

    @property
    def answer_schema(self) -> dict[str, Any]:
        return {"format": "date"}

    def parameter(self) -> Callable[[str], Any]:
        return _date

    def usual(self) -> Any:
        return "2026-11-28"

    def shown_example(self) -> Any:
        return self.sent(self.some_example())


def _date(text: str) -> str:
    try:
        if len(text) != 10 or not text.isascii():
            raise ValueError  # noqa: TRY301 - as for a day that is none
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise BrokenRule("must be a date such as 2026-11-28") from None


class MomentField(Field):
    """A time (decisions §7)."""

    sort = "moment"
    asked: ClassVar = {"type": "string", "format": "date-time"}
    column = "BIGINT"
    ranged = True
    shown = "timestamp({})"

    def reader(self) -> FieldKind:
        return Text(storable)  # a text is stored as a number

    def show(self, stored: Any) -> Any:
        return timestamp(stored)

    def given(self, stored: Any) -> Any:
        return _EPOCH + timedelta(milliseconds=stored)

    def sent(self, value: Any) -> Any:
        if not isinstance(value, datetime):
            return value
        at = value if value.tzinfo else value.replace(tzinfo=UTC)
        return timestamp((at - _EPOCH) // timedelta(milliseconds=1))

    @property
    def answer_schema(self) -> dict[str, Any]:
        return {"format": "date-time"}

    def parameter(self) -> Callable[[str], Any]:
        return moment

    def usual(self) -> Any:
        return "2026-01-31T08:15:30.123Z"

    def shown_example(self) -> Any:
        return self.sent(self.some_example())


MOMENT = MomentField()
"""The sort of `created_at` and `updated_at`."""


class RuledField(Field):
    """Text by a rule of the domain: an e-mail address, a URL, a currency."""

    equality = True

    def __init__(
        self,
        sort: str,
        rule: Callable[[str], str],
        usual: str,
        description: str = "",
        answered: str = "",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.sort = sort
        self.answered = answered
        self._schema = {"description": description} if description else {}
        self.rule = rule
        self._usual = usual

    def reader(self) -> FieldKind:
        return Text(self.rule, **self._schema)

    def parameter(self) -> Callable[[str], Any]:
        return self.rule

    def usual(self) -> Any:
        return self._usual


def email_field(**options: Any) -> RuledField:
    """An e-mail address."""
    about = "At most 254 characters."
    return RuledField("email", email, "ada@example.com", description=about, **options)


def url_field(**options: Any) -> RuledField:
    """An http or https URL."""
    return RuledField("url", web_url, "https://example.com/", **options)


def currency_field(**options: Any) -> RuledField:
    """An ISO 4217 code."""
    return RuledField("currency", currency, "USD", answered="ISO 4217.", **options)


class ReferenceField(Field):
    """The id of a record of another kind, or of the same."""

    sort = "reference"
    answers = int
    asked: ClassVar = {"type": "integer", "minimum": 1, "maximum": MAX_ID}
    column = "BIGINT"
    equality = True
    json = "integer"

    def __init__(self, to: str, on_delete: str | None, **options: Any) -> None:
        super().__init__(**options)
        self.to = to
        self.on_delete = on_delete

    def faults(self) -> list[str]:
        if self.on_delete not in (None, "clear", "delete"):
            return ['must have on_delete="clear", "delete", or none, which refuses the deletion']
        if self.on_delete == "clear" and not self.optional:
            return ['must be optional to be cleared: add optional=True, or use on_delete="delete"']
        return []

    def reader(self) -> FieldKind:
        return Integer(Between(1, MAX_ID))

    @property
    def answer_schema(self) -> dict[str, Any]:
        return {"minimum": 1}

    def parameter(self) -> Callable[[str], Any]:
        return _id

    def usual(self) -> Any:
        return 17


def _id(text: str) -> int:
    number = whole_number(text)
    if not number or number > MAX_ID:
        raise BrokenRule("must be an id")
    return number


class JsonField(Field):
    """A value that is stored as JSON text."""

    answers = Raw
    sortable = False
    shown = "Raw({})"

    def show(self, stored: Any) -> Any:
        return Raw(stored)


class TextsField(JsonField):
    """Names with texts."""

    sort = "texts"
    json = "object"

    def __init__(self, most: int, **options: Any) -> None:
        super().__init__(**options)
        self.most = most

    def faults(self) -> list[str]:
        return [] if 1 <= self.most <= MOST_TEXTS else [f"must have 1 to {MOST_TEXTS} names"]

    def reader(self) -> FieldKind:
        return Texts(Text(Measured(1, 100)), Text(Measured(0, 1_000)), most=self.most)

    def stored(self, value: Any) -> Any:
        return encode(value).decode()

    def given(self, stored: Any) -> Any:
        return msgspec.json.decode(stored)

    @property
    def answer_schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": "string"}}

    def usual(self) -> Any:
        return {"colour": "brass"}


class ItemsField(JsonField):
    """A list of objects; `shape` is a record of plain fields."""

    sort = "items"
    json = "array"

    def __init__(self, shape: Any, most: int, **options: Any) -> None:
        super().__init__(**options)
        self.shape = shape
        self.most = most

    @property
    def inner(self) -> tuple[Field, ...]:
        """The fields of its objects."""
        return tuple(getattr(self.shape, "__fields__", ()))

    def faults(self) -> list[str]:
        if not self.inner:
            return ["must list a Record with fields"]
        found = [] if 1 <= self.most <= MOST_TEXTS else [f"must have 1 to {MOST_TEXTS} items"]
        for field in self.inner:
            found += [f"has {field.name}, which {fault}" for fault in field.faults()]
            if isinstance(field, JsonField | ReferenceField):
                found.append(f"has {field.name}, which must be plain: no items, texts, references")
            if field.unique or field.search or field.fixed or field.was or not field.whole:
                found.append(f"has {field.name}, which can only have default, optional, example")
        return found

    def reader(self) -> FieldKind:
        return Items(_ObjectOf(self.inner), most=self.most)

    def stored(self, value: Any) -> Any:
        shown = [
            {field.name: _shown_or_none(field, item[field.name]) for field in self.inner}
            for item in value
        ]
        return encode(shown).decode()

    def given(self, stored: Any) -> Any:
        items = json.loads(stored, parse_float=Decimal)
        faults = Faults()
        reader = _ObjectOf(self.inner)
        return [
            self.shape(
                **{
                    field.name: None if (one := read[field.name]) is None else field.given(one)
                    for field in self.inner
                }
            )
            for read in (reader.read(item, "", faults) for item in items)
        ]

    def sent(self, value: Any) -> Any:
        return [
            {name: _sent_by(self.inner, name, one) for name, one in _items_of(item).items()}
            for item in value
        ]

    @property
    def answer_schema(self) -> dict[str, Any]:
        properties = {
            field.name: {"type": field.json, "examples": [field.shown_example()]}
            for field in self.inner
        }
        for field in self.inner:
            if field.optional:
                properties[field.name]["type"] = [field.json, "null"]
        items = {"type": "object", "required": [*properties], "properties": properties}
        return {"type": "array", "items": items}

    def usual(self) -> Any:
        return [{field.name: field.shown_example() for field in self.inner}]


def _items_of(item: Any) -> Mapping[str, Any]:
    return item if isinstance(item, Mapping) else vars(item)


def _sent_by(fields: Sequence[Field], name: str, value: Any) -> Any:
    return next((field.sent(value) for field in fields if field.name == name), value)


def _shown_or_none(field: Field, stored: Any) -> Any:
    return None if stored is None else field.show(stored)


class _ObjectOf:
    """An object with these fields, read as a dict of their stored forms."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._fields = fields
        self._shape = msgspec.defstruct(
            "Item", [(field.name, Annotated[Any, described(field)], None) for field in fields]
        )
        self._required = [field.name for field in fields if field.required]

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        """See `FieldKind.read`."""
        read = read_object(self._shape, value, path, faults)
        if isinstance(value, dict):
            for name in self._required:
                if name not in value:
                    faults.cannot_read(f"{path}.{name}", "is required")
        return {
            field.name: read[field.name] if field.name in read else default_of(field)
            for field in self._fields
        }

    def schema(self) -> dict[str, Any]:
        """See `FieldKind.schema`."""
        properties = {field.name: described(field).schema() for field in self._fields}
        schema: dict[str, Any] = {
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
        }
        return schema | ({"required": self._required} if self._required else {})


class _Described:
    """Reads a field's value into its stored form, and says of it what the declaration does."""

    def __init__(self, field: Field, *, new: bool) -> None:
        self._field = field
        self._default = field.default if new else NOTHING
        self._kind = field.reader()
        self._stored = None if type(field).stored is Field.stored else field.stored
        self._optional = field.optional
        if self._stored is None and not self._optional:
            self.read = self._kind.read  # type: ignore[method-assign]  # saves a call for each value

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        """See `FieldKind.read`."""
        if value is None and self._optional:
            return None
        if self._stored is None:
            return self._kind.read(value, path, faults)
        before = len(faults.unreadable) + len(faults.broken)
        read = self._kind.read(value, path, faults)
        if len(faults.unreadable) + len(faults.broken) > before:
            return None
        return self._stored(read)

    def schema(self) -> dict[str, Any]:
        """See `FieldKind.schema`."""
        field, schema = self._field, dict(self._kind.schema())
        parts = [field.about, schema.get("description", "")]
        if self._default not in (NOTHING, None, "", [], {}):
            parts.append(f"Default: `{plain_json(field.sent(self._default))}`.")
        if description := " ".join(filter(None, parts)):
            schema["description"] = description
        if self._optional:
            schema["type"] = [schema["type"], "null"]
            if "enum" in schema:
                schema["enum"] = [*schema["enum"], None]
        return schema


def plain_json(value: Any) -> str:
    """A value as a document shows it: JSON, texts without quotes."""
    if isinstance(value, Decimal):
        value = _plain(value)
    return value if isinstance(value, str) else encode(value).decode()


def described(field: Field, *, new: bool = True) -> FieldKind:
    """The reader of a field, with its description; `new` says whether of a new record."""
    return _Described(field, new=new)


def default_of(field: Field) -> Any:
    """The stored form of what a field has where nothing is sent."""
    if field.default in (NOTHING, None):
        return None
    faults = Faults()
    return described(field).read(field.sent(field.default), field.name, faults)
