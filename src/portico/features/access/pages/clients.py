"""OAuth clients, for admins: register, change, create a new secret, delete."""

from collections.abc import Awaitable, Iterable

from portico.core.audit import Author
from portico.core.errors import NotFound, PreconditionFailed
from portico.core.oauth import Client
from portico.core.rules import OneOf
from portico.core.scopes import SCOPES
from portico.data.listing import Page
from portico.environment import Environment
from portico.features.access.clients import (
    Registered,
    Registration,
    change_client,
    checked,
    delete_client,
    register_client,
    renew_secret,
)
from portico.features.access.storage import AllowedApplication, Clients, Grants
from portico.features.signin.pages.step_up import fresh
from portico.features.signin.service import end_application
from portico.web.messages import Reply
from portico.web.pages.forms import Values, beside, outcome, require_version
from portico.web.pages.html import in_order, named, scope_words
from portico.web.pages.paging import PER_PAGE, numbered, offset_of, page_of
from portico.web.pages.sent_once import fresh_key, sent_once, shown_once
from portico.web.pages.site import PageRoute, Visit

_KINDS = (
    ("confidential", "Confidential", "Runs on a server that can keep a secret."),
    ("public", "Public", "Runs on a user's device or in a browser, with PKCE and no secret."),
)


async def show_all(visit: Visit) -> Reply:
    """GET /clients: the newest first."""

    async def on(page: int) -> Page[Client]:
        return await visit.env[Clients].page(offset=offset_of(page), limit=PER_PAGE)

    page, found = await page_of(visit, on)
    return visit.page(
        "clients.html", "OAuth clients", clients=found.rows, **numbered(page, found.total)
    )


async def _client(visit: Visit, row_id: int) -> Client:
    client = await visit.env[Clients].get(row_id)
    if client is None:
        raise NotFound("This client does not exist. It may have been deleted.")
    return client


def _values(name: str, uris: Iterable[str], scopes: Iterable[str]) -> dict[str, str]:
    return {"Name": name, "Redirect URIs": "\n".join(uris), "Scopes": " ".join(in_order(scopes))}


def _stored(client: Client) -> dict[str, str]:
    return _values(client.name, client.redirect_uris, client.scopes)


def _form(visit: Visit, title: str, client: Client | None, mine: Values | None = None) -> Reply:
    """The form of a client, with another admin's changes beside `mine` if they conflict."""
    stored = _stored(client) if client else {}
    return visit.page(
        "client_form.html",
        title,
        **beside(visit.form, stored, mine),
        client=client,
        scopes=[(scope, scope, scope_words(scope)) for scope in SCOPES],
        client_kinds=_KINDS,
        once=fresh_key(visit),
    )


def _wanted(visit: Visit) -> Registration:
    form = visit.form
    uris = form.text("redirect_uris").split()
    return Registration(form.text("name"), uris, " ".join(form.several("scopes", SCOPES)))


def _made(visit: Visit, title: str, made: Registered) -> Reply:
    return visit.page("client_made.html", title, client=made.client, secret=made.secret)


async def show_new(visit: Visit) -> Reply:
    return _form(visit, "New client", None)


async def register(visit: Visit) -> Reply:
    kind = visit.form.read("kind", OneOf(("confidential", "public")))
    wanted, public = _wanted(visit), kind == "public"
    checked(wanted)  # its faults are shown together with that of the kind
    visit.form.check()
    owner = await visit.made_owner()

    def make(by: Author) -> Awaitable[Registered]:
        return register_client(visit.env, owner, wanted, public=public, by=by)

    if public:
        return await sent_once(
            visit,
            make,
            lambda made: visit.go(f"/clients/{made.client.id}", done="client-registered"),
        )
    return await shown_once(
        visit,
        make,
        lambda made: _made(visit, f"{named(made.client.name, made.client.id)} is registered", made),
    )


async def show(visit: Visit) -> Reply:
    client = await _client(visit, visit.request.resource_id)
    return _form(visit, named(client.name, client.id), client)


async def change(visit: Visit) -> Reply:
    row_id, wanted = visit.request.resource_id, _wanted(visit)

    def check(client: Client) -> None:
        require_version(visit.form, _stored(client))

    try:
        values = {
            "name": wanted.name,
            "redirect_uris": wanted.redirect_uris,
            "scopes": wanted.scopes,
        }
        client = await change_client(visit.env, row_id, values, check, by=await visit.by())
    except PreconditionFailed:
        client = await _client(visit, row_id)
        mine = _values(wanted.name, wanted.redirect_uris, wanted.scopes.split())
        return _form(visit, named(client.name, client.id), client, mine)
    done = outcome(visit.form, _stored(client), "client-changed")
    return visit.go(f"/clients/{row_id}", done=done)


