"""Invitations, for admins: make, renew, take back."""

from collections.abc import Awaitable, Callable

from portico.domain import users
from portico.domain.audit import By
from portico.domain.errors import NotFound
from portico.domain.rules import OneOf
from portico.domain.users import ROLES
from portico.http.messages import Reply
from portico.pages.sent_once import fresh_key, sent_once, shown_once
from portico.pages.site import PageRoute, Visit
from portico.pages.step_up import fresh
from portico.services.invitations import Made, invite, renew, revoke


async def show(visit: Visit) -> Reply:
    """GET /users/invitations."""
    return visit.page(
        "invitations.html",
        "Invitations",
        invitations=await visit.env.invitations.by_admins(),
        roles=[(role, role.capitalize()) for role in ROLES],
        plans=[(plan, plan.capitalize()) for plan in visit.env.plans],
        once=fresh_key(visit),
    )


async def make(visit: Visit) -> Reply:
    """POST /users/invitations."""
    form = visit.form
    email = form.read("email", lambda text: users.email(text.strip()))
    name = form.optional("name", users.name)
    role = form.read("role", users.role)
    plan = form.read("plan", OneOf(tuple(visit.env.plans)))
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
    """The link goes by mail; where there is no mail server, the admin hands it over."""
    if visit.env.has_mail_server:
        return await sent_once(
            visit, make, lambda _: visit.go("/users/invitations", done="invited")
        )
    return await shown_once(
        visit,
        make,
        lambda made: visit.page(
            "link_made.html",
            f"An invitation for {made.invitation.email}",
            link=made.link,
            expires_at=made.invitation.expires_at,
            back="/users/invitations",
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
    found = await visit.env.invitations.get(visit.sent_id())
    if found is None:
        raise NotFound("There is no such invitation.")
    return visit.asks(
        f"Revoke the invitation of {found.email}?",
        "Its link stops working.",
        words="Revoke invitation",
        danger=True,
        action="/users/invitations/revoke",
        back=("/users/invitations", "Invitations"),
        id=found.id,
    )


async def revoke_one(visit: Visit) -> Reply:
    """POST /users/invitations/revoke."""
    await revoke(visit.env, visit.sent_id(), visit.request.by)
    return visit.go("/users/invitations", done="invitation-revoked")


PAGES = (
    PageRoute("GET", "/users/invitations", show, "admin"),
    PageRoute("POST", "/users/invitations", fresh(make), "admin"),
    PageRoute("POST", "/users/invitations/renew", fresh(renew_one), "admin"),
    PageRoute("GET", "/users/invitations/revoke", ask_revoke, "admin"),
    PageRoute("POST", "/users/invitations/revoke", revoke_one, "admin"),
)
