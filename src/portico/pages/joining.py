"""Getting an account, by an invitation or by signing up."""

from functools import partial

from portico.domain import users
from portico.domain.errors import BrokenRule, Invalid, NotFound
from portico.http.messages import Reply
from portico.http.routing import Access
from portico.pages.recovery import sent_title
from portico.pages.site import PageRoute, Visit
from portico.services.chosen_passwords import chosen
from portico.services.invitations import accept, find
from portico.services.sign_up import ask_sign_up


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
    """POST /invitation."""
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
    """GET /sign-up."""
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
    """GET /sign-up/sent."""
    return visit.page("signed_up.html", sent_title(visit))


PAGES = (
    PageRoute("GET", "/invitation", show_invitation, Access.ANYONE),
    PageRoute("POST", "/invitation", accept_invitation, Access.ANYONE),
    PageRoute("GET", "/sign-up", show_sign_up, Access.ANYONE),
    PageRoute("POST", "/sign-up", sign_up, Access.ANYONE),
    PageRoute("GET", "/sign-up/sent", show_sent, Access.ANYONE),
)
