"""Use cases of access and refresh tokens: issue a pair, rotate it, end its family.

A family ends `refresh_family_days` after it began, however often it is refreshed. A refresh token
can be used once. A second use means that the token was copied: the whole family is revoked
(RFC 9700 §4.14) before the request is answered.

A token is for the API, a service of the team, or the tools of agents (RFC 8707), and good there
alone. In storage and for callers, None is the API.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, NamedTuple

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import AuthenticationRequired, OutcomeUnknown
from portico.core.oauth import (
    ACCESS_SECONDS,
    OPENID_SCOPES,
    REFRESH_SECONDS,
    AuthorizationRefused,
    Client,
    asked_names,
    implied,
    narrowed,
    spelled,
)
from portico.core.scopes import of_role
from portico.core.secrets import ACCESS_TOKEN, REFRESH_TOKEN, base64url, digest, mint
from portico.core.services import Service
from portico.core.sessions import Proof, level
from portico.core.times import DAY, SECOND
from portico.core.users import User
from portico.environment import Environment
from portico.features.access.signing import ACCESS_TOKEN_TYPE, Signer
from portico.features.access.storage import Grant, Grants, OwnedToken, Token
from portico.features.people.storage import Users
from portico.features.signin.rules import GrantRevoked
from portico.features.signin.schemas import personal_claims
from portico.features.signin.service import (
    Attempt,
    lock_proven_user,
    note_sign_in,
    prove,
    tell_new_device,
)
from portico.features.signin.sessions import USER_AGENT_LENGTH

USED = "This refresh token is not valid, has expired or was used before."


@contextmanager
def good_for_one_use() -> Iterator[None]:
    """Adds to `OutcomeUnknown` what to do if the token or code has been used up."""
    try:
        yield
    except OutcomeUnknown as error:
        raise OutcomeUnknown("If a repeat is refused, sign in again.") from error


class Pair(NamedTuple):
    """An access token, the refresh token that replaces it, and how long and for which scopes the
    access token is valid."""

    access_token: str
    refresh_token: str
    scopes: frozenset[str]
    seconds: int = ACCESS_SECONDS


class ExchangedFrom(NamedTuple):
    """What a token that is exchanged passes on: how long it is still valid, ten minutes at most,
    and how its user signed in."""

    seconds: int
    proof: Proof


class Issued(NamedTuple):
    """The tokens issued to a client; `id_token` only with the scope `openid`."""

    pair: Pair
    id_token: str | None


async def log_in(env: Environment, attempt: Attempt, *, user_agent: str) -> Pair:
    """Signs in for a JWT. Raises what `prove` raises."""
    proven = await prove(env, attempt)
    user = proven.user
    await env[Signer].ready()

    async def work(change: Change) -> Pair:
        current = await lock_proven_user(env, change, proven)
        proof = Proof(proven.amr, change.now)
        grant = await begin(
            *(env, change, None, user.id),
            scopes=frozenset(),
            proof=proof,
            user_agent=user_agent[:USER_AGENT_LENGTH],
        )
        entered = await note_sign_in(env, change, current, proven, "jwt", grant.id)
        access_token = login_token(env, user.id, current.name, current.role, change.now)
        if entered.is_new_device:
            await tell_new_device(env, change, entered.user, user_agent)
        return await issue(env, change, grant, access_token, frozenset())

    return await env.change(proven.by(attempt.by), work)


async def refresh_login(env: Environment, refresh_token: str, by: Author) -> Pair:
    """Rotates the refresh token of a login. Raises `AuthenticationRequired`."""
    owned = await env[Grants].by_refresh(digest(refresh_token))
    now = env.clock()
    if owned is None or owned.grant.client_row_id is not None or not refreshable(env, owned, now):
        raise AuthenticationRequired(USED)
    await env[Signer].ready()
    access_token = login_token(env, owned.grant.user_id, owned.name, owned.role, now)
    pair = await _rotate(env, owned, access_token, frozenset(), by)
    if pair is None:
        raise AuthenticationRequired(USED)
    return pair


async def refresh(
    env: Environment,
    client: Client,
    refresh_token: str,
    by: Author,
    *,
    asked: str | None = None,
    resource: str | None = None,
) -> Issued:
    """Rotates a client's refresh token; `asked` may narrow the access token's scopes (RFC 6749 §6),
    and `resource` may say again what it is for.

    Scopes that the client is no longer registered for, or that the user's role no longer has, are
    left out. Raises `AuthorizationRefused`.
    """
    owned = await env[Grants].by_refresh(digest(refresh_token))
    now = env.clock()
    if owned is None or owned.grant.client_row_id != client.id or not refreshable(env, owned, now):
        raise AuthorizationRefused("invalid_grant", USED)
    scopes = owned.grant.scopes
    if narrower := asked_names(asked):
        scopes = narrower & implied(scopes)
    if owned.token.used_at is None:  # a used token must reach `_rotate` below
        check_same(env, resource, owned.grant.resource)
        if narrower and not scopes:
            raise AuthorizationRefused("invalid_scope", "None of these scopes was granted.")
    scopes &= client.registered
    scopes = narrowed(scopes, of_role(owned.role))
    await env[Signer].ready()
    access_token = access_token_for(env, client, owned.grant, scopes, now)
    pair = await _rotate(env, owned, access_token, scopes, by)
    if pair is None:
        raise AuthorizationRefused("invalid_grant", USED)
    user = await env[Users].get(owned.grant.user_id)
    signed = None if user is None else id_token(env, client, owned.grant, user, pair, now)
    return Issued(pair, signed)


async def begin(
    env: Environment,
    change: Change,
    client: Client | None,
    user_id: int,
    *,
    scopes: frozenset[str],
    proof: Proof,
    resource: str | None = None,
    user_agent: str = "",
) -> Grant:
    """Stores a user's new grant to a client, or a login if there is no client. It lasts as long as
    the tokens that are issued in the same change."""
    grant = Grant(
        id=0,
        user_id=user_id,
        client_row_id=client.id if client else None,
        scopes=scopes,
        address=change.by.address,
        user_agent=user_agent,
        created_at=change.now,
        last_used_at=change.now,
        expires_at=change.now,
        revoked_at=None,
        amr=proof.amr,
        proved_at=proof.at,
        resource=resource,
        sid=proof.sid,
    )
    return await env[Grants].insert(change.tx, grant)


async def issue_first(
    env: Environment,
    change: Change,
    client: Client,
    grant: Grant,
    user: User,
    nonce: str | None = None,
) -> Issued:
    """Issues the first tokens of a grant. Call `Signer.ready` first."""
    now, scopes = change.now, grant.scopes
    access_token = access_token_for(env, client, grant, scopes, now)
    pair = await issue(env, change, grant, access_token, scopes)
    return Issued(pair, id_token(env, client, grant, user, pair, now, nonce))


def id_token(
    env: Environment,
    client: Client,
    grant: Grant,
    user: User,
    pair: Pair,
    now: int,
    nonce: str | None = None,
) -> str | None:
    """An ID token (OpenID Connect Core §2, §3.1.3.6 and §12.2), with the scope `openid` alone. Call
    `Signer.ready` first."""
    if "openid" not in pair.scopes:
        return None
    half = sha256(pair.access_token.encode()).digest()[:16]
    claims = {
        "sub": str(user.id),
        "aud": client.client_id,
        **proven(grant.proof),
        **_session(grant),
        "at_hash": base64url(half),
        **personal_claims(user, pair.scopes),
    }
    if nonce is not None:
        claims["nonce"] = nonce
    return env[Signer].sign(claims, now)


def _session(grant: Grant) -> dict[str, str]:
    """The claim about the browser's session, if the grant was made in one."""
    return {} if grant.sid is None else {"sid": grant.sid}


