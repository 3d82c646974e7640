"""Signing in and out."""

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import segno

from portico.core.errors import NotFound
from portico.core.secrets import mint
from portico.core.sessions import BY_PASSWORD, BY_PROVIDER
from portico.core.users import MAX_EMAIL_LENGTH, User
from portico.features.access.storage import Clients
from portico.features.signin.passkeys import request_options
from portico.features.signin.providers import awaited_link
from portico.features.signin.rules import app_address, factor_name
from portico.features.signin.second_factor import offer_authenticator, read_enrolment
from portico.features.signin.service import Attempt, Proven, StepGone, check_password
from portico.features.signin.sessions import (
    Browser,
    Opened,
    Waiting,
    begin_second_step,
    close_session,
    finish_by_code,
    finish_by_enrolling,
    needs_second_step,
    open_session,
    sign_in_by_passkey,
    waiting,
)
from portico.web.cookies import DEVICE, PROVIDER, SECOND_STEP, are_unreadable
from portico.web.messages import Reply
from portico.web.pages.html import named
from portico.web.pages.sent_once import once
from portico.web.pages.site import (
    PageRoute,
    Site,
    Visit,
    addressed,
    check_token,
    options_reply,
    see_other,
    sender_of,
)
from portico.web.routing import Access


def enrolment_page(visit: Visit, user: User, *, first: bool, **context: Any) -> Reply:
    """The page where a user sets up an app. Shown again, it offers the same secret."""
    env = visit.site.accounts.environment
    offer = offer_authenticator(env, user.id, visit.form.text("secret"))
    address = app_address(offer.secret, user.email, env.settings.site_name)
    at = 4
    return visit.page(
        "enrol.html",
        "Set up an authenticator app",
        first=first,
        sealed=offer.sealed,
        key=[offer.secret[i : i + at] for i in range(0, len(offer.secret), at)],
        address=address,
        image=_qr_code(address),
        **context,
    )


def recovery_codes_page(visit: Visit, user: User, codes: tuple[str, ...], target: str) -> Reply:
    """A user's new recovery codes, with a link on to `target`. Without codes, it says that the
    existing ones stay valid."""
    return visit.page(
        "recovery_codes.html",
        "Your recovery codes" if codes else "Your app is set up",
        email=user.email,
        host=urlsplit(visit.site.origin).netloc,
        codes=codes,
        target=target,
    )


def _qr_code(text: str) -> str:
    """A QR code as inline SVG."""
    return str(segno.make(text, error="m").svg_inline(scale=4, dark="#000", light="#fff"))


_PLAIN = re.compile(r"(?:/[A-Za-z0-9_-]+)*/?")
"""A path that every browser reads alike: no empty part, no dots, nothing encoded."""

LINK = "/sign-in/link"
"""The path of the question whether to link an account at a provider."""

_FOR_ANOTHER = ("account-made", "password-reset")
"""Notices that are shown beside a session too: they concern another account, since the action would
have ended the session of the signed-in one."""


def local(site: Site, target: str) -> str:
    """The page to open after sign-in: `target` if it is a path of the site, else its `home`."""
    path, _, query = target.partition("?")
    if not path.startswith(site.base) or not (query.isascii() and query.isprintable()):
        return site.home
    return target if _PLAIN.fullmatch(path.removeprefix(site.base)) else site.home


async def show(visit: Visit) -> Reply:
    target = local(visit.site, visit.sent("next"))
    is_asked = visit.request.method != "GET" or bool(visit.sent("again"))
    if visit.signed_in and not is_asked and visit.sent("done") not in _FOR_ANOTHER:
        return see_other(target)
    env = visit.site.accounts.environment
    waits = await awaited_link(env, PROVIDER.read(visit.request.headers))
    return visit.page(
        "sign_in.html",
        "Sign in",
        next=target,
        application=await _application(visit, target),
        hint=_hint(visit, target),
        passkey_options=request_options(env, visit.site.origin),
        again=visit.sent("again"),
        other=visit.sent("other"),
        goes_on=visit.signed_in and not is_asked,
        providers=env.sign_in_by.values(),
        waits=waits,
        unreadable=are_unreadable(visit.request.headers),
        keeps_no_cookies=_keeps_no_cookies(visit),
    )


