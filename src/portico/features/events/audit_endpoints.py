"""The endpoint of the audit log."""

from portico.core.errors import Gone
from portico.core.times import SECOND
from portico.features.events.audit import Audit
from portico.features.events.payloads import EventPagination
from portico.features.events.schemas import ListAudit, ListedAudit, entry_out
from portico.web.lists import next_link
from portico.web.messages import QueryRequest, Reply, json_reply
from portico.web.routing import QueryRoute

SETTLED = 10 * SECOND
"""How late entries are shown on PostgreSQL, in milliseconds: longer than a transaction takes from
writing its entries to its commit."""


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
    return json_reply(
        200, body, *([next_link(request, "/audit", after=str(last))] if has_more else [])
    )


ROUTES = (
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
