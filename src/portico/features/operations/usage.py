"""`GET /usage`: how many requests an account made, by hour, day or month."""

from collections.abc import Mapping
from itertools import groupby
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from portico.core.errors import Fault, PermissionDenied, unreadable
from portico.core.rules import Measured
from portico.core.times import moment, month_of, month_of_day, month_start
from portico.environment import Environment
from portico.features.operations.requests import DAYS, HOURS, Requests, Usage
from portico.web.envelope import Single, Timestamp, timestamp
from portico.web.lists import UserId, choice
from portico.web.messages import QueryRequest, Reply, json_reply
from portico.web.reading import Param
from portico.web.routing import Access, QueryRoute


class UsageRow(msgspec.Struct, frozen=True):
    """The requests of an hour, a day or a month."""

    start: Timestamp
    requests: Annotated[int, Meta(ge=1, description="All of them.", examples=[1204])]
    refused: Annotated[int, Meta(ge=0, description="Those answered 429.", examples=[3])]
    cost: Annotated[int, Meta(ge=0, description="What they took of the limits.", examples=[1290])]


def _moment(description: str) -> Any:
    return Annotated[
        int | None, Param(moment, type="string", format="date-time", description=description)
    ]


def _across(values: Mapping[str, Any]) -> list[Fault]:
    since, until = values.get("from"), values.get("to")
    if since is not None and until is not None and until <= since:
        return [Fault("to", "must be after from")]
    return []


_SERVICE = Param(Measured(1, 100), type="string", examples=["invoices"])


ListUsage: Any = msgspec.defstruct(
    "ListUsage",
    [  # `from` cannot be the name of a field in a class
        ("from", _moment("By default, and at the earliest, as far back as is kept."), None),
        ("to", _moment("Exclusive. By default now."), None),
        ("by", Annotated[str, choice("hour", "day", "month")], "day"),
        ("user_id", UserId, None),
        ("key_id", UserId, None),
        ("service", Annotated[str | None, _SERVICE], None),
    ],
    frozen=True,
    namespace={"__doc__": "The query of GET /usage.", "across": staticmethod(_across)},
)


async def list_usage(request: QueryRequest[Any]) -> Reply:
    """GET /usage."""
    query, caller = request.query, request.caller
    user_id = query.user_id or caller.user_id
    if user_id != caller.user_id and "admin" not in caller.scopes:
        raise PermissionDenied("The usage of others needs the scope admin.", scope="admin")
    rows = await _rows(request.environment, user_id, request.now, query)
    return json_reply(200, Single(rows))


async def _rows(env: Environment, user_id: int, now: int, query: Any) -> list[UsageRow]:
    since = max(getattr(query, "from") or 0, 0)
    until = min(query.to or now + 1, now + 1)
    service: str | None = query.service
    if service is not None and service not in env.settings.declared.services:
        raise unreadable(Fault("service", "is not declared"))
    span = HOURS if query.by == "hour" else DAYS
    if query.by == "month":
        since = month_start(month_of(since))
        until = month_start(month_of(until - 1) + 1)
    found = await env[Requests].usage(
        span,
        user_id,
        now,
        since=since // span.milliseconds,
        until=-(-until // span.milliseconds),
        key_id=query.key_id,
        service=service,
    )
    if query.by != "month":
        return [_row(one.unit * span.milliseconds, [one]) for one in found]
    months = groupby(found, lambda one: month_of_day(one.unit))
    return [_row(month_start(month), list(days)) for month, days in months]


def _row(start: int, parts: list[Usage]) -> UsageRow:
    return UsageRow(
        timestamp(start),
        sum(one.requests for one in parts),
        sum(one.refused for one in parts),
        sum(one.cost for one in parts),
    )


ROUTES = (
    QueryRoute(
        method="GET",
        path="/usage",
        handler=list_usage,
        access=Access.ANY_CALLER,
        summary="Read usage",
        description="How many requests an account made, by default the caller's own; others' need"
        " the scope `admin`. Oldest first, without hours, days and months that had none; at most"
        f" ten seconds late. Hours are kept for {HOURS.units // 24} days, days for {DAYS.units}.",
        query=ListUsage,
        answer=Single[list[UsageRow]],
        errors=(PermissionDenied,),
    ),
)