def _keeps_no_cookies(visit: Visit) -> bool:
    """Whether the browser keeps no cookies: the user has signed in here and is back without one. No
    link on the page leads to itself, and the address of a refused sign-in has `refused`."""
    came_from = (visit.request.header("referer") or "").partition("?")[0]
    own = f"{visit.site.origin}{visit.site.base}/sign-in"
    is_back = came_from == own and visit.request.method == "GET" and not visit.sent("refused")
    return is_back and visit.request.header("cookie") is None


def _hint(visit: Visit, target: str) -> str:
    """The e-mail that an OAuth client expects to sign in (`login_hint`)."""
    path, _, query = target.partition("?")
    if path != f"{visit.site.base}/authorize":
        return ""
    hint = dict(parse_qsl(query)).get("login_hint", "")
    return hint if len(hint) <= MAX_EMAIL_LENGTH and "@" in hint else ""


async def _application(visit: Visit, target: str) -> str:
    """The name of the OAuth client that sent the user to sign in, if one did."""
    path, _, query = target.partition("?")
    if path != f"{visit.site.base}/authorize":
        return ""
    client_id = dict(parse_qsl(query)).get("client_id", "")
    client = await visit.env[Clients].by_client_id(client_id)
    return named(client.name, client.id) if client else ""


async def sign_in(visit: Visit) -> Reply:
    form, by, env = visit.form, visit.request.by, visit.site.accounts.environment
    email, secret = form.read("email", str), form.read("password", str)
    form.check()
    user = await check_password(env, Attempt(email, secret, by))
    return await enter(visit, user, local(visit.site, visit.sent("next")))


async def enter(
    visit: Visit, user: User, target: str, provider: str | None = None, *, again: bool = False
) -> Reply:
    """Sign in a user who has passed the first step, by password or by a provider, or redirect to
    the second step. For `again`, see `Proven`."""
    env, by = visit.site.accounts.environment, visit.request.by
    if await needs_second_step(env, user):
        waits = await begin_second_step(env, user, by, provider)
        reply = visit.go("/sign-in/code", next=target)
        reply.headers.append(SECOND_STEP.set(waits))
        return reply
    amr = BY_PASSWORD if provider is None else BY_PROVIDER
    browser = _browser(visit)
    proven = Proven(user, amr, provider=provider, again=again)
    opened = await open_session(env, proven, by, browser)
    return _signed_in(visit, opened, browser, see_other(await _onward(visit, user, target)))


async def _onward(visit: Visit, user: User, target: str) -> str:
    """The page to open after sign-in: `target`, or first the question whether to link the account
    at a provider that the user came from."""
    env = visit.site.accounts.environment
    waits = await awaited_link(env, PROVIDER.read(visit.request.headers))
    if waits is None or not waits.fits(user):
        return target
    return addressed(f"{visit.site.base}{LINK}", {"next": target})


def _browser(visit: Visit) -> Browser:
    return Browser(
        visit.request.header("user-agent") or "",
        visit.site.accounts.cookie.read(visit.request.headers),
        DEVICE.read(visit.request.headers) or mint("", visit.env.random),
    )


def _signed_in(visit: Visit, opened: Opened, browser: Browser, reply: Reply) -> Reply:
    """The reply, with the cookies of the session and the browser."""
    reply.headers.append(visit.site.accounts.cookie.set(opened.secret))
    reply.headers.append(DEVICE.set(browser.device or ""))
    return reply


async def _waiting(visit: Visit) -> Waiting | None:
    secret = SECOND_STEP.read(visit.request.headers)
    return await waiting(visit.site.accounts.environment, secret)


def _start_again(visit: Visit) -> Reply:
    query = {"done": "sign-in-again", "next": local(visit.site, visit.sent("next"))}
    reply = visit.go("/sign-in", **query)
    reply.headers.append(SECOND_STEP.clear())
    return reply


