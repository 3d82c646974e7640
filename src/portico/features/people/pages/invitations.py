"""Invitations, for admins: create, renew, revoke."""

from collections.abc import Awaitable, Callable
from functools import partial

from portico.core import users
from portico.core.audit import Author
from portico.core.errors import BrokenRule, Invalid, NotFound
from portico.core.rules import OneOf
from portico.core.users import ROLES
from portico.data.listing import Page
from portico.features.people.invitations import (
    MadeInvitation,
    accept,
    ask_sign_up,
    find,
    invite,
    renew,
    revoke,
)
from portico.features.people.pages.account import sent_page
from portico.features.people.passwords import chosen
from portico.features.people.rules import Invitation
from portico.features.people.storage import Invitations
from portico.features.signin.pages.step_up import fresh
from portico.web.messages import Reply
from portico.web.pages.paging import PER_PAGE, back_to_list, list_of, numbered, offset_of, page_of
from portico.web.pages.sent_once import fresh_key, sent_once, shown_once
from portico.web.pages.site import PageRoute, Visit
from portico.web.routing import Access

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
        once=fresh_key(visit),
    )


async def show_new(visit: Visit) -> Reply:
    return visit.page(
        "invitation_new.html",
        "New invitation",
        roles=[(role, role.capitalize()) for role in ROLES],
        plans=[(plan, plan.capitalize()) for plan in visit.env.settings.plans],
        once=fresh_key(visit),
    )


def _list(visit: Visit) -> str:
    """The path of the list's page that the user came from."""
    query = list_of(visit, _FILTERS).get("list")
    return f"/users/invitations?{query}" if query else "/users/invitations"


async def make(visit: Visit) -> Reply:
    form = visit.form
    email = form.read("email", lambda text: users.email(text.strip()))
    name = form.optional("name", users.name)
    role = form.read("role", users.role)
    plan = form.read("plan", OneOf(tuple(visit.env.settings.plans)))
    form.check()

    def invited(by: Author) -> Awaitable[MadeInvitation]:
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


async def _made(visit: Visit, make: Callable[[Author], Awaitable[MadeInvitation]]) -> Reply:
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
    handed_over = not visit.env.has_mail_server
    return await _made(
        visit, lambda by: renew(visit.env, visit.sent_id(), handed_over=handed_over, by=by)
    )


async def ask_revoke(visit: Visit) -> Reply:
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
    await revoke(visit.env, visit.sent_id(), visit.request.by)
    back = back_to_list(visit, _FILTERS)
    return visit.go("/users/invitations", **back, done="invitation-revoked")


PAGES = (
    PageRoute("GET", "/users/invitations", show, "admin"),
    PageRoute("GET", "/users/invitations/new", show_new, "admin"),
    PageRoute("POST", "/users/invitations/new", fresh(make), "admin"),
    PageRoute("POST", "/users/invitations/renew", fresh(renew_one), "admin"),
    PageRoute("GET", "/users/invitations/revoke", ask_revoke, "admin"),
    PageRoute("POST", "/users/invitations/revoke", revoke_one, "admin"),
)


def _language(visit: Visit) -> str:
    """The browser's preferred language tag; English if it names none."""
    languages = visit.request.header("accept-language") or ""
    try:
        return users.language(languages.partition(",")[0].partition(";")[0].strip())
    except BrokenRule:
        return "en"


async def show_invitation(visit: Visit) -> Reply:
    """GET /invitation. It does not use up the link: mail scanners open links too."""
    token = visit.sent("token")
    try:
        invitation = await find(visit.env, token)
    except Invalid as useless:
        visit.form.refuse(useless)
        invitation = None
    return visit.page(
        "invitation.html",
        "Create your account",
        status=200 if invitation else 410,
        private_address=True,
        token=token,
        invitation=invitation,
    )


async def accept_invitation(visit: Visit) -> Reply:
    form, token = visit.form, visit.sent("token")
    invitation = await find(visit.env, token)
    name = form.read("name", users.name)
    rule = partial(chosen, name=form.text("name"), email=invitation.email)
    password = form.read("password", rule)
    form.check()
    await accept(
        visit.env,
        token,
        name=name,
        password=password,
        by=visit.request.by,
        language=_language(visit),
    )
    return visit.go("/sign-in", done="account-made")


async def show_sign_up(visit: Visit) -> Reply:
    if visit.env.sign_up_role is None:
        raise NotFound(
            "Accounts on this server are by invitation only. Ask an administrator to invite you."
        )
    return visit.page(
        "sign_up.html", "Create an account", domains=visit.env.settings.sign_up_domains
    )


async def sign_up(visit: Visit) -> Reply:
    """POST /sign-up. The answer does not tell whether there is an account."""
    address = visit.form.read("email", lambda text: users.email(text.strip()))
    visit.form.check()
    await ask_sign_up(visit.env, address, visit.request.by, _language(visit))
    return visit.go("/sign-up/sent")


async def show_sent(visit: Visit) -> Reply:
    return sent_page(
        visit,
        (
            "We have sent you a link. It works once, within 24 hours.",
            "No e-mail? Check your spam folder. The address may also contain a typo.",
        ),
        "This server does not send e-mail. A link was written to a file on the server: ask the"
        " server operator for it. It works once, within 24 hours.",
    )


JOINING_PAGES = (
    PageRoute("GET", "/invitation", show_invitation, Access.ANYONE),
    PageRoute("POST", "/invitation", accept_invitation, Access.ANYONE),
    PageRoute("GET", "/sign-up", show_sign_up, Access.ANYONE),
    PageRoute("POST", "/sign-up", sign_up, Access.ANYONE),
    PageRoute("GET", "/sign-up/sent", show_sent, Access.ANYONE),
)
