"""Many records in one request: `POST /orders/batch`.

Each item stands alone, or all or none is stored (`atomic`). Items that stand alone are tried a
hundred at a time in one transaction, and where one of them is refused, each in its own.
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import (
    Conflict,
    Duplicate,
    Fault,
    Internal,
    Invalid,
    PorticoError,
    unreadable,
)
from portico.core.ids import MAX_ID
from portico.core.rules import OneOf
from portico.environment import Environment
from portico.resource.changes import Changing, RulesTooSlow, carry_out
from portico.resource.compiled import Compiled, named
from portico.web import throttle
from portico.web.envelope import Identifier
from portico.web.fields import Boolean, Items, Text
from portico.web.messages import BodyRequest, Reply, json_reply
from portico.web.problems import status_of
from portico.web.reading import Faults, read_object, sent
from portico.web.routing import BodyRoute

log = logging.getLogger(__name__)

MOST_ITEMS = 1_000
AT_ONCE = 100
"""How many items are stored in one transaction at most, and count as one request."""

SECONDS = 0.25
"""After how long a transaction ends before the next item: others wait for it."""


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

    status: Annotated[
        int, Meta(description="As for one alone: 201, 200, or that of an error.", examples=[201])
    ]
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


async def _store(kind: Compiled, changing: Changing, item: Any, by: str | None) -> BatchResult:
    """Stores one item. Raises `PorticoError`."""
    given = dict(item)
    row_id: int | None = None
    if by == "id" and "id" in given:
        row_id = given.pop("id")
        if type(row_id) is not int or not 0 < row_id <= MAX_ID:
            raise unreadable(Fault("id", "must be an id"))
    elif by is not None and by in given:
        value = _read(kind.change, {by: given[by]})[by]
        sql = f"SELECT id FROM {kind.table_name} WHERE {kind.column(by)} = :value"
        found = await changing.change.tx.one(sql, {"value": value})
        row_id = found[0] if found else None
    changing.begin()
    if row_id is not None:
        await changing.update(kind, row_id, _read(kind.change, given))
        return BatchResult(200, row_id)
    made = await changing.create(kind, sent(kind.create(**_read(kind.create, given))))
    return BatchResult(201, made.id)


def _read(shape: Any, given: dict[str, Any]) -> dict[str, Any]:
    faults = Faults()
    values: dict[str, Any] = read_object(shape, given, "", faults)
    faults.check()
    return values


async def run(
    env: Environment, kind: Compiled, items: Sequence[Any], upsert_by: str | None, by: Author
) -> list[BatchResult]:
    """Stores items that stand alone; returns what became of each."""
    results: list[BatchResult] = []
    while len(results) < len(items):
        some = items[len(results) : len(results) + AT_ONCE]
        try:
            results += await _together(env, kind, some, upsert_by, by)
        except Exception:  # noqa: BLE001 - whatever a rule raises
            results += [await _apart(env, kind, item, upsert_by, by) for item in some]
    return results


async def _apart(
    env: Environment, kind: Compiled, item: Any, upsert_by: str | None, by: Author
) -> BatchResult:
    try:
        [result] = await _together(env, kind, [item], upsert_by, by)
    except PorticoError as error:
        if status_of(type(error)) not in _OF_AN_ITEM and not isinstance(error, RulesTooSlow):
            raise
        return _refused(error)
    except Exception:
        log.exception("An item of a batch of %s failed.", kind.many)
        return _refused(Internal("An unexpected error occurred; it is in the server's log."))
    return result


_OF_AN_ITEM = (400, 403, 404, 409, 422)
"""Statuses that say something about an item, as does `RulesTooSlow`; with any other error the whole
request fails."""


def _refused(error: PorticoError) -> BatchResult:
    details = [BatchFault(fault.field, fault.message) for fault in error.details]
    facts = BatchRefusal(error.code, error.message, details)
    return BatchResult(status_of(type(error)), error=facts)


async def _together(
    env: Environment,
    kind: Compiled,
    items: Sequence[Any],
    upsert_by: str | None,
    by: Author,
    *,
    atomic: bool = False,
) -> list[BatchResult]:
    """Stores items, or none. All of them if `atomic`: then the faults of the `PorticoError` that is
    raised name the item. Else perhaps not the last ones, where rules take long."""
    loop = asyncio.get_running_loop()

    async def work(changing: Changing) -> list[BatchResult]:
        changing.in_bulk = atomic
        made: list[BatchResult] = []
        ends = loop.time() + SECONDS
        for number, item in enumerate(items):
            if made and not atomic and loop.time() >= ends:
                break
            try:
                made.append(await _store(kind, changing, item, upsert_by))
            except PorticoError as error:
                if atomic:
                    error.details = tuple(
                        Fault(f"items.{number}.{fault.field}", fault.message)
                        for fault in error.details
                    )
                raise
        if not changing.change.noted:  # every item was as it is stored
            changing.change.noted_elsewhere()
        return made

    made: list[BatchResult] = await carry_out(env, by, work)
    return made


def route(kind: Compiled) -> BodyRoute[Any]:
    """The route of batches of a kind."""
    path, many = f"{kind.path}/batch", kind.many.replace("-", " ")
    keys = ("id", *(field.name for field in kind.unique))
    shape: Any = msgspec.defstruct(
        f"Batch{named(kind.many)}",
        [
            ("items", Annotated[list[Any], Items(_AnyObject(), most=MOST_ITEMS, least=1)]),
            ("upsert_by", Annotated[str, Text(OneOf(keys))] | UnsetType, UNSET),
            ("atomic", Annotated[bool, Boolean()], False),
        ],
        namespace={
            "__doc__": f"The body of POST {path}.",
            "EXAMPLE": {"items": [kind.create.EXAMPLE]},
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
            return reply(await _together(env, kind, body.items, upsert_by, by, atomic=True))
        made = await run(env, kind, body.items, upsert_by, request.by)

        async def keep(change: Change) -> list[BatchResult]:
            await change.check()
            change.noted_elsewhere()
            return made

        if request.keyed is not None:
            await env.change(by, keep)
        return reply(made)

    store.__name__ = f"store_{kind.many.replace('-', '_')}"  # the operation's id
    return BodyRoute(
        method="POST",
        path=path,
        handler=store,
        access=kind.writes,
        summary=f"Store many {many}",
        description="Each item is a body as for one; it stands alone, unless `atomic` is set. With"
        " `upsert_by`, an item changes the record that has its value of that field, if there is"
        " one. Every hundred items begun count as one request.",
        body=shape,
        most_values=MOST_ITEMS * 200,
        answer=BatchBody,
        errors=(Duplicate, Conflict, Invalid),
        repeatable=True,
    )
