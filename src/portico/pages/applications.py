"""The OAuth clients that may act for the account, and their scopes."""

from portico.domain.errors import NotFound
from portico.domain.oauth import Client
from portico.http.messages import Reply
from portico.pages.filters import named
from portico.pages.paging import PER_PAGE, numbered, offset_of, page_of
from portico.pages.site import PageRoute, Visit
from portico.services.environment import Environment
from portico.services.sign_out import end_grant
from portico.storage.clients import Clients
from portico.storage.grants import Grant, Grants
from portico.storage.listing import Page


async def granted_by(
    env: Environment, user_id: int, now: int, *, page: int = 1
) -> Page[tuple[Grant, Client]]:
    """A page of an account's grants, each with its client."""
    grants = await env[Grants].of_clients(user_id, now, offset=offset_of(page), limit=PER_PAGE)
    allowed = [(one, client) for one in grants.rows if (client := await _client_of(env, one))]
    return Page(allowed, grants.total)


async def _client_of(env: Environment, grant: Grant) -> Client | None:
    return await env[Clients].get(grant.client_row_id) if grant.client_row_id else None


async def show(visit: Visit) -> Reply:
    """GET /applications."""
    owner = await visit.owner()

    async def on(page: int) -> Page[tuple[Grant, Client]]:
        if owner is None:
            return Page([], 0)
        return await granted_by(visit.env, owner.id, visit.request.now, page=page)

    page, grants = await page_of(visit, on)
    return visit.page(
        "applications.html",
        "Applications",
        grants=grants.rows,
        **numbered(page, grants.total),
    )


async def ask_revoke(visit: Visit) -> Reply:
    """GET /applications/revoke."""
    env, owner = visit.env, await visit.owner()
    grant = await env[Grants].get(visit.sent_id())
    if (
        grant is not None
        and owner is not None
        and grant.user_id == owner.id
        and grant.lives(visit.request.now)
        and (client := await _client_of(env, grant))
    ):
        return visit.asks(
            f"Revoke the access of {named(client.name, client.id)}?",
            "It can no longer access your account until you allow it again.",
            words="Revoke access",
            danger=True,
            action="/applications/revoke",
            back=("/applications", "Applications"),
            id=grant.id,
        )
    raise NotFound(
        "This application has no access to your account. You may have revoked it already."
    )


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
