"""The authorization endpoint: signs the user in, asks for consent, sends the browser back.

RFC 6749 §4.1 as updated by RFC 9700, OpenID Connect Core §3.1.2, RFC 9207.
"""

from collections.abc import Sequence
from urllib.parse import urlencode, urlsplit

from portico.core.errors import AuthenticationRequired
from portico.core.oauth import OPENID_SCOPES, AuthorizationRefused, Client, implied, narrowed
from portico.core.scopes import SCOPES, of_role
from portico.core.text import counted
from portico.features.access.authorization import (
    Answer,
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
from portico.features.access.documents import is_document
from portico.features.access.pages import end_session
from portico.features.access.pages.oauth_requests import refusal_page, sent_parameters
from portico.features.signin.pages import sign_in
from portico.features.signin.pages.providers import provider_pages
from portico.features.signin.sessions import read_session
from portico.web import throttle
from portico.web.messages import Reply, Request
from portico.web.pages import sent_once
from portico.web.pages.filters import in_order, named
from portico.web.pages.forms import read_form
from portico.web.pages.responder import PageResponder
from portico.web.pages.site import Accounts, PageRoute, Site, Visit, routes, see_other
from portico.web.routing import PUBLIC_BODY_LIMIT, Access, Endpoint, Mount, PathMatch

SHOWN = "scopes"
"""The form field with the scopes that the page showed, space-separated."""

MAY = "may-"
"""The beginning of the names of the boxes, one for each scope of the API, that the user may
untick."""


def consent_page(
    visit: Visit,
    client: Client,
    redirect_uri: str,
    scopes: frozenset[str],
    *,
    nothing: bool,
    meanwhile: bool,
) -> Reply:
    """Ask the signed-in user whether a client may have these scopes. With `nothing`, the page says
    that their role allows none of them; with `meanwhile`, it asks again (409), since the client
    would get more than the user allowed.

    The form is sent to the same address, with `csrf`, `SHOWN`, `decision` (`allow` or `deny`), and
    a box for each scope of the API.
    A user who wants to use another account signs out and returns here.
    """
    host = urlsplit(client.client_id).netloc if client.origin == "document" else ""
    name = host or named(client.name, client.id)  # nobody here has checked what it calls itself
    return visit.page(
        "consent.html",
        f"{name} gets no access" if nothing else f"Allow {name}?",
        status=409 if meanwhile else 200,
        nothing=nothing,
        meanwhile=meanwhile,
        shown=SHOWN,
        may=MAY,
        openid=OPENID_SCOPES,
        # The client may redirect on to another host, which is not known here.
        leads_anywhere=True,
        client=client,
        host=host,
        destination=urlsplit(redirect_uri).netloc or f"{urlsplit(redirect_uri).scheme}:",
        scopes=in_order(scopes),
        reads_user=not scopes.isdisjoint(SCOPES),  # any of the API's opens GET /users/me
        lasts=counted(visit.env.settings.refresh_family_days, "day"),
        address=f"{visit.request.path}?{visit.request.query_string}",
    )


AUTHORIZE = "/authorize"
_NOBODY = "No user is signed in."


async def ask(visit: Visit) -> Reply:
    """GET /authorize."""
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
        wanted = asked.wanted._replace(scopes=_grantable(visit, asked.wanted))
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
    """A refusal, but as a page where nobody is signed in and the client only has a document: anyone
    can write one, and a link to this server must not lead on to any site."""
    client_id = dict(sent_parameters(visit)).get("client_id", "")
    if visit.signed_in or not is_document(client_id):
        return returned
    return AuthorizationRefused(returned.error, returned.message)


def _back(visit: Visit, answer: Answer) -> Reply:
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
    scopes = _grantable(visit, wanted)
    return consent_page(
        visit,
        wanted.client,
        wanted.redirect_uri,
        scopes,
        nothing=bool(wanted.scopes) and not scopes,
        meanwhile=meanwhile,
    )


def _grantable(visit: Visit, wanted: ConsentRequest) -> frozenset[str]:
    return narrowed(wanted.scopes, of_role(visit.user.role))


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
        scopes = _grantable(visit, asked.wanted)
        if asked.wanted.scopes and not scopes:
            raise _refusal(visit, asked, "access_denied", "The user's role allows none of this.")
        shown = implied(frozenset(visit.form.text(SHOWN).split()))
        if visit.form.has(SHOWN) and not scopes <= shown:  # every browser sends it
            return _question(visit, asked.wanted, meanwhile=True)
        ticked = implied(frozenset(one for one in SCOPES if visit.form.has(f"{MAY}{one}")))
        ticked = scopes & ticked.union(OPENID_SCOPES)
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
        """See `PageResponder`."""
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
    pages = (*PAGES, *end_session.PAGES, *sign_in.PAGES, *sent_once.PAGES, *provider_pages(env))
    responder = AuthorizationResponder(site)
    return Mount(at.netloc, at.path, env, routes(site, pages), "auth", responder)
