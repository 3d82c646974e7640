"""The authorization endpoint: signs the user in, asks for consent, sends the browser back.

RFC 6749 §4.1 as updated by RFC 9700, OpenID Connect Core §3.1.2, RFC 9207.
"""

from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit

from portico.core.errors import AuthenticationRequired
from portico.core.oauth import AuthorizationRefused
from portico.features.access.authorization import (
    AuthorizationAnswer,
    AuthorizationRequest,
    ConsentRequest,
    Parameters,
    Returned,
    allowed_before,
    grant_code,
    read_request,
    signed_in_for,
    stamped,
    wants_fresh_sign_in,
)
from portico.features.access.pages import end_session
from portico.features.access.pages.consent import DEVICE_PAGES, consent_page, grantable, ticked_of
from portico.features.access.pages.end_session import refusal_page, sent_parameters
from portico.features.signin.pages import sign_in
from portico.features.signin.pages.providers import provider_pages
from portico.features.signin.sessions import read_session
from portico.web import throttle
from portico.web.messages import Reply, Request
from portico.web.pages import sent_once
from portico.web.pages.forms import read_form
from portico.web.pages.responder import PageResponder
from portico.web.pages.site import Accounts, PageRoute, Site, Visit, routes, see_other
from portico.web.routing import PUBLIC_BODY_LIMIT, Access, Endpoint, Mount, PathMatch

AUTHORIZE = "/authorize"
_NOBODY = "No user is signed in."


async def ask(visit: Visit) -> Reply:
    try:
        parameters = sent_parameters(visit)
        asked = await _asked(visit, parameters)
        if not visit.signed_in:
            if visit.cookie_kept_back:
                raise AuthenticationRequired("The cookie was withheld. Load the page again.")
            if asked.silent:
                raise _kept_here(visit, _refusal(visit, asked, "login_required", _NOBODY))
            return await _sign_in(visit, asked, parameters)
        session = await read_session(visit.env, visit.session_id)
        if not await signed_in_for(visit.env, asked, parameters, session):
            if asked.silent:
                raise _refusal(visit, asked, "login_required", "The user must sign in again.")
            return await _sign_in_again(visit, asked, parameters)
        wanted = asked.wanted._replace(scopes=grantable(visit, asked.wanted))
        grants = wanted.scopes or not asked.wanted.scopes
        wants_page = "consent" in asked.prompt or not grants
        if not wants_page and await allowed_before(visit.env, wanted, visit.user):
            by = visit.request.by
            code = await grant_code(visit.env, wanted, session.proof, by, asked=False)
            return _back(visit, asked.answer(visit.env.addresses.auth, code=code))
        if asked.silent:
            raise _refusal(visit, asked, "consent_required", "The user must be asked for consent.")
    except Returned as returned:
        return _back(visit, returned.answer)
    except AuthorizationRefused as refused:
        return refusal_page(visit, refused)
    return _question(visit, asked.wanted)


async def _asked(visit: Visit, parameters: Parameters) -> AuthorizationRequest:
    """The request. Raises `AuthorizationRefused` and `Returned`."""
    try:
        return await read_request(visit.env, parameters)
    except Returned as returned:
        raise _kept_here(visit, returned) from None


def _kept_here(visit: Visit, returned: Returned) -> AuthorizationRefused:
    """A refusal, but as a page where nobody is signed in and nobody here has registered the client:
    anyone can make such a one, and a link to this server must not lead on to any site."""
    if visit.signed_in or returned.client.origin == "registered":
        return returned
    return AuthorizationRefused(returned.error, returned.message)


def _back(visit: Visit, answer: AuthorizationAnswer) -> Reply:
    """Takes the browser back to the client, by a redirect or by a form that sends itself."""
    if not answer.by_form:
        return see_other(answer.address)
    return visit.page(
        "returning.html",
        "Continue",
        leads_anywhere=True,
        private_address=True,
        address=answer.redirect_uri,
        fields=answer.parameters,
        destination=urlsplit(answer.redirect_uri).netloc,
    )


def _question(visit: Visit, wanted: ConsentRequest, *, meanwhile: bool = False) -> Reply:
    scopes = grantable(visit, wanted)
    return consent_page(
        visit,
        wanted.client,
        wanted.redirect_uri,
        scopes,
        nothing=bool(wanted.scopes) and not scopes,
        meanwhile=meanwhile,
    )


