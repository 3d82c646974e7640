"""Signing out at the wish of a client (OpenID Connect RP-Initiated Logout 1.0)."""

from collections.abc import Sequence
from typing import NamedTuple

from portico.core.oauth import AuthorizationRefused
from portico.core.sessions import Session
from portico.environment import Environment
from portico.features.access.authorization import MAX_LENGTH, MAX_STATE_LENGTH, AuthorizationAnswer
from portico.features.access.signing import Claims, Signer
from portico.features.access.storage import Clients

PARAMETERS = ("id_token_hint", "client_id", "post_logout_redirect_uri", "state")


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
    return LogoutRequest(client.name if client else "", onward, hint)
