"""Programs without a browser: they prove who they are by an assertion that they have signed (RFC
7523 §2.2), and get a token of their own (RFC 6749 §4.4), or one for another service in exchange for
a user's (RFC 8693)."""

from portico.change import Change
from portico.core.audit import Author
from portico.core.oauth import (
    EXCHANGED_SECONDS,
    OPENID_SCOPES,
    AuthorizationRefused,
    Client,
    asked_names,
    asked_scopes,
    implied,
    narrowed,
)
from portico.core.scopes import of_role
from portico.core.secrets import digest
from portico.core.times import MINUTE, SECOND
from portico.environment import Environment
from portico.features.access.client_keys import AssertionClaims, claimed_subject
from portico.features.access.clients import UNKNOWN, Unproven, admitted
from portico.features.access.documents import Documents
from portico.features.access.rules import TokenExchanged
from portico.features.access.signing import Signer
from portico.features.access.storage import Clients, Grants, OwnedToken
from portico.features.access.tokens import (
    ExchangedFrom,
    Issued,
    issue_alone,
    service_of,
    target,
)
from portico.features.people.storage import Users
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


async def own_token(
    env: Environment, client: Client, scope: str | None, resource: str | None, by: Author
) -> Issued:
    """A token with which a client acts as its owner, with the client's scopes that the owner's role
    has. Raises `AuthorizationRefused`."""
    await env[Signer].ready()
    asked = asked_scopes(client, scope).difference(OPENID_SCOPES)
    where = target(env, resource, asked)

    async def work(change: Change) -> Issued:
        change.noted_elsewhere()  # when the client was registered
        owner = await change.lock(env[Users], client.user_id or 0)
        if owner is None or owner.suspended_at is not None:
            raise AuthorizationRefused("invalid_grant", "The client's owner has no account.")
        if await change.lock(env[Clients], client.id) is None:
            raise AuthorizationRefused("invalid_client", "The client was deleted.")
        scopes = narrowed(asked, of_role(owner.role))
        if not scopes:
            raise AuthorizationRefused(
                "invalid_scope", "The role of the client's owner has none of its scopes."
            )
        return await issue_alone(
            env, change, client, user_id=owner.id, scopes=scopes, resource=where
        )

    return await env.change(by, work)


async def exchange_token(
    env: Environment,
    client: Client,
    subject_token: str,
    by: Author,
    *,
    resource: str | None,
    scope: str | None,
) -> Issued:
    """Exchanges a user's access token for one at another resource: with no scope that the token or
    the client lacks, and no longer valid than the token. The token must have been issued to this
    client or for its service. Raises `AuthorizationRefused`."""
    await env[Signer].ready()
    owned = await env[Grants].by_access(digest(subject_token))
    if owned is None or not owned.holds(env.clock()) or not _own(env, client, owned):
        raise AuthorizationRefused(
            "invalid_grant", "The subject_token must be a valid token of this client or service."
        )
    scopes = client.registered & implied(owned.token.scopes)
    if asked := asked_names(scope):
        scopes &= asked
    where = target(env, resource, scopes)
    if where == owned.grant.resource:
        raise AuthorizationRefused("invalid_target", "The resource must be another one.")

    async def work(change: Change) -> Issued:
        user = await change.lock(env[Users], owned.grant.user_id)
        grant = await change.lock(env[Grants], owned.grant.id)
        left = (owned.token.access_expires_at - change.now) // SECOND
        if user is None or user.suspended_at is not None or grant is None or left < 1:
            raise AuthorizationRefused("invalid_grant", "The subject_token has ended.")
        if grant.revoked_at is not None:
            raise AuthorizationRefused("invalid_grant", "The subject_token was revoked.")
        granted = narrowed(scopes, of_role(user.role))
        if not granted:
            raise AuthorizationRefused("invalid_scope", "Nothing is left that both may do.")
        what = where or env.addresses.base
        change.note(TokenExchanged(client, user.id, owned.client_id, what, granted))
        return await issue_alone(
            env,
            change,
            client,
            user_id=user.id,
            scopes=granted,
            resource=where,
            exchanged=ExchangedFrom(min(left, EXCHANGED_SECONDS), owned.grant.proof),
        )

    return await env.change(by, work)


def _own(env: Environment, client: Client, owned: OwnedToken) -> bool:
    if owned.grant.client_row_id is None:
        return False  # a login is for its own program alone
    return owned.grant.client_row_id == client.id or serves(env, client, owned)


def serves(env: Environment, client: Client, owned: OwnedToken) -> bool:
    """Whether a token is meant for the service that a client is registered with."""
    service = service_of(env, owned.grant.resource)
    return service is not None and service.name == client.service
