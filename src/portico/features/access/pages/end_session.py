"""The end-session endpoint: signs the user out, and sends the browser back to the client.

OpenID Connect RP-Initiated Logout 1.0. Only a client that shows an ID token of the very session
ends it at once; otherwise the user is asked, since a link on any page may lead here.
"""

from portico.core.errors import AuthenticationRequired
from portico.core.oauth import AuthorizationRefused
from portico.features.access.logout import PARAMETERS, LogoutRequest, read_logout
from portico.features.access.pages.oauth_requests import refusal_page, sent_parameters
from portico.features.signin.pages.sign_in import signed_out
from portico.features.signin.sessions import close_session, read_session
from portico.web.messages import Reply
from portico.web.pages.site import PageRoute, Visit, check_token, see_other
from portico.web.routing import Access

END_SESSION = "/end_session"


async def ask(visit: Visit) -> Reply:
    """GET /end_session."""
    try:
        asked = await read_logout(visit.env, sent_parameters(visit))
    except AuthorizationRefused as refused:
        return refusal_page(visit, refused)
    if not visit.signed_in:
        if visit.cookie_kept_back:
            raise AuthenticationRequired("The cookie was withheld. Load the page again.")
        return _onward(visit, asked)
    if asked.is_of(await read_session(visit.env, visit.session_id)):
        await close_session(visit.env, visit.request.by)
        return _onward(visit, asked)
    return visit.page(
        "end_session.html",
        "Sign out?",
        leads_anywhere=bool(asked.onward),
        private_address=True,
        client=asked.client,
        action=f"{END_SESSION}/confirm",
        fields=[pair for pair in sent_parameters(visit) if pair[0] in PARAMETERS],
    )


async def confirm(visit: Visit) -> Reply:
    """POST /end_session/confirm: the user's answer, with the client's parameters."""
    try:
        asked = await read_logout(visit.env, visit.form.pairs(but=()))
    except AuthorizationRefused as refused:
        return refusal_page(visit, refused)
    if visit.signed_in:
        check_token(visit.form, visit.site.accounts.cookie.read(visit.request.headers))
        await close_session(visit.env, visit.request.by)
    return _onward(visit, asked)


def _onward(visit: Visit, asked: LogoutRequest) -> Reply:
    reply = see_other(asked.onward) if asked.onward else visit.go("/sign-in", done="signed-out")
    return signed_out(visit, reply)


PAGES = (
    PageRoute("GET", END_SESSION, ask, Access.ANYONE, never_refused=True),
    PageRoute("POST", END_SESSION, ask, Access.ANYONE, never_refused=True),
    PageRoute("POST", f"{END_SESSION}/confirm", confirm, Access.ANYONE, never_refused=True),
)
