"""Many records in one request: `POST /orders/batch`.

Each item stands alone, or all or none is stored (`atomic`). Items that stand alone are tried a
hundred at a time in one transaction, and where one of them is refused, each in its own.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any, ClassVar, Protocol

import msgspec
from msgspec import UNSET, Meta, UnsetType

from portico.core.audit import Author
from portico.core.errors import Conflict, Duplicate, Fault, Invalid, PorticoError, unreadable
from portico.core.ids import MAX_ID
from portico.core.rules import OneOf
from portico.environment import Environment
from portico.web import throttle
from portico.web.envelope import Identifier
from portico.web.fields import Boolean, Items, Text
from portico.web.messages import BodyRequest, Reply, json_reply
from portico.web.problems import status_of
from portico.web.reading import Faults, read_object, sent
from portico.web.routing import BodyRoute

MOST_ITEMS = 1_000
AT_ONCE = 100
"""How many items are stored in one transaction, and count as one request."""


class BatchFault(msgspec.Struct, frozen=True):
    """One thing wrong with one field of an item."""

    field: Annotated[str, Meta(examples=["name"])]
    message: Annotated[str, Meta(examples=["must be 1 to 200 characters long"])]


class BatchRefusal(msgspec.Struct, frozen=True):
    """Why an item was refused, as in the body of an error."""

    code: Annotated[str, Meta(examples=["VALIDATION_ERROR"])]
    message: Annotated[str, Meta(examples=["Some fields have values that are not allowed."])]
    details: list[BatchFault]


class BatchResult(msgspec.Struct, frozen=True):
    """What became of one item."""

    status: Annotated[int, Meta(description="201, 200, 400, 404, 409 or 422.", examples=[201])]
    id: Identifier | UnsetType = UNSET
    error: BatchRefusal | UnsetType = UNSET


class BatchBody(msgspec.Struct, frozen=True):
    """The results, in the order of the items."""

    data: list[BatchResult]


class _AnyObject:
    """An object that is read later."""

    def read(self, value: Any, path: str, faults: Faults) -> Any:
        """See `Kind.read`."""
        if not isinstance(value, dict):
            faults.cannot_read(path, "must be an object")
        return value

    def schema(self) -> dict[str, Any]:
        """See `Kind.schema`."""
        return {"type": "object", "additionalProperties": True}


class Target(Protocol):
    """A kind of records, as a batch stores them. `changing` is what `carry_out` gives to its work:
    a change in progress."""

    create_shape: Any
    change_shape: Any
    unique: Sequence[str]

    async def carry_out(
        self, env: Environment, by: Author, work: Callable[[Any], Awaitable[Any]]
    ) -> Any:
        """Runs `work` as one change; returns its result. Raises `PorticoError`."""
        ...

    async def create(self, changing: Any, values: dict[str, Any]) -> int:
        """Creates a record; returns its id."""
        ...

    async def update(self, changing: Any, row_id: int, values: dict[str, Any]) -> None:
        """Changes a record. Raises `NotFound`."""
        ...

    async def find(self, changing: Any, field: str, value: Any) -> int | None:
        """The id of the record with this value of a unique field."""
        ...


async def _store(target: Target, changing: Any, item: Any, by: str | None) -> BatchResult:
    """Stores one item. Raises `PorticoError`."""
    given = dict(item)
    row_id: int | None = None
    if by == "id" and "id" in given:
        row_id = given.pop("id")
        if type(row_id) is not int or not 0 < row_id <= MAX_ID:
            raise unreadable(Fault("id", "must be an id"))
    elif by is not None and by in given:
        faults = Faults()
        read = read_object(target.change_shape, {by: given[by]}, "", faults)
        faults.check()
        row_id = await target.find(changing, by, read[by])
    faults = Faults()
    if row_id is not None:
        values = read_object(target.change_shape, given, "", faults)
        faults.check()
        await target.update(changing, row_id, values)
        return BatchResult(200, row_id)
    values = read_object(target.create_shape, given, "", faults)
    faults.check()
    return BatchResult(201, await target.create(changing, sent(target.create_shape(**values))))


async def run(
    env: Environment, target: Target, items: Sequence[Any], upsert_by: str | None, by: Author
) -> list[BatchResult]:
    """Stores items that stand alone; returns what became of each."""
    results: list[BatchResult] = []
    for start in range(0, len(items), AT_ONCE):
        some = items[start : start + AT_ONCE]
        try:
            results += await _together(env, target, some, upsert_by, by)
        except PorticoError:
            for item in some:
                try:
                    results += await _together(env, target, [item], upsert_by, by, named=False)
                except PorticoError as error:
                    if status_of(type(error)) not in _OF_AN_ITEM:
                        raise
                    results.append(_refused(error))
    return results


_OF_AN_ITEM = (400, 403, 404, 409, 422)
"""Statuses that say something about an item; with any other the whole request fails."""


def _refused(error: PorticoError) -> BatchResult:
    details = [BatchFault(fault.field, fault.message) for fault in error.details]
    facts = BatchRefusal(error.code, error.message, details)
    return BatchResult(status_of(type(error)), error=facts)


async def _together(
    env: Environment,
    target: Target,
    items: Sequence[Any],
    upsert_by: str | None,
    by: Author,
    *,
    named: bool = True,
) -> list[BatchResult]:
    """Stores all items or none. Raises `PorticoError`, whose faults name the item if `named`."""

    async def work(changing: Any) -> list[BatchResult]:
        made = []
        for number, item in enumerate(items):
            try:
                made.append(await _store(target, changing, item, upsert_by))
            except PorticoError as error:
                if named:
                    error.details = tuple(
                        Fault(f"items.{number}.{fault.field}", fault.message)
                        for fault in error.details
                    )
                raise
        return made

    made: list[BatchResult] = await target.carry_out(env, by, work)
    return made


def route(path: str, access: str, words: str, name: str, target: Target) -> BodyRoute[Any]:
    """The route of batches of a kind; `name` begins the name of its body's shape."""
    keys = ("id", *target.unique)
    shape: Any = msgspec.defstruct(
        f"Batch{name}",
        [
            ("items", Annotated[list[Any], Items(_AnyObject(), most=MOST_ITEMS, least=1)]),
            ("upsert_by", Annotated[str, Text(OneOf(keys))] | UnsetType, UNSET),
            ("atomic", Annotated[bool, Boolean()], False),
        ],
        namespace={
            "__doc__": f"The body of POST {path}.",
            "EXAMPLE": {"items": [getattr(target.create_shape, "EXAMPLE", {})]},
            "__annotations__": {"EXAMPLE": ClassVar[Any]},
        },
    )

    async def store(request: BodyRequest[Any]) -> Reply:
        body, env = request.body, request.environment
        more = -(-len(body.items) // AT_ONCE) - 1
        if more:
            await throttle.more(request, more)
        upsert_by = None if body.upsert_by is UNSET else body.upsert_by

        def reply(made: list[BatchResult]) -> Reply:
            return json_reply(200, BatchBody(made))

        by = request.answering(reply)
        if body.atomic:
            return reply(await _together(env, target, body.items, upsert_by, by))
        made = await run(env, target, body.items, upsert_by, request.by)
        if request.keyed is not None:
            await env.change(by, _noted_elsewhere(made))
        return reply(made)

    store.__name__ = f"store_{path.split('/')[1].replace('-', '_')}"  # the operation's id
    return BodyRoute(
        method="POST",
        path=path,
        handler=store,
        access=access,
        summary=f"Store many {words}",
        description="Each item is a body as for one; it stands alone, unless `atomic` is set. With"
        " `upsert_by`, an item changes the record that has its value of that field, if there is"
        " one. Every hundred items begun count as one request.",
        body=shape,
        most_values=MOST_ITEMS * 200,
        answer=BatchBody,
        errors=(Duplicate, Conflict, Invalid),
        repeatable=True,
    )


def _noted_elsewhere(made: Any) -> Callable[[Any], Awaitable[Any]]:
    async def work(change: Any) -> Any:
        await change.check()
        change.noted_elsewhere()
        return made

    return work
