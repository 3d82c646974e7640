"""The authorization endpoint: signs the user in, asks for consent, sends the browser back.

RFC 6749 §4.1 as RFC 9700 has it, OpenID Connect Core §3.1.2, RFC 9207.
"""

from urllib.parse import parse_qsl, urlencode, urlsplit

from portico.domain.errors import AuthenticationRequired, NotFound
from portico.domain.oauth import Refused, narrowed
from portico.domain.scopes import ROLE_SCOPES
from portico.domain.times import SECOND
from portico.http.messages import Reply
from portico.http.routing import Access, Mount
from portico.http.throttle import Throttle
from portico.pages import sign_in
from portico.pages.consent import consent_page, refusal_page
from portico.pages.site import Accounts, Page, Site, Visit, routes, see_other
from portico.pages.way import PageWay
from portico.services.authorization import grant_code
from portico.services.authorization_requests import AuthorizationRequest, Returned, read_request

MAX_PARAMETERS = 50


async def ask(visit: Visit) -> Reply:
    """GET /authorize."""
    try:
        asked = await _read(visit)
        if not visit.signed_in:
            if visit.cookie_kept_back:
                raise AuthenticationRequired("Whether somebody is signed in will be seen.")
            if "none" in asked.prompt:
                raise _refusal(visit, asked, "login_required", "Nobody is signed in.")
            return _sign_in(visit)
        if await _must_sign_in_again(visit, asked):
            return _sign_in(visit, again="yes")
        if "none" in asked.prompt:
            raise _refusal(visit, asked, "consent_required", "The user must be asked.")
    except Returned as returned:
        return see_other(returned.address)
    except Refused as refused:
        return refusal_page(visit, refused.error, refused.message)
    scopes = narrowed(asked.wish.scopes, ROLE_SCOPES[visit.user.role])
    return consent_page(visit, asked.wish.client, asked.wish.redirect_uri, scopes)


async def decide(visit: Visit) -> Reply:
    """POST /authorize: what the user decided. The request is in the address, as it was asked."""
    try:
        asked = await _read(visit)
        if visit.form.text("decision") != "allow":
            raise _refusal(visit, asked, "access_denied", "The user did not allow it.")
        signed_in_at = await _signed_in_at(visit)
        code = await grant_code(
            visit.env, asked.wish, signed_in_at=signed_in_at, by=visit.request.actor
        )
    except Returned as returned:
        return see_other(returned.address)
    except Refused as refused:
        return refusal_page(visit, refused.error, refused.message)
    return see_other(asked.answer(visit.env.addresses.auth, code=code))


async def _read(visit: Visit) -> AuthorizationRequest:
    try:
        parameters = parse_qsl(
            visit.request.query_string,
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except ValueError:
        raise Refused("invalid_request", "The address cannot be read.") from None
    return await read_request(visit.env, parameters)


def _refusal(visit: Visit, asked: AuthorizationRequest, error: str, message: str) -> Returned:
    return asked.refusal(visit.env.addresses.auth, error, message)


async def _signed_in_at(visit: Visit) -> int:
    session = await visit.env.sessions.get(visit.session_id)
    if session is None:
        raise NotFound("This session has ended; sign in again.")
    return session.created_at


async def _must_sign_in_again(visit: Visit, asked: AuthorizationRequest) -> bool:
    if "login" in asked.prompt or "select_account" in asked.prompt:
        return True
    if asked.max_age is None:
        return False
    return visit.request.now - await _signed_in_at(visit) > asked.max_age * SECOND


def _sign_in(visit: Visit, **query: str) -> Reply:
    """Sends the browser to sign in, and then back without the wish for a fresh sign-in."""
    parameters = [
        (name, value)
        for name, value in parse_qsl(visit.request.query_string, keep_blank_values=True)
        if name not in ("prompt", "max_age")
    ]
    target = f"{visit.request.path}?{urlencode(parameters)}"
    return visit.go("/sign-in", **query, next=target)


PAGES = (
    Page("GET", "/authorize", ask, Access.ANYONE),
    Page("POST", "/authorize", decide),
)


def authorize_mount(accounts: Accounts, home: str, forgot: str, throttle: Throttle) -> Mount:
    """The pages of an environment's authorization server, where its own accounts sign in. `home` is
    where those go who want nothing in particular, `forgot` where who forgot their password."""
    env = accounts.environment
    at = urlsplit(env.addresses.auth)
    site = Site(env, accounts, at.path, home=home, sign_in=at.path, forgot=forgot, dashboards=())
    pages = (*PAGES, *sign_in.PAGES)
    return Mount(at.netloc, at.path, env, routes(site, pages), "auth", PageWay(site, throttle))
