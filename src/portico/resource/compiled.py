"""All that serves the requests of a kind, made of its declaration once, at the start.

No request looks anything up by the name of a kind or of a field: rows, bodies and conditions are
made by functions whose source is put together here, as dataclasses do it. Names have been checked
(`loading`) before they come here.
"""

import types
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from portico.core.errors import Fault
from portico.core.events import EVENTS, Details, Published
from portico.core.money import price_text
from portico.core.resources import Resource
from portico.core.rules import Measured
from portico.core.scopes import PERMISSIONS
from portico.data.database import Dependency, ListDependency, Params
from portico.data.search import tokens
from portico.data.table import Table
from portico.environment import Environment
from portico.resource.declared import Kind, Record
from portico.resource.fields import (
    MOMENT,
    DecimalField,
    Field,
    ReferenceField,
    StatesField,
    TextsField,
    default_of,
    described,
)
from portico.resource.notes import (
    EVENT_DATA,
    EVENT_PREVIOUS,
    IMPORTED,
    RecordNote,
    RecordsImported,
    imported_shape,
    updated,
)
from portico.resource.search import Indexed
from portico.web.envelope import Identifier, Timestamp, encode, timestamp
from portico.web.lists import ListQuery, choice
from portico.web.reading import Param, decode, sent

CREATED = "created_at"
_MARK = "x"
"""The beginning of every word in an index."""

OWN = ("id", "created_at", "updated_at")
"""What every record has besides its fields."""

_SEARCH = Measured(0, 200)


def column(name: str) -> str:
    """The column of a field; the prefix keeps it apart from the words of SQL."""
    return name if name in OWN else f"f_{name}"


def named(words: str) -> str:
    """The beginning of the names of shapes."""
    return "".join(part.capitalize() for part in words.split("-"))


def table_of(many: str) -> str:
    """The table of a kind."""
    return f"kind_{many.replace('-', '_')}"


