"""The endpoints of events."""

from portico.contract.events import (
    EventPages,
    ListedEvents,
    ListEvents,
    event_body,
)
from portico.domain.caller import Principal
from portico.domain.errors import Gone, PermissionDenied
from portico.domain.published import EVENT_SCOPES, EVENT_TYPES, covered_by
from portico.http.messages import QueryRequest, Reply, json_reply
from portico.http.routing import Access, QueryRoute
from portico.services.events import read_events


def seen(caller: Principal, asked: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The types of events that a caller is to see, of those that they ask for; None for every
    type. Raises `PermissionDenied` where the scopes cover none, or not all that is asked for."""
    covered = covered_by(caller.scopes)
    if asked is None:
        if not covered:
            raise PermissionDenied(
                "Events are seen with read:products, read:users or admin.", scope="read:products"
            )
        return None if covered == EVENT_TYPES else covered
    if beyond := [name for name in asked if name not in covered]:
        scope = EVENT_SCOPES[beyond[0]]
        raise PermissionDenied(f"Events of type {beyond[0]} need the scope {scope}.", scope=scope)
    return asked


async def list_events(request: QueryRequest[ListEvents]) -> Reply:
    """GET /events."""
    query = request.query
    types = seen(request.caller, query.type)
    page = await read_events(request.environment, query.after, types, query.limit)
    last = page.rows[-1].id if page.rows else query.after
    pages = EventPages(query.limit, page.has_more, last)
    return json_reply(200, ListedEvents([event_body(event) for event in page.rows], pages))


ROUTES = (
    QueryRoute(
        method="GET",
        path="/events",
        handler=list_events,
        access=Access.ANY_CALLER,
        summary="List events",
        description="The oldest first. Whoever passes `last_id` as the next `after` misses no event"
        " and sees none twice. One sees what one's scopes cover: those of products with"
        " `read:products`, of users with `read:users`, the rest with `admin`.",
        query=ListEvents,
        answer=ListedEvents,
        errors=(PermissionDenied, Gone),
    ),
)
