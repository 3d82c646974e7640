"""The notes of changes to records, and the data of the events that are published for them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, ClassVar, Self

import msgspec
from msgspec import Meta

from portico.core.events import Details, Event, Published
from portico.web.envelope import Identifier, encode

EVENT_DATA: dict[str, type[msgspec.Struct]] = {}
"""The shape of `data` by type of event."""

EVENT_PREVIOUS: dict[str, dict[str, Any]] = {}
"""The types that have `previous`, with an example of it."""


class RecordNote(Event, frozen=True):
    """A record was created, changed (then there is a `before`) or deleted. Each kind has its own
    subclasses, with the names of its actions."""

    facts: ClassVar[Callable[[Any], Details]]
    """What is said of a record that was created or deleted."""

    record: Any
    before: Any = None

    @property
    def target_id(self) -> int:
        number: int = self.record.id
        return number

    def published(self) -> Published | None:
        """The event that is published for it, if any."""
        raise NotImplementedError

    @property
    def details(self) -> Details:
        """The names of the fields that differ, except `updated_at`."""
        if self.before is None:
            return type(self).facts(self.record)
        return {
            "fields": [
                name.removeprefix("f_")
                for name, old, new in zip(
                    self.record.__struct_fields__,
                    msgspec.structs.astuple(self.before),
                    msgspec.structs.astuple(self.record),
                    strict=True,
                )
                if old != new and name != "updated_at"
            ]
        }


MOST_IDS = 10_000
"""How many ids of new records, and of changed ones, the note of an import names."""


class RecordsImported(Event, frozen=True):
    """Records were imported from a file. The ids of new and changed ones are from `first_id` to
    `last_id`, both included; `inserted_ids` and `updated_ids` are the lowest `MOST_IDS` of each,
    ascending. Each kind has a subclass, with the name of its action."""

    inserted: int
    updated: int
    first_id: int
    last_id: int
    inserted_ids: Sequence[int]
    updated_ids: Sequence[int]

    @classmethod
    def of(cls, inserted: Sequence[int], updated: Sequence[int]) -> Self:
        """The note of these new and changed records, at least one."""
        every = [*inserted, *updated]
        counts = len(inserted), len(updated)
        return cls(*counts, min(every), max(every), _lowest(inserted), _lowest(updated))

    def plus(self, more: Self) -> Self:
        """The note of both."""
        return type(self)(
            self.inserted + more.inserted,
            self.updated + more.updated,
            min(self.first_id, more.first_id),
            max(self.last_id, more.last_id),
            _lowest([*self.inserted_ids, *more.inserted_ids]),
            _lowest([*self.updated_ids, *more.updated_ids]),
        )

    @property
    def details(self) -> Details:
        return {"inserted": self.inserted, "updated": self.updated}


def _lowest(ids: Iterable[int]) -> Sequence[int]:
    return sorted(ids)[:MOST_IDS]


IMPORTED: dict[str, type[RecordsImported]] = {}
"""The notes of imports, by what the records of the kind are called: `products`."""


def updated(kind: str, before: msgspec.Struct, after: msgspec.Struct) -> Published | None:
    """The event of an update, from the differences of two representations, including derived
    fields; None if they do not differ."""
    old = {
        name: value
        for name in after.__struct_fields__
        if name != "updated_at" and (value := getattr(before, name)) != getattr(after, name)
    }
    return Published(kind, encode(after).decode(), encode(old).decode()) if old else None


def imported_shape(name: str, many: str) -> type[msgspec.Struct]:
    """The data of events about imports of records, which are called `many`."""
    number = Annotated[int, Meta(ge=0, examples=[1])]
    description = f"The first {MOST_IDS:,}, ascending."
    ids = Annotated[
        Sequence[Identifier], Meta(max_length=MOST_IDS, description=description, examples=[[18]])
    ]
    return msgspec.defstruct(
        name,
        [
            ("inserted", number),
            ("updated", number),
            ("first_id", Identifier),
            ("last_id", Identifier),
            ("inserted_ids", ids),
            ("updated_ids", ids),
        ],
        frozen=True,
        namespace={"__doc__": f"How many {many} an import created and updated, and which."},
    )
