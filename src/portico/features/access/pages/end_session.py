"""The end-session endpoint: signs the user out, and sends the browser back to the client.

OpenID Connect RP-Initiated Logout 1.0. Only a client that shows an ID token of the very session
ends it at once; otherwise the user is asked, since a link on any page may lead here.
"""

from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl

from portico.core.errors import AuthenticationRequired
from portico.core.oauth import AuthorizationRefused
from portico.core.sessions import Session
from portico.environment import Environment
from portico.features.access.authorization import (
    MAX_LENGTH,
    MAX_STATE_LENGTH,
    AuthorizationAnswer,
    Parameters,
)
from portico.features.access.signing import Claims, Signer
from portico.features.access.storage import Clients
from portico.features.signin.pages.sign_in import signed_out
from portico.features.signin.sessions import close_session, read_session
from portico.web.messages import Reply
from portico.web.pages.site import PageRoute, Visit, check_token, see_other
from portico.web.routing import Access

END_SESSION = "/end_session"
PARAMETERS = ("id_token_hint", "client_id", "post_logout_redirect_uri", "state")
MAX_PARAMETERS = 50


def sent_parameters(visit: Visit) -> Parameters:
    """The parameters in the address. Raises `AuthorizationRefused`."""
    try:
        return parse_qsl(
            visit.request.query_string,
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_PARAMETERS,
        )
    except ValueError:
        raise AuthorizationRefused("invalid_request", "The address cannot be read.") from None


def refusal_page(visit: Visit, refused: AuthorizationRefused) -> Reply:
    """Tell the user that the client's request is invalid (400); nothing is sent to the client."""
    return visit.page(
        "oauth_error.html",
        "Authorization failed",
        status=400,
        error=refused.error,
        message=refused.message,
    )


class LogoutRequest(NamedTuple):
    """A valid request. `client` is the name of the client if it is known, `onward` the address that
    the browser goes to afterwards, empty for none. `hint` are the claims of an ID token of ours."""

    client: str
    onward: str
    hint: Claims | None

    def is_of(self, session: Session) -> bool:
        """Whether the client has shown that it knows this very session, so that nobody need be
        asked."""
        hint = self.hint
        return hint is not None and (hint.sub, hint.sid) == (str(session.user_id), session.sid)


async def read_logout(env: Environment, parameters: Sequence[tuple[str, str]]) -> LogoutRequest:
    """The request with these parameters. Unknown ones are ignored, and empty ones count as omitted;
    a hint that is no ID token of ours counts as none. Raises `AuthorizationRefused`."""
    known = {name: value for name, value in parameters if name in PARAMETERS and value}
    if len(known) < len([name for name, value in parameters if name in known and value]):
        raise AuthorizationRefused("invalid_request", "A parameter was sent more than once.")
    for name, value in known.items():
        most = MAX_STATE_LENGTH if name == "state" else MAX_LENGTH
        if (len(value) > most and name != "id_token_hint") or not value.isprintable():
            raise AuthorizationRefused("invalid_request", f"{name} cannot be read.")
    hint = await env[Signer].claims_of(known.get("id_token_hint", ""))
    client_id = known.get("client_id", hint.aud if hint else "")
    client = await env[Clients].by_client_id(client_id)
    if hint is not None and (client is None or hint.aud != client_id):
        raise AuthorizationRefused(
            "invalid_request", "id_token_hint must be an ID token of this client."
        )
    uri = known.get("post_logout_redirect_uri", "")
    if uri and (client is None or uri not in client.post_logout_redirect_uris):
        raise AuthorizationRefused(
            "invalid_request",
            "This post_logout_redirect_uri is not registered for the application.",
        )
    state = {"state": known["state"]} if "state" in known else {}
    onward = AuthorizationAnswer(uri, state).address if state and uri else uri
    return LogoutRequest(client.title if client else "", onward, hint)


async def ask(visit: Visit) -> Reply:
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
