"""The endpoints of events, and of the audit log."""

from collections.abc import AsyncGenerator
from contextlib import suppress
from functools import lru_cache

from portico.core.caller import Principal
from portico.core.errors import Gone, PermissionDenied
from portico.core.events import EVENT_SCOPES, EVENT_TYPES, StoredEvent, covered_by
from portico.core.times import SECOND
from portico.features.events.audit import Audit
from portico.features.events.feed import Follower, Subscriptions, read_events, require_kept
from portico.features.events.payloads import (
    EventPagination,
    ListedEvents,
    ListEvents,
    StreamedEvents,
    StreamEvents,
    event_body,
)
from portico.features.events.schemas import ListAudit, ListedAudit, entry_out
from portico.features.events.storage import Events
from portico.web.envelope import encode
from portico.web.lists import next_link
from portico.web.messages import QueryRequest, Reply, json_reply
from portico.web.routing import Access, QueryRoute
from portico.web.streams import (
    EVENT_STREAM,
    event_bytes,
    event_stream,
    last_event_id,
    position_bytes,
)

COMMENT_SECONDS = 15.0
"""The longest silence on a stream; a comment is sent then."""


SETTLED = 10 * SECOND
"""How late entries are shown on PostgreSQL, in milliseconds: longer than a transaction takes from
writing its entries to its commit."""


def permitted_types(caller: Principal, asked: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The types of events that the caller gets, of those requested in `asked`; None for every type.
    Raises `PermissionDenied` if the scopes cover none, or not all that are requested."""
    covered = covered_by(caller.scopes)
    if asked is None:
        if not covered:
            raise PermissionDenied(
                "Reading events needs the scope read:products, read:users or admin.",
                scope="read:products",
            )
        return None if len(covered) == len(EVENT_TYPES) else covered
    if beyond := [name for name in asked if name not in covered]:
        scope = EVENT_SCOPES[beyond[0]]
        raise PermissionDenied(f"Events of type {beyond[0]} need the scope {scope}.", scope=scope)
    return asked


def _permit_any_type(caller: Principal, _id: int) -> None:
    permitted_types(caller, None)


async def list_events(request: QueryRequest[ListEvents]) -> Reply:
    """GET /events."""
    query = request.query
    types = permitted_types(request.caller, query.type)
    page = await read_events(request.environment[Events], query.after, types, query.limit)
    last = page.rows[-1].id if page.rows else query.after
    pages = EventPagination(query.limit, page.has_more, last)
    body = ListedEvents([event_body(event) for event in page.rows], pages)
    links = [next_link(request, "/events", after=str(last))] if page.has_more else []
    return json_reply(200, body, *links)


async def stream_events(request: QueryRequest[StreamEvents]) -> Reply:
    """GET /events/stream."""
    env, query = request.environment, request.query
    types = permitted_types(request.caller, query.type)
    last = last_event_id(request)
    after = query.after if last is None else last
    if after:
        await require_kept(env[Events], after)
    follower = await env[Subscriptions].open(request.caller, after, types)
    return event_stream(_chunks(follower), lambda: env[Subscriptions].close(follower))


async def _chunks(follower: Follower) -> AsyncGenerator[bytes, None]:
    """The events for a follower, until it ends. The comments in between also carry the position, so
    that a client that got no event yet misses none when it reconnects."""
    yield position_bytes(follower.position)
    with suppress(Gone):  # the client gets this error when it reconnects
        while not follower.ended:
            events = await follower.take(COMMENT_SECONDS)
            for event in events:
                yield _streamed(event)
            if not events and not follower.ended:
                yield position_bytes(follower.position)


@lru_cache(maxsize=64)
def _streamed(event: StoredEvent) -> bytes:
    """An event on the wire, cached because every follower gets the same."""
    return event_bytes(event.id, event.type, encode(event_body(event)).decode())


async def list_audit(request: QueryRequest[ListAudit]) -> Reply:
    """GET /audit."""
    query = request.query
    entries = await request.environment[Audit].after(
        query.after,
        action=query.action,
        actor_id=query.actor_id,
        target=query.target,
        settled=request.now - SETTLED,
        limit=query.limit + 1,
    )
    shown = entries[: query.limit]
    last = shown[-1].id if shown else query.after
    has_more = len(entries) > query.limit
    body = ListedAudit(
        [entry_out(entry) for entry in shown], EventPagination(query.limit, has_more, last)
    )
    links = [next_link(request, "/audit", after=str(last))] if has_more else []
    return json_reply(200, body, *links)


ROUTES = (
    QueryRoute(
        method="GET",
        path="/events",
        handler=list_events,
        access=Access.ANY_CALLER,
        permit=_permit_any_type,
        summary="List events",
        description="Oldest first. A client that passes `last_id` as the next `after` misses no"
        " event and gets none twice. It gets the events that its scopes cover: those of products"
        " with `read:products`, of users with `read:users`, and all others with `admin`.",
        query=ListEvents,
        answer=ListedEvents,
        errors=(PermissionDenied, Gone),
    ),
    QueryRoute(
        method="GET",
        path="/events/stream",
        handler=stream_events,
        access=Access.ANY_CALLER,
        permit=_permit_any_type,
        summary="Follow events",
        description="Sends events as they happen, as Server-Sent Events. The client gets the same"
        " events as from the list. If it reconnects with `Last-Event-ID`, it misses none and gets"
        " none twice. A stream counts as one request, a refused one too, and ends when the"
        " credential does. An account can have at most ten streams.",
        query=StreamEvents,
        answer=StreamedEvents,
        media=EVENT_STREAM,
        no_store=True,
        errors=(PermissionDenied, Gone),
    ),
)

AUDIT_ROUTES = (
    QueryRoute(
        method="GET",
        path="/audit",
        handler=list_audit,
        access="admin",
        summary="Read the audit log",
        description="Oldest first. A client that passes `last_id` as the next `after` misses no"
        " entry and gets none twice. Entries come up to ten seconds late.",
        query=ListAudit,
        answer=ListedAudit,
        errors=(Gone,),
    ),
)