async def decide(visit: Visit) -> Reply:
    """POST /authorize: the user's decision. The query holds the client's request unchanged.

    The user's role and the client may have changed since the page was shown. Nothing is granted
    that the page did not show; if more would be, the user is asked again.
    """
    try:
        parameters = sent_parameters(visit)
        asked = await read_request(visit.env, parameters)
        if visit.form.text("decision") != "allow":
            raise _refusal(visit, asked, "access_denied", "The user denied access.")
        if asked.silent:
            raise _refusal(visit, asked, "consent_required", "The user must be asked for consent.")
        session = await read_session(visit.env, visit.session_id)
        if not await signed_in_for(visit.env, asked, parameters, session):
            return await _sign_in_again(visit, asked, parameters)
        scopes = grantable(visit, asked.wanted)
        if asked.wanted.scopes and not scopes:
            raise _refusal(visit, asked, "access_denied", "The user's role allows none of this.")
        ticked = ticked_of(visit.form, scopes)
        if ticked is None:
            return _question(visit, asked.wanted, meanwhile=True)
        if scopes and not ticked:
            raise _refusal(visit, asked, "access_denied", "The user allowed none of this.")
        wanted = asked.wanted._replace(scopes=ticked)
        code = await grant_code(visit.env, wanted, session.proof, visit.request.by)
    except Returned as returned:
        return _back(visit, returned.answer)
    except AuthorizationRefused as refused:
        return refusal_page(visit, refused)
    return _back(visit, asked.answer(visit.env.addresses.auth, code=code))


def _refusal(visit: Visit, asked: AuthorizationRequest, error: str, message: str) -> Returned:
    return asked.refusal(visit.env.addresses.auth, error, message)


async def _sign_in(
    visit: Visit, asked: AuthorizationRequest, parameters: Parameters, **query: str
) -> Reply:
    """Redirect to sign-in, and from there back to the same request."""
    if wants_fresh_sign_in(asked):
        request = await stamped(visit.env, parameters, visit.request.now)
    else:
        request = urlencode(parameters)
    return visit.go("/sign-in", **query, next=f"{visit.request.path}?{request}")


async def _sign_in_again(
    visit: Visit, asked: AuthorizationRequest, parameters: Parameters
) -> Reply:
    other = {} if asked.user_id in (None, visit.user.id) else {"other": "yes"}
    return await _sign_in(visit, asked, parameters, again="yes", **other)


PAGES = (
    PageRoute("GET", AUTHORIZE, ask, Access.ANYONE, on_address=True),
    PageRoute("POST", AUTHORIZE, decide),
)


class AuthorizationResponder(PageResponder):
    """A page responder that also accepts a client's request by POST from any site: it changes
    nothing, and redirects to the same request by GET (OpenID Connect Core §3.1.2.1, RP-Initiated
    Logout §2). The consent form has the request in its query, so a POST without a query is never a
    decision."""

    # The sign-in form has the whole request in a field, escaped twice by then.
    public_body_limit = 1 << 16

    async def answer(
        self, request: Request, match: PathMatch, endpoint: Endpoint | None, id_texts: Sequence[str]
    ) -> Reply:
        is_asked = request.method == "POST" and not request.query_string
        paths = (AUTHORIZE, end_session.END_SESSION)
        if not is_asked or endpoint is None or endpoint.route.path not in paths:
            return await super().answer(request, match, endpoint, id_texts)
        await throttle.address(request, never_refused=endpoint.never_refused)
        body = await request.read_body(PUBLIC_BODY_LIMIT)
        form = read_form(request.header("content-type"), body)
        return see_other(f"{request.path}?{urlencode(form.pairs(but=()))}")


def authorize_mount(accounts: Accounts, home: str, desk: str) -> Mount:
    """The pages of an environment's authorization server, where its own accounts sign in. `home` is
    the page to open when the user asked for no other. The pages for users who cannot sign in are
    below `desk`, if it is given."""
    env = accounts.environment
    at = urlsplit(env.addresses.auth)
    site = Site(
        env,
        accounts,
        f"{at.scheme}://{at.netloc}",
        at.path,
        home=home,
        sign_in=at.path,
        forgot=f"{desk}/forgot" if desk else "",
        sign_up=f"{desk}/sign-up" if desk and env.sign_up_role else "",
        dashboards=(),
    )
    ours = (*PAGES, *DEVICE_PAGES, *end_session.PAGES)
    pages = (*ours, *sign_in.PAGES, *sent_once.PAGES, *provider_pages(env))
    responder = AuthorizationResponder(site)
    return Mount(at.netloc, at.path, env, routes(site, pages), "auth", responder)