async def show_code(visit: Visit) -> Reply:
    """GET /sign-in/code: the second step, or how to set up a second factor if one is required and
    missing."""
    waits = await _waiting(visit)
    if waits is None:
        return _start_again(visit)
    target = local(visit.site, visit.sent("next"))
    if waits.factors:
        options = request_options(visit.site.accounts.environment, visit.site.origin)
        return visit.page(
            "code.html",
            "Enter your code",
            next=target,
            factors=waits.factors,
            passkey_options=options,
        )
    return enrolment_page(visit, waits.user, first=True, next=target)


async def send_code(visit: Visit) -> Reply:
    waits = await _waiting(visit)
    if waits is None:
        return _start_again(visit)
    env, by, form = visit.site.accounts.environment, visit.request.by, visit.form
    browser = _browser(visit)
    target = await _onward(visit, waits.user, local(visit.site, visit.sent("next")))
    try:
        if waits.factors:
            code = form.read("otp", str.strip)
            form.check()
            opened = await finish_by_code(env, waits, code, by, browser)
            reply = see_other(target)
        else:
            name, code = form.read("name", factor_name), form.read("otp", str.strip) or ""
            enrolment = read_enrolment(env, waits.user.id, form.text("secret"), code, name)
            form.check()
            opened = await finish_by_enrolling(env, waits, enrolment, by, browser)
            codes = recovery_codes_page(visit, waits.user, enrolment.recovery_codes, target)
            reply = await once(visit, codes, waits.user)
    except StepGone:
        return _start_again(visit)
    reply.headers.append(SECOND_STEP.clear())
    return _signed_in(visit, opened, browser, reply)


async def show_options(visit: Visit) -> Reply:
    """GET /sign-in/passkey/options: a new challenge, as JSON."""
    options = request_options(visit.site.accounts.environment, visit.site.origin)
    if not options:
        raise NotFound("No passkey can be used at this address.")
    return options_reply(options)


async def by_passkey(visit: Visit) -> Reply:
    env, by, browser = visit.site.accounts.environment, visit.request.by, _browser(visit)
    opened = await sign_in_by_passkey(env, visit.form.text("credential"), by, browser)
    target = local(visit.site, visit.sent("next"))
    reply = see_other(await _onward(visit, opened.user, target))
    reply.headers.append(SECOND_STEP.clear())
    return _signed_in(visit, opened, browser, reply)


async def sign_out(visit: Visit) -> Reply:
    """POST /sign-out: end the browser's current session, even if the page is from an earlier one of
    the same account. If it has ended already, there is nothing to do."""
    accounts = visit.site.accounts
    if visit.signed_in:
        if sender_of(visit.form, accounts) != visit.user.id:
            check_token(visit.form, accounts.cookie.read(visit.request.headers))
        await close_session(accounts.environment, visit.request.by)
    if again := visit.sent("next"):
        reply = visit.go("/sign-in", next=local(visit.site, again))
    else:
        reply = visit.go("/sign-in", done="signed-out")
    return signed_out(visit, reply)


def signed_out(visit: Visit, reply: Reply) -> Reply:
    """The reply, which clears the session's cookie."""
    reply.headers.append(visit.site.accounts.cookie.clear())
    return reply


PAGES = (
    PageRoute("GET", "/sign-in", show, Access.ANYONE),
    PageRoute("POST", "/sign-in", sign_in, Access.ANYONE),
    PageRoute("GET", "/sign-in/code", show_code, Access.ANYONE),
    PageRoute("POST", "/sign-in/code", send_code, Access.ANYONE),
    PageRoute("GET", "/sign-in/passkey", show, Access.ANYONE),
    PageRoute("POST", "/sign-in/passkey", by_passkey, Access.ANYONE),
    PageRoute("GET", "/sign-in/passkey/options", show_options, Access.ANYONE),
    PageRoute("POST", "/sign-out", sign_out, Access.ANYONE, never_refused=True),
)
