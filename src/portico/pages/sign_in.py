"""Signing in and out."""

import re

from portico.domain.errors import AuthenticationRequired
from portico.http.messages import Reply
from portico.http.routing import Access
from portico.pages.site import PageRoute, Site, Visit, see_other
from portico.services.sessions import close_session, open_session
from portico.services.sign_in import Attempt

_PLAIN = re.compile(r"(?:/[A-Za-z0-9_-]+)*/?")
"""A path that no browser reads in another way: no empty part, no dots, nothing encoded."""


def local(site: Site, target: str) -> str:
    """Where to go after signing in: `target` if it is a path below the site's own, else its
    beginning."""
    path, _, query = target.partition("?")
    if not path.startswith(site.base) or not (query.isascii() and query.isprintable()):
        return site.home
    return target if _PLAIN.fullmatch(path.removeprefix(site.base)) else site.home


async def show(visit: Visit) -> Reply:
    """GET /sign-in."""
    target = local(visit.site, visit.sent("next"))
    if visit.signed_in and visit.request.method == "GET" and not visit.sent("again"):
        return see_other(target)
    return visit.page("sign_in.html", "Sign in", next=target)


async def sign_in(visit: Visit) -> Reply:
    """POST /sign-in."""
    form, request, accounts = visit.form, visit.request, visit.site.accounts
    email, secret = form.text("email").strip(), form.text("password")
    if not email or not secret:
        raise AuthenticationRequired("Type your e-mail and your password.")
    opened = await open_session(
        accounts.environment,
        Attempt(email, secret, request.by),
        user_agent=request.header("user-agent") or "",
        instead_of=accounts.cookie.read(request.headers),
    )
    reply = see_other(local(visit.site, visit.sent("next")))
    reply.headers.append(accounts.cookie.set(opened.secret))
    return reply


async def sign_out(visit: Visit) -> Reply:
    """POST /sign-out."""
    accounts = visit.site.accounts
    await close_session(accounts.environment, visit.request.by)
    if again := visit.sent("next"):
        reply = visit.go("/sign-in", next=local(visit.site, again))
    else:
        reply = visit.go("/sign-in", done="signed-out")
    reply.headers.append(accounts.cookie.clear())
    return reply


PAGES = (
    PageRoute("GET", "/sign-in", show, Access.ANYONE),
    PageRoute("POST", "/sign-in", sign_in, Access.ANYONE),
    PageRoute("POST", "/sign-out", sign_out, never_refused=True),
)