async def ask_secret(visit: Visit) -> Reply:
    client = await _client(visit, visit.sent_id())
    return visit.asks(
        f"Create a new secret for {named(client.name, client.id)}?",
        "The old secret stops working immediately. The client cannot get tokens until you give it"
        " the new one.",
        words="Create new secret",
        action="/clients/secret",
        back=(f"/clients/{client.id}", named(client.name, client.id)),
        id=client.id,
        once=fresh_key(visit),
    )


async def new_secret(visit: Visit) -> Reply:
    return await shown_once(
        visit,
        lambda by: renew_secret(visit.env, visit.sent_id(), by=by),
        lambda made: _made(
            visit, f"{named(made.client.name, made.client.id)} has a new secret", made
        ),
    )


async def ask_delete(visit: Visit) -> Reply:
    client = await _client(visit, visit.sent_id())
    return visit.asks(
        f"Delete {named(client.name, client.id)}?",
        "Its access to users' accounts ends immediately. This cannot be undone.",
        words="Delete client",
        danger=True,
        action="/clients/delete",
        back=(f"/clients/{client.id}", named(client.name, client.id)),
        id=client.id,
    )


async def delete(visit: Visit) -> Reply:
    await delete_client(visit.env, visit.sent_id(), by=await visit.by())
    return visit.go("/clients", done="client-deleted")


PAGES = (
    PageRoute("GET", "/clients", show_all, "admin"),
    PageRoute("GET", "/clients/new", show_new, "admin"),
    PageRoute("POST", "/clients/new", fresh(register), "admin"),
    PageRoute("GET", "/clients/{id}", show, "admin"),
    PageRoute("POST", "/clients/{id}", fresh(change), "admin"),
    PageRoute("GET", "/clients/secret", ask_secret, "admin"),
    PageRoute("POST", "/clients/secret", fresh(new_secret), "admin"),
    PageRoute("GET", "/clients/delete", ask_delete, "admin"),
    PageRoute("POST", "/clients/delete", delete, "admin"),
)


async def allowed_by(
    env: Environment, user_id: int, now: int, *, page: int = 1
) -> Page[tuple[AllowedApplication, Client]]:
    """A page of the applications that an account allows something, each with its client."""
    found = await env[Grants].applications(user_id, now, offset=offset_of(page), limit=PER_PAGE)
    clients = [(one, await env[Clients].get(one.client_row_id)) for one in found.rows]
    return Page([(one, client) for one, client in clients if client], found.total)


async def show_applications(visit: Visit) -> Reply:
    owner = await visit.owner()

    async def on(page: int) -> Page[tuple[AllowedApplication, Client]]:
        if owner is None:
            return Page([], 0)
        return await allowed_by(visit.env, owner.id, visit.request.now, page=page)

    page, found = await page_of(visit, on)
    return visit.page(
        "applications.html",
        "Applications",
        applications=found.rows,
        **numbered(page, found.total),
    )


async def ask_revoke(visit: Visit) -> Reply:
    env, owner = visit.env, await visit.owner()
    client = await env[Clients].get(visit.sent_id())
    if (
        client is None
        or owner is None
        or not await env[Grants].allows(env.db, owner.id, client.id, visit.request.now)
    ):
        raise NotFound(
            "This application has no access to your account. You may have revoked it already."
        )
    name = named(client.title, client.id)
    return visit.asks(
        f"Revoke the access of {name}?",
        "It can no longer access your account until you allow it again.",
        words="Revoke access",
        danger=True,
        action="/applications/revoke",
        back=("/applications", "Applications"),
        id=client.id,
    )


async def revoke(visit: Visit) -> Reply:
    by = await visit.by()
    await end_application(visit.env, visit.sent_id(), by.actor.user_id or 0, by)
    return visit.go("/applications", done="application-revoked")


APPLICATION_PAGES = (
    PageRoute("GET", "/applications", show_applications),
    PageRoute("GET", "/applications/revoke", ask_revoke),
    PageRoute("POST", "/applications/revoke", revoke),
)
