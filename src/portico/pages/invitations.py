"""Invitations, for admins: create, renew, revoke."""

from collections.abc import Awaitable, Callable

from portico.domain import users
from portico.domain.audit import By
from portico.domain.errors import NotFound
from portico.domain.invitations import Invitation
from portico.domain.rules import OneOf
from portico.domain.users import ROLES
from portico.http.messages import Reply
from portico.pages.lists import back_to_list, list_of
from portico.pages.paging import PER_PAGE, numbered, offset_of, page_of
from portico.pages.sent_once import fresh_key, sent_once, shown_once
from portico.pages.site import PageRoute, Visit
from portico.pages.step_up import fresh
from portico.services.invitations import Made, invite, renew, revoke
from portico.storage.invitations import Invitations
from portico.storage.listing import Page

_FILTERS = ("page",)


async def show(visit: Visit) -> Reply:
    """GET /users/invitations: the newest first."""

    async def on(page: int) -> Page[Invitation]:
        return await visit.env[Invitations].by_admins(offset=offset_of(page), limit=PER_PAGE)

    page, found = await page_of(visit, on)
    return visit.page(
        "invitations.html",
        "Invitations",
        invitations=found.rows,
        **numbered(page, found.total),
        roles=[(role, role.capitalize()) for role in ROLES],
        plans=[(plan, plan.capitalize()) for plan in visit.env.settings.plans],
        once=fresh_key(visit),
    )


def _list(visit: Visit) -> str:
    """The path of the list's page that the user came from."""
    query = list_of(visit, _FILTERS).get("list")
    return f"/users/invitations?{query}" if query else "/users/invitations"


async def make(visit: Visit) -> Reply:
    """POST /users/invitations."""
    form = visit.form
    email = form.read("email", lambda text: users.email(text.strip()))
    name = form.optional("name", users.name)
    role = form.read("role", users.role)
    plan = form.read("plan", OneOf(tuple(visit.env.settings.plans)))
    form.check()

    def invited(by: By) -> Awaitable[Made]:
        return invite(
            visit.env,
            email=email,
            name=name or "",
            role=role,
            plan=plan,
            handed_over=not visit.env.has_mail_server,
            by=by,
        )

    return await _made(visit, invited)


async def _made(visit: Visit, make: Callable[[By], Awaitable[Made]]) -> Reply:
    """Send the link by mail; without a mail server, show it to the admin, who passes it on."""
    if visit.env.has_mail_server:
        return await sent_once(
            visit,
            make,
            lambda _: visit.go(
                "/users/invitations", **back_to_list(visit, _FILTERS), done="invited"
            ),
        )
    return await shown_once(
        visit,
        make,
        lambda made: visit.page(
            "link_made.html",
            f"Invitation for {made.invitation.email}",
            link=made.link,
            expires_at=made.invitation.expires_at,
            back=_list(visit),
            back_to="Invitations",
        ),
    )


async def renew_one(visit: Visit) -> Reply:
    """POST /users/invitations/renew."""
    handed_over = not visit.env.has_mail_server
    return await _made(
        visit, lambda by: renew(visit.env, visit.sent_id(), handed_over=handed_over, by=by)
    )


async def ask_revoke(visit: Visit) -> Reply:
    """GET /users/invitations/revoke."""
    found = await visit.env[Invitations].get(visit.sent_id())
    if found is None:
        raise NotFound("This invitation no longer exists. It may have been accepted or revoked.")
    return visit.asks(
        f"Revoke the invitation for {found.email}?",
        "Its link stops working.",
        words="Revoke invitation",
        danger=True,
        action="/users/invitations/revoke",
        back=(_list(visit), "Invitations"),
        id=found.id,
        **list_of(visit, _FILTERS),
    )


async def revoke_one(visit: Visit) -> Reply:
    """POST /users/invitations/revoke."""
    await revoke(visit.env, visit.sent_id(), visit.request.by)
    back = back_to_list(visit, _FILTERS)
    return visit.go("/users/invitations", **back, done="invitation-revoked")


PAGES = (
    PageRoute("GET", "/users/invitations", show, "admin"),
    PageRoute("POST", "/users/invitations", fresh(make), "admin"),
    PageRoute("POST", "/users/invitations/renew", fresh(renew_one), "admin"),
    PageRoute("GET", "/users/invitations/revoke", ask_revoke, "admin"),
    PageRoute("POST", "/users/invitations/revoke", revoke_one, "admin"),
)