class Compiled:
    """A kind, ready to serve."""

    column: Callable[[str], str] = staticmethod(column)
    """The column of a field."""
    table_of: Callable[[str], str] = staticmethod(table_of)
    """The table of the kind with this name."""
    chosen: Mapping[str, Any] = {}
    """The filters that a list has unless a request says otherwise."""
    about_list = ""
    """What the list's description says."""
    kept: Mapping[str, str] = MappingProxyType({"TRUE": "TRUE"})
    """The conditions of lists whose totals are kept, with those on the keys of the totals."""
    id_ordered: Collection[str] = ()
    """The conditions for which an index goes on with the id."""

    def __init__(self, kind: Kind[Any]) -> None:
        self.kind = kind
        self.one, self.many = kind.one, kind.many
        self.name = named(kind.one)
        """The beginning of the names of its shapes."""
        self.path = f"/{kind.many}"
        self.noun = kind.one.replace("-", "_")
        """What its events and audit entries call a record."""
        self.words = kind.one.replace("-", " ")
        """What people call a record."""
        self.an = f"one of the {kind.many.replace('-', ' ')}"
        """What summaries call a record."""
        self.reads, self.writes = f"read:{kind.many}", f"write:{kind.many}"
        fields: Sequence[Field] = kind.record.__fields__
        self.listed = tuple(field for field in fields if field.whole)
        self.unlisted = tuple(field for field in fields if not field.whole)
        shown = (*self.listed, *self.unlisted)
        self.by_name = {field.name: field for field in shown}
        self.fields = tuple(field for field in shown if not field.derived)
        """Those that are stored."""
        self.sent = sorted(self.fields, key=lambda field: not field.required)
        """Those that are stored, in the order in which they are documented to be sent."""
        self.derived = tuple(field for field in shown if field.derived)
        self.states = tuple(field for field in self.fields if isinstance(field, StatesField))
        self.fixed = tuple(field for field in self.fields if field.fixed)
        self.unique = tuple(field for field in self.fields if field.unique)
        self.unordered = tuple(field for field in self.fields if isinstance(field, TextsField))
        self.references = tuple(field for field in self.fields if isinstance(field, ReferenceField))
        self.searched = tuple(field for field in self.fields if field.search)
        self.table_name = self.table_of(kind.many)
        self.indexed = self.index()
        """What is searched, if any field is."""
        self.row = self.row_shape()
        sorts = [self.by_name[name] for name in kind.sorts if name not in OWN]
        keys = {_key(field): _key_of(field) for field in sorts if field.optional}
        self.keys: Mapping[str, Callable[[Any], object]] = keys
        self.table: Table[Any] = Table(self.table_name, self.row, keys=keys, fixed=(CREATED,))
        unread = [self.column(field.name) for field in self.unlisted]
        self.listing: Table[Any] = Table(
            self.table_name, self.row, keys=keys, fixed=(CREATED,), unread=unread
        )
        self.readers = {field.name: described(field) for field in self.fields}
        self.defaults = {
            field.name: default_of(field) for field in self.fields if not field.required
        }
        self._shapes()
        self._makers()
        self.orders = {name: self._order(name) for name in (*kind.sorts, CREATED)}
        """The column of each sort, which has an index."""
        self.query = self._query()
        self.condition: Callable[[Any], tuple[str, Params]] = self._condition()
        self._events()

    def index(self) -> Indexed[Any]:
        """What is searched."""
        return Indexed(self.table_name, f"{self.table_name}__words", self.words_of, {"": _MARK})

    def row_shape(self) -> Any:
        """The shape of a row."""
        listed = [field for field in self.listed if not field.derived]
        names: list[Any] = ["id", *(self.column(field.name) for field in listed)]
        rest = [(self.column(field.name), Any, None) for field in self.unlisted]
        columns = [*names, CREATED, "updated_at", *rest]
        return msgspec.defstruct(f"{self.name}Row", columns, frozen=True, gc=False)

    def _shapes(self) -> None:
        """The shapes that are read and written, and the functions between them and rows."""
        name, about = self.name, self.kind.about
        listed = [(field.name, _answer(field)) for field in self.listed]
        times = [(CREATED, Timestamp), ("updated_at", Timestamp)]
        of_item = [("id", Identifier), *listed, *times]
        self.item_shape: Any = msgspec.defstruct(
            f"{name}Item", of_item, frozen=True, namespace={"__doc__": f"In a list: {about}"}
        )
        message = f"{self.words.capitalize()} created."
        self.body_shape: Any = msgspec.defstruct(
            f"{name}Body",
            [(field.name, _answer(field)) for field in self.unlisted],
            bases=(self.item_shape,),
            frozen=True,
            namespace={
                "__doc__": about,
                "message": message,
                "__annotations__": {"message": ClassVar[str]},
            },
        )
        self.create: Any = msgspec.defstruct(
            f"Create{name}",
            [_created(field) for field in self.sent if field.required]
            + [_changed(field, new=True) for field in self.sent if not field.required],
            namespace={
                "__doc__": f"The body of POST {self.path}.",
                "EXAMPLE": self.example(),
                "__annotations__": {"EXAMPLE": ClassVar[Any]},
            },
        )
        self.change: Any = msgspec.defstruct(
            f"Change{name}",
            [_changed(field) for field in self.sent],
            namespace={
                "__doc__": f"The body of PATCH {self.path}/{{id}}. Omitted fields stay unchanged.",
                "EXAMPLE": self.change_example(),
                "__annotations__": {"EXAMPLE": ClassVar[Any]},
            },
        )
        self.item: Callable[[Any], Any] = self._shower(self.item_shape, self.listed)
        self.body: Callable[[Any], Any] = self._shower(self.body_shape, self.listed, self.unlisted)
        line = msgspec.defstruct("Line", ["id", *(field.name for field in self.filed)])
        self.line: Callable[[Any], Any] = self._shower(line, self.filed, timed=False)
        """Makes of a row what a line of a file has."""

    def example(self) -> dict[str, Any]:
        """What creates a record."""
        return {field.name: field.shown_example() for field in self.sent}

    def change_example(self) -> dict[str, Any]:
        """What changes a record."""
        free = [field for field in self.fields if not field.fixed] or [*self.fields]
        return {field.name: field.shown_example() for field in free[:2]}

    def _makers(self) -> None:
        """The functions that make rows of values."""
        terms = {self.column(field.name): f"every[{field.name!r}]" for field in self.fields}
        terms |= {"id": "0", CREATED: "now", "updated_at": "now"}
        values = ", ".join(terms[name] for name in self.row.__struct_fields__)
        scope = {"row": self.row, "defaults": self.defaults}
        source = f"lambda values, now: (lambda every: row({values}))({{**defaults, **values}})"
        self.new: Callable[[Mapping[str, Any], int], Any] = eval(source, scope)  # noqa: S307 - as below
        """Makes a row of stored values by field, without an id."""

    def _shower(
        self,
        shape: Any,
        listed: Sequence[Field],
        unlisted: Sequence[Field] = (),
        *,
        timed: bool = True,
    ) -> Callable[[Any], Any]:
        scope: dict[str, Any] = {
            "shape": shape, "Raw": Raw, "price_text": price_text, "timestamp": timestamp
        }  # fmt: skip

        def term(number: int, field: Field) -> str:
            value = f"row.{self.column(field.name)}"
            if isinstance(field, DecimalField) and field.shown == "{}":
                scope[f"show{number}"] = field.show
                made = f"show{number}({value})"
            else:
                made = field.shown.format(value)
            return f"None if {value} is None else {made}" if field.optional else made

        first = [term(number, field) for number, field in enumerate(listed)]
        rest = [term(number, field) for number, field in enumerate(unlisted, len(listed))]
        times = ["timestamp(row.created_at)", "timestamp(row.updated_at)"] if timed else []
        source = f"lambda row: shape({', '.join(['row.id', *first, *times, *rest])})"
        made: Callable[[Any], Any] = eval(source, scope)  # noqa: S307 - of names that were checked
        return made

    def _order(self, name: str) -> str:
        # Ids are assigned in the order of creation.
        if name == CREATED:
            return "id"
        field = self.by_name.get(name)
        return _key(field) if field is not None and field.optional else self.column(name)

    def _query(self) -> Any:
        parameters: list[Any] = []
        self.bounds: list[tuple[str, Field, bool]] = []
        """The parameters that are bounds, with whether each is the lower one."""
        for name in self.kind.filters:
            field = self.by_name[name]
            if field.ranged:
                for prefix, low in (("min_", True), ("max_", False)):
                    parameters.append((f"{prefix}{name}", _parameter(field), None))
                    self.bounds.append((f"{prefix}{name}", field, low))
            else:
                parameters.append((name, _parameter(field), self.chosen.get(name)))
        parameters += self.ordering()
        if self.searched:
            fields = " and ".join(field.name for field in self.searched)
            search = Param(
                _SEARCH,
                empty=True,
                type="string",
                description=f"Full-text search over {fields}. All words must match, in any case and"
                " accent, the last one as a prefix; most relevant first.",
            )
            parameters.append(("search", Annotated[str, search], ""))
        pairs = [(f"min_{one.name}", f"max_{one.name}") for _, one, low in self.bounds if low]

        def across(values: Mapping[str, Any]) -> list[Fault]:
            faults = ListQuery.across(values)
            for lowest, highest in pairs:
                low, high = values.get(lowest), values.get(highest)
                if low is not None and high is not None and low > high:
                    faults.append(Fault(lowest, f"must not be greater than {highest}"))
            return faults

        return msgspec.defstruct(
            f"List{self.name}",
            parameters,
            bases=(ListQuery,),
            frozen=True,
            namespace={
                "__doc__": f"The query of GET {self.path}.",
                "across": staticmethod(across),
            },
        )

    def ordering(self) -> list[Any]:
        """The parameters that say how a list is ordered."""
        sorts = (*self.kind.sorts, *([] if CREATED in self.kind.sorts else [CREATED]))
        return [
            ("sort", Annotated[str, choice(*sorts)], sorts[0]),
            ("order", Annotated[str, choice("asc", "desc")], "desc"),
        ]

    def sorted_by(self, query: Any) -> tuple[str, str]:
        """By what a list is sorted, and whether `asc` or `desc`."""
        return query.sort, query.order

    def _condition(self) -> Callable[[Any], tuple[str, Params]]:
        """The condition of a list's query, as SQL and its values; filters by derived fields are
        left to the kind."""
        fields = [self.by_name[name] for name in self.kind.filters]
        equal = [field.name for field in fields if not field.ranged and not field.derived]
        bounds = [(name, field, low) for name, field, low in self.bounds]

        def condition(query: Any) -> tuple[str, Params]:
            terms: list[str] = []
            values: dict[str, object] = {}
            for name in equal:
                if (value := getattr(query, name)) is not None:
                    terms.append(f"{self.column(name)} = :{name}")
                    values[name] = value
            for name, field, low in bounds:
                if (value := getattr(query, name)) is not None:
                    if isinstance(field, DecimalField):
                        value = field.bound(value, up=low)
                    terms.append(f"{self.column(field.name)} {'>=' if low else '<='} :{name}")
                    values[name] = value
            return " AND ".join(terms) or "TRUE", values

        if not equal and not bounds:
            return lambda _query: ("TRUE", {})
        return condition

    @property
    def filed(self) -> Sequence[Field]:
        """The fields of its files, in the order of their columns."""
        return [field for field in self.kind.record.__fields__ if not field.derived]

    @property
    def is_plain(self) -> bool:
        """Whether a change depends on the record alone, and nothing follows it."""
        kind = self.kind
        return not (kind.rules or kind.followers or self.unique or self.references)

    def store(self, env: Environment) -> Any:
        """Its store (`store.Records`) in an environment."""
        return env.stores[self.many]

    def stored(self, row: Any, field: Field) -> Any:
        """The stored value of a field."""
        return getattr(row, self.column(field.name))

    def changed(self, row: Any, values: Mapping[str, Any]) -> Any:
        """The row with these stored values by field. What only differs in the order of names stays
        as it was."""
        for field in self.unordered:
            if text := values.get(field.name):
                stored = self.stored(row, field)
                if stored and text != stored and field.given(text) == field.given(stored):
                    values = {**values, field.name: stored}
        return msgspec.structs.replace(row, **{self.column(name): v for name, v in values.items()})

    def mark_of(self, _row: Any) -> str:
        """What the words of a row begin with in the index."""
        return _MARK

    def texts(self, row: Any) -> list[str]:
        """The mark of a row's words, and the texts that are searched."""
        return [self.mark_of(row), *(self.stored(row, field) or "" for field in self.searched)]

    def words_of(self, row: Any) -> tuple[list[str], list[str]]:
        """The words of the first field that is searched, which counts most, and of the others."""
        mark, first, *others = self.texts(row)
        return (
            [mark + word for word in tokens(first)],
            [mark + word for other in others for word in tokens(other)],
        )

    @property
    def sample_lines(self) -> list[tuple[int, bytes]]:
        """The lines of its samples, with their numbers."""
        if self.kind.samples is None:
            return []
        file = Path(self.kind.place.file).parent / self.kind.samples
        lines = enumerate(file.read_bytes().splitlines(), 1)
        return [(number, line) for number, line in lines if line]

    def sample(self, line: bytes) -> dict[str, Any]:
        """The stored values of a sample. Raises `Unreadable` and `Invalid`."""
        return sent(decode(self.create, line))

    def record(self, row: Any) -> Record:
        """The record that rules get."""
        values: dict[str, Any] = {"id": row.id}
        for field in self.fields:
            stored = self.stored(row, field)
            values[field.name] = None if stored is None else field.given(stored)
        for field in self.derived:
            values[field.name] = field.given(row)
        values[CREATED] = MOMENT.given(row.created_at)
        values["updated_at"] = MOMENT.given(row.updated_at)
        made: Record = self.kind.record(**values)
        return made

    def depended(self, _row: Any) -> tuple[Dependency, ...]:
        """The parts of the data that the lists with this row are."""
        return (self.shows(None),)

    def mark(self, _query: Any) -> str | None:
        """The value by which words are marked and to which a list is limited, if it is."""
        return None

    def shows(self, _query: Any) -> Dependency:
        """The part of the data that a list shows."""
        return ListDependency(self.table_name, "", None)

    def facts(self, _row: Any) -> Details:
        """What the audit log says of a record that is created or deleted."""
        return {}

    def _events(self) -> None:
        """The notes of its changes, and the events that are published for them."""
        body, noun = self.body, self.noun

        def note(deed: str) -> type[RecordNote]:
            facts = staticmethod(self.facts)
            namespace = {
                "action": f"{noun}.{deed}", "target": noun, "published": published, "facts": facts
            }  # fmt: skip
            return types.new_class(
                f"{self.name}{deed.capitalize()}",
                (RecordNote,),
                {"frozen": True},
                lambda body: body.update(namespace),
            )

        def published(event: RecordNote) -> Published | None:
            after = body(event.record)
            if event.before is None:
                return Published(event.action, encode(after).decode())
            before = body(event.before)
            return updated(event.action, before, after)

        self.created, self.updated, self.deleted = map(note, ("created", "updated", "deleted"))
        self.event_types = [f"{noun}.{deed}" for deed in ("created", "updated", "deleted")]
        action = f"{self.many.replace('-', '_')}.imported"
        self.imported: type[RecordsImported] = types.new_class(
            f"{self.name}Imported",
            (RecordsImported,),
            {"frozen": True},
            lambda body: body.update(action=action, target=noun),
        )
        IMPORTED[self.many] = self.imported

    @property
    def resource(self) -> Resource:
        """Its entry among the kinds of resources."""
        many = self.many.replace("-", " ")
        return Resource(
            path=self.many,
            title=self.kind.title,
            about=self.kind.about,
            plural=self.many,
            see=f"See {many}",
            change=f"Create{', change and delete' if self.kind.delete else ' and change'} {many}",
            readers=self.kind.readers,
            writers=self.kind.writers,
        )


