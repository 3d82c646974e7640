"""The endpoints of a kind. Its handlers are made once and know their kind."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from portico.core.errors import Conflict, Duplicate, Fault, Invalid, NotFound, PreconditionFailed
from portico.data.database import Dependency
from portico.resource.batches import route as batches
from portico.resource.changes import change_faults, change_record, create_record, delete_record
from portico.resource.compiled import Compiled
from portico.resource.fields import JsonField
from portico.web.conditions import etag_header, precondition
from portico.web.envelope import Created, Listed, Single
from portico.web.lists import list_reply, start_of
from portico.web.messages import BodyRequest, QueryRequest, Reply, Request, json_reply
from portico.web.reading import sent
from portico.web.routing import AnyRoute, BodyRoute, QueryRoute, Route


@cache
def routes(kind: Compiled) -> Sequence[AnyRoute]:
    """The endpoints of a kind."""
    path, words = kind.path, kind.words
    many = kind.many.replace("-", " ")
    item, body = kind.item, kind.body

    async def list_records(request: QueryRequest[Any]) -> Reply:
        start = start_of(request)
        records = kind.store(request.environment)
        page = await records.listed(request.query, start.offset, start.behind)
        return list_reply(request, path, start, page, [*map(item, page.rows)])

    def shows(request: QueryRequest[Any]) -> Dependency:
        return kind.shows(request.query)

    async def read_record(request: Request) -> Reply:
        row = await kind.store(request.environment).get(request.resource_id)
        if row is None:
            raise NotFound(f"There is no {words} {request.resource_id}.")
        return json_reply(200, Single(body(row)))

    async def create(request: BodyRequest[Any]) -> Reply:
        base = request.environment.addresses.base

        def reply(row: Any) -> Reply:
            location = ("location", f"{base}{path}/{row.id}")
            shown = body(row)
            return json_reply(201, Created(shown, shown.message), location, etag_header(shown))

        by = request.answering(reply)
        return reply(await create_record(request.environment, kind, sent(request.body), by))

    async def change(request: BodyRequest[Any]) -> Reply:
        row = await change_record(
            request.environment,
            kind,
            request.resource_id,
            sent(request.body),
            precondition(request, body),
            request.by,
        )
        shown = body(row)
        return json_reply(200, Single(shown), etag_header(shown))

    async def further_faults(request: Request, values: Mapping[str, Any]) -> list[Fault]:
        row = await kind.store(request.environment).get(request.resource_id)
        return [] if row is None else change_faults(kind, row, values)

    async def delete(request: Request) -> Reply:
        check = precondition(request, body)
        await delete_record(request.environment, kind, request.resource_id, check, request.by)
        return Reply(204)

    refused = (*((Duplicate,) if kind.unique else ()), *((Conflict,) if kind.kind.rules else ()))
    replaced = [f"`{field.name}`" for field in kind.fields if isinstance(field, JsonField)]
    whole = f"{' and '.join(replaced)} are replaced as a whole" if replaced else ""
    noun = kind.noun
    for handler, name in (
        (list_records, f"list_{kind.path[1:].replace('-', '_')}"),
        (read_record, f"read_{noun}"),
        (create, f"create_{noun}"),
        (change, f"change_{noun}"),
        (delete, f"delete_{noun}"),
    ):
        handler.__name__ = name  # the operation's id
    found: list[AnyRoute] = [
        QueryRoute(
            method="GET",
            path=path,
            handler=list_records,
            access=kind.reads,
            summary=f"List {many}",
            description=kind.about_list,
            query=kind.query,
            answer=Listed[kind.item_shape],  # type: ignore[name-defined]  # made at the start
            shows=shows,
        ),
        Route(
            method="GET",
            path=f"{path}/{{id}}",
            handler=read_record,
            access=kind.reads,
            summary=f"Read {kind.an}",
            answer=Single[kind.body_shape],  # type: ignore[name-defined]  # as above
            errors=(NotFound,),
        ),
        BodyRoute(
            method="POST",
            path=path,
            handler=create,
            access=kind.writes,
            summary=f"Create {kind.an}",
            status=201,
            body=kind.create,
            answer=Created[kind.body_shape],  # type: ignore[name-defined]  # as above
            errors=(*refused, Invalid),
            location=True,
            repeatable=True,
        ),
        BodyRoute(
            method="PATCH",
            path=f"{path}/{{id}}",
            handler=change,
            access=kind.writes,
            summary=f"Change {kind.an}",
            description=f"Omitted fields stay as they are{'; ' + whole if whole else ''}.",
            body=kind.change,
            further_faults=further_faults,
            answer=Single[kind.body_shape],  # type: ignore[name-defined]  # as above
            errors=(NotFound, *refused, PreconditionFailed, Invalid),
            conditional=True,
        ),
    ]
    found.append(batches(kind))
    if kind.kind.delete:
        found.append(
            Route(
                method="DELETE",
                path=f"{path}/{{id}}",
                handler=delete,
                access=kind.writes,
                summary=f"Delete {kind.an}",
                status=204,
                errors=(NotFound, Conflict, PreconditionFailed),
                conditional=True,
            )
        )
    return found
