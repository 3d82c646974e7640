"""What the account has allowed OAuth clients to do."""

from portico.domain.errors import NotFound
from portico.domain.oauth import Client
from portico.http.messages import Reply
from portico.pages.site import PageRoute, Visit
from portico.services.environment import Environment
from portico.services.sign_out import end_grant
from portico.storage.grants import Grant


async def _granted(visit: Visit) -> list[tuple[Grant, Client]]:
    owner = await visit.owner()
    return [] if owner is None else await granted_by(visit.env, owner.id, visit.request.now)


async def granted_by(env: Environment, user_id: int, now: int) -> list[tuple[Grant, Client]]:
    """What an account has allowed, and to whom."""
    clients = {client.id: client for client in await env.clients.all()}
    grants = await env.grants.of_user(user_id, now)
    return [
        (grant, clients[grant.client_row_id]) for grant in grants if grant.client_row_id in clients
    ]


async def show(visit: Visit) -> Reply:
    """GET /applications."""
    return visit.page("applications.html", "Applications", grants=await _granted(visit))


async def ask_revoke(visit: Visit) -> Reply:
    """GET /applications/revoke."""
    grant_id = visit.sent_id()
    for grant, client in await _granted(visit):
        if grant.id == grant_id:
            return visit.asks(
                f"Revoke the access of {client.name}?",
                "It can no longer act for you, until you allow it again.",
                words="Revoke access",
                danger=True,
                action="/applications/revoke",
                back=("/applications", "Applications"),
                id=grant_id,
            )
    raise NotFound("You have granted no such access.")


async def revoke(visit: Visit) -> Reply:
    """POST /applications/revoke."""
    by = await visit.by()
    await end_grant(visit.env, visit.sent_id(), by, of_user=by.actor.user_id or 0)
    return visit.go("/applications", done="application-revoked")


PAGES = (
    PageRoute("GET", "/applications", show),
    PageRoute("GET", "/applications/revoke", ask_revoke),
    PageRoute("POST", "/applications/revoke", revoke),
)