def proven(proof: Proof) -> dict[str, Any]:
    """The claims about how and when the user signed in."""
    return {"auth_time": proof.at // SECOND, "acr": level(proof.amr), "amr": list(proof.amr)}


def login_token(env: Environment, user_id: int, name: str, role: str, now: int) -> str:
    """A JWT with the claims of specification §2.5."""
    claims = {
        "sub": str(user_id),
        "name": name,
        "role": role,
        "aud": env.addresses.base,
        "jti": env.random(16).hex(),
    }
    return env[Signer].sign(claims, now)


def access_token_for(
    env: Environment,
    client: Client,
    grant: Grant,
    scopes: frozenset[str],
    now: int,
    exchanged: ExchangedFrom | None = None,
) -> str:
    """A new access token of a grant: a JWT (RFC 9068) where it is for a service, which can verify
    it alone, else opaque."""
    service = service_of(env, grant.resource)
    if service is None:
        return mint(ACCESS_TOKEN, env.random)
    claims: dict[str, Any] = {
        "sub": str(grant.user_id),
        "aud": grant.resource,
        "client_id": client.client_id,
        "scope": spelled(scopes),
        **_session(grant),
        "jti": env.random(16).hex(),
        "exp": now // SECOND + access_seconds(env, grant, exchanged),
    }
    if exchanged is not None:
        claims["act"] = {"sub": client.client_id}  # RFC 8693 §4.1
    return env[Signer].sign(claims, now, ACCESS_TOKEN_TYPE)


def access_seconds(env: Environment, grant: Grant, exchanged: ExchangedFrom | None = None) -> int:
    """How long an access token of a grant is valid."""
    service = service_of(env, grant.resource)
    seconds = service.token_seconds if service else ACCESS_SECONDS
    return seconds if exchanged is None else min(seconds, exchanged.seconds)


async def issue_alone(
    env: Environment,
    change: Change,
    client: Client,
    *,
    user_id: int,
    scopes: frozenset[str],
    resource: str | None,
    exchanged: ExchangedFrom | None = None,
) -> Issued:
    """Issues an access token without a refresh token, by a grant of its own."""
    grant = await begin(
        *(env, change, client, user_id),
        scopes=scopes,
        proof=exchanged.proof if exchanged else Proof((), change.now),
        resource=resource,
    )
    access_token = access_token_for(env, client, grant, scopes, change.now, exchanged)
    seconds = access_seconds(env, grant, exchanged)
    return Issued(await issue(env, change, grant, access_token, scopes, alone_for=seconds), None)


async def issue(
    env: Environment,
    change: Change,
    grant: Grant,
    access_token: str,
    scopes: frozenset[str],
    *,
    alone_for: int | None = None,
) -> Pair:
    """Stores an access token and a new refresh token of a grant's family; with `alone_for` (in
    seconds) nobody gets the refresh token."""
    refresh_token, seconds = (
        mint(REFRESH_TOKEN, env.random),
        alone_for or access_seconds(env, grant),
    )
    access_end = change.now // SECOND * SECOND + seconds * SECOND
    refresh_end = min(change.now + REFRESH_SECONDS * SECOND, _family_end(env, grant))
    pair = Token(
        id=0,
        grant_id=grant.id,
        scopes=scopes,
        created_at=change.now,
        access_expires_at=access_end,
        refresh_expires_at=access_end if alone_for else refresh_end,
        used_at=None,
    )
    hashes = {"refresh_hash": digest(refresh_token), "access_hash": digest(access_token)}
    await env[Grants].issue(change.tx, pair, **hashes)
    return Pair(access_token, "" if alone_for else refresh_token, scopes, seconds)


def refresh_end(env: Environment, owned: OwnedToken) -> int:
    """When a refresh token expires: no later than its family, even if `refresh_family_days` was
    higher when the token was issued."""
    return min(owned.token.refresh_expires_at, _family_end(env, owned.grant))


def refreshable(env: Environment, owned: OwnedToken, now: int) -> bool:
    """Whether a refresh token may still be used: its family is not revoked, neither has expired,
    and its user is not suspended."""
    if owned.suspended_at is not None:
        return False
    return owned.grant.revoked_at is None and now < refresh_end(env, owned)


async def user_of(
    env: Environment, client: Client, code: str | None, refresh_token: str | None
) -> int | None:
    """The user of a client's code or refresh token, if either is still good."""
    now, grants = env.clock(), env[Grants]
    found = await grants.code(digest(code)) if code else None
    if found and found.client_row_id == client.id and not found.grant_id and now < found.expires_at:
        return found.user_id
    owned = await grants.by_refresh(digest(refresh_token)) if refresh_token else None
    if owned and owned.grant.client_row_id == client.id and refreshable(env, owned, now):
        return owned.grant.user_id
    return None


def _family_end(env: Environment, grant: Grant) -> int:
    return grant.created_at + env.settings.refresh_family_days * DAY


async def _rotate(
    env: Environment, owned: OwnedToken, access_token: str, scopes: frozenset[str], by: Author
) -> Pair | None:
    """The successor of a pair. If it has one already, revokes the family and returns None."""

    async def work(change: Change) -> Pair | None:
        grant = await change.lock(env[Grants], owned.grant.id)
        if grant is None or grant.revoked_at is not None:
            return None
        fresh = await env[Grants].use(change.tx, owned.token.id, change.now)
        if fresh or await _may_repeat(env, change, owned):
            change.noted_elsewhere()  # when the user signed in
            return await issue(env, change, grant, access_token, scopes)
        await env[Grants].revoke(change.tx, grant.id, change.now)
        why = {"reason": "a refresh token was used twice"}
        change.note(GrantRevoked(grant.id, grant.user_id, why))
        return None

    with good_for_one_use():
        return await env.change(by, work)


async def _may_repeat(env: Environment, change: Change, owned: OwnedToken) -> bool:
    """Whether a refresh token that was used may be used once more: it is a client's, the one that
    its family used last, and within `refresh_grace_seconds` of that."""
    seconds = env.settings.refresh_grace_seconds
    if not seconds or owned.grant.client_row_id is None:
        return False
    last = await env[Grants].last_used(change.tx, owned.grant.id)
    return (
        last is not None and last[0] == owned.token.id and change.now < last[1] + seconds * SECOND
    )


def agents_address(base: str) -> str:
    """The address of the tools of agents (MCP), beside the API at `base`."""
    return f"{base}/mcp"


def target(env: Environment, asked: str | None, scopes: frozenset[str]) -> str | None:
    """What a token is for: what the client asked for as `resource`, or else the one service that
    all these scopes of the API belong to. Raises `AuthorizationRefused` (`invalid_target`)."""
    base, services = env.addresses.base, env.settings.declared.services.values()
    if asked is None:
        own = scopes.difference(OPENID_SCOPES)
        only = (one for one in services if own and own <= one.scopes.keys())
        return next((one.audience_at(base) for one in only), None)
    if asked == base:
        return None
    if asked == agents_address(base):
        return asked
    for service in services:
        if asked in service.names_at(base):
            return service.audience_at(base)
    raise AuthorizationRefused(
        "invalid_target", f"resource must be {base}, one of its services, or omitted."
    )


def check_same(env: Environment, asked: str | None, bound: str | None) -> None:
    """Sees that a client asks for what its grant is bound to, if it asks for anything. Raises
    `AuthorizationRefused` (`invalid_target`)."""
    if asked is not None and target(env, asked, frozenset()) != bound:
        raise AuthorizationRefused(
            "invalid_target", "resource must be the one that was granted, or omitted."
        )


def service_of(env: Environment, resource: str | None) -> Service | None:
    """The service with this audience, if any."""
    for service in env.settings.declared.services.values():
        if resource == service.audience_at(env.addresses.base):
            return service
    return None
