"""What a file declares: records, their fields, kinds, and the rules of changes.

`portico.kinds` is the public face of this module. Nothing here raises: a fault is kept with its
place, and `loading` reports all of them at once.
"""

import inspect
import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from portico.resource.fields import Field

R = TypeVar("R", bound="Record")


class Place(NamedTuple):
    """Where something is declared."""

    file: str
    line: int


def caller(depth: int = 2) -> Place:
    """The place from which the function that asks was called."""
    frame = sys._getframe(depth)  # noqa: SLF001 - how dataclasses and typing find their caller too
    return Place(frame.f_code.co_filename, frame.f_lineno)


class Refused(Exception):
    """Refuses a change: 422, with a message for each field, which continues the field's name."""

    def __init__(self, **fields: str) -> None:
        super().__init__(", ".join(f"{name} {message}" for name, message in fields.items()))
        self.fields = fields


class Conflict(Exception):
    """Refuses a change because of the state that something is in: 409."""


class Forbidden(Exception):
    """Refuses a change to this caller: 403."""


class Record:
    """A record of a kind. Its fields are declared as class attributes by the makers of
    `portico.kinds`. Records do not change: `replace` makes another one.

    Every record of a kind has `id`, `created_at` and `updated_at` besides.
    """

    __fields__: ClassVar[tuple[Field, ...]] = ()
    __place__: ClassVar[Place] = Place("", 0)
    __unmade__: ClassVar[tuple[str, ...]] = ()
    """Annotated names without a maker."""

    id: int
    created_at: Any
    updated_at: Any

    def __init_subclass__(cls) -> None:
        own = tuple(value for value in vars(cls).values() if isinstance(value, Field))
        cls.__fields__ = (*cls.__fields__, *own)
        cls.__place__ = caller()
        named = inspect.get_annotations(cls)  # Python 3.14 keeps them elsewhere
        cls.__unmade__ = tuple(name for name in named if not isinstance(vars(cls).get(name), Field))

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a record does not change: use replace({name}=…)")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # some of its values have none

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"

    def replace(self, **values: Any) -> Self:
        """The record with these values."""
        if unknown := values.keys() - {field.name for field in self.__fields__}:
            raise AttributeError(f"{type(self).__name__} has no field {min(unknown)}")
        return type(self)(**(vars(self) | values))


BeforeChange = Callable[[Any, Any, Any], Awaitable[Any]]
AfterCommit = Callable[[Any, Any, Any], Awaitable[Any]]
B = TypeVar("B", bound=BeforeChange)

_loading: list["Kind[Any]"] = []
"""The kinds of the files that are being loaded."""


def take_declared() -> list["Kind[Any]"]:
    """The kinds that were declared since the last call, in their order."""
    taken = [*_loading]
    _loading.clear()
    return taken


class Kind(Generic[R]):
    """A kind of records, and who may do what with them."""

    def __init__(
        self,
        record: type[R],
        *,
        one: str,
        many: str,
        title: str = "",
        about: str = "",
        readers: Collection[str] = (),
        writers: Collection[str] = (),
        filters: Sequence[str] = (),
        sorts: Sequence[str] = (),
        delete: bool = True,
        files: bool = True,
        samples: str | None = None,
    ) -> None:
        """`one` and `many` name a record and all of them: `order`, `orders`. `many` is the path and
        the noun of the scopes. `title` heads its pages; `readers` and `writers` are roles, besides
        `admin`. `filters` and `sorts` are fields; the first sort is the default, without any the
        newest come first. `delete` and `files` say whether records can be deleted, imported and
        exported. `samples` is an NDJSON file beside this one, for resets of the sandbox.
        """
        self.record = record
        self.one = one
        self.many = many
        self.title = title or many.replace("-", " ").capitalize()
        self.about = about or _first_line(record) or f"{self.title}."
        self.readers = tuple(readers)
        self.writers = tuple(writers)
        self.filters = tuple(filters)
        self.sorts = tuple(sorts)
        self.delete = delete
        self.files = files
        self.samples = samples
        self.place = caller()
        self.rules: list[BeforeChange] = []
        self.followers: list[AfterCommit] = []
        _loading.append(self)

    def before_change(self, rule: B) -> B:
        """Adds a rule: `async def rule(change, before, after)`, called in the transaction of every
        change of a record. `before` is None at a creation, `after` at a deletion. It may return
        another `after`, and raise `Refused`, `Conflict` and `Forbidden`. It may run more than once
        for one change, where the database asks for the transaction to be repeated."""
        self.rules.append(rule)
        return rule

    def after_commit(self, follower: B) -> B:
        """Adds what follows a change: `async def follower(portico, before, after)`, called after
        the answer, once, on the host that made the change. If it fails, that is logged."""
        self.followers.append(follower)
        return follower


def _first_line(record: type[Record]) -> str:
    return (record.__doc__ or "").strip().partition("\n")[0]
