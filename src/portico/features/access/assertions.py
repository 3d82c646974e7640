"""Clients that prove who they are by an assertion that they have signed (RFC 7523 §2.2)."""

from portico.change import Change
from portico.core.audit import Author
from portico.core.oauth import AuthorizationRefused, Client
from portico.core.secrets import digest
from portico.core.times import MINUTE, SECOND
from portico.environment import Environment
from portico.features.access.client_keys import AssertionClaims, claimed_subject
from portico.features.access.clients import UNKNOWN, Unproven, admitted
from portico.features.access.documents import Documents
from portico.features.access.storage import Clients
from portico.features.signin.storage import FactorStore

MOST_SECONDS = 3_600
"""How long an assertion may be valid."""
MOST_JTI = 255
_AHEAD_SECONDS = 60
"""How far the clock of a client may be ahead."""


async def authenticate_by_assertion(
    env: Environment, client_id: str | None, assertion: str, by: Author
) -> Client:
    """The client that has signed an assertion, whose `jti` it uses up; `client_id` must be its own
    if it was sent. Raises `AuthorizationRefused` (`invalid_client`)."""
    claimed = claimed_subject(assertion)
    client = None if claimed is None else await env[Clients].by_client_id(claimed)
    if client is None or not client.signs or not admitted(env, client):
        raise AuthorizationRefused("invalid_client", UNKNOWN)
    if client_id not in (None, client.client_id):
        raise Unproven(client, "client_id must be the sub of the client_assertion.")
    claims = await env[Documents].claims(client, assertion)
    if claims is None:
        raise Unproven(client, "The client_assertion is not signed by a key of this client.")
    if fault := _fault(env, client, claims):
        raise Unproven(client, f"The client_assertion cannot be used: {fault}.")

    async def work(change: Change) -> bool:
        change.noted_elsewhere()  # what the client does with it
        used = digest(f"{client.client_id} {claims.jti}")
        # A minute longer, since the clocks of hosts differ.
        until = int(claims.exp) * SECOND + MINUTE
        return await env[FactorStore].use_challenge(change.tx, used, until)

    if not await env.change(by, work):
        raise Unproven(client, "The client_assertion cannot be used: its jti was used before.")
    return client


def _fault(env: Environment, client: Client, claims: AssertionClaims) -> str | None:
    """What is wrong with the claims of an assertion, if anything is."""
    now = env.clock() / SECOND
    auth = env.addresses.auth
    audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
    began = now if claims.iat is None else claims.iat
    if not claims.iss == claims.sub == client.client_id:
        return "iss and sub must be the client_id"
    if not {auth, f"{auth}/token"} & {*audiences}:
        return f"aud must be {auth}"
    if claims.exp <= now:
        return "it has expired"
    if max(began, claims.nbf or 0) > now + _AHEAD_SECONDS:
        return "iat or nbf lies in the future"
    if claims.exp - began > MOST_SECONDS:
        return "it must be valid for an hour at most"
    if not 1 <= len(claims.jti) <= MOST_JTI:
        return f"jti must have 1 to {MOST_JTI} characters"
    return None