class Kinds(Sequence[Compiled]):
    """The kinds of an installation."""

    def __init__(self, kinds: Sequence[Kind[Any]], digest: str) -> None:
        """`digest` stands for the content of their files."""
        self._kinds = [Compiled(kind) for kind in kinds]
        self.digest = digest

    def __getitem__(self, place: Any) -> Any:
        return self._kinds[place]

    def __len__(self) -> int:
        return len(self._kinds)

    def register(self) -> None:
        """Adds their scopes and events to those of this process."""
        for kind in self._kinds:
            PERMISSIONS.add_resource(kind.resource)
            EVENTS.add(kind.event_types, kind.reads)
            field = (kind.listed or kind.fields)[0]
            for name in kind.event_types:
                EVENT_DATA[name] = kind.body_shape
            if kind.kind.files:
                imported, many = kind.imported.action, kind.many.replace("-", " ")
                EVENTS.add([imported], kind.reads)
                shape = imported_shape(f"{kind.name}ImportedBody", many)
                EVENT_DATA[imported] = shape
            EVENT_PREVIOUS[kind.event_types[1]] = {field.name: field.shown_example()}


def _key(field: Field) -> str:
    """The column by which an optional field is sorted: null is below every value."""
    return f"s_{field.name}"


def _key_of(field: Field) -> Callable[[Any], object]:
    name = column(field.name)
    if field.column == "TEXT":
        return lambda row: "" if (value := getattr(row, name)) is None else f"x{value}"
    return lambda row: LOWEST if (value := getattr(row, name)) is None else value


LOWEST = -(2**63)
"""Below every stored number."""


def _answer(field: Field) -> Any:
    return field.answer() | None if field.optional else field.answer()


def _created(field: Field) -> tuple[str, Any]:
    return field.name, Annotated[Any, described(field)]


def _changed(field: Field, *, new: bool = False) -> tuple[str, Any, Any]:
    return field.name, Annotated[Any, described(field, new=new)] | UnsetType, UNSET


def _parameter(field: Field) -> Any:
    parameter = Param(field.parameter(), **field.asked)
    return Annotated[Any, parameter]
