"""Use cases of OAuth 2.0: grant a code, exchange it, revoke and introspect tokens.

RFC 6749 as RFC 9700 would have it; RFC 7009, 7662 and OpenID Connect Core.
"""

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from portico.domain.audit import Actor
from portico.domain.oauth import (
    CODE_SECONDS,
    REFRESH_SECONDS,
    Client,
    Refused,
    narrowed,
    spelled,
    verified,
)
from portico.domain.scopes import ROLE_SCOPES
from portico.domain.secrets import ACCESS_TOKEN, AUTHORIZATION_CODE, digest, mint
from portico.domain.times import SECOND
from portico.services.credentials import living
from portico.services.environment import Environment
from portico.services.tokens import Pair, issue, refreshable
from portico.storage.database import Transaction
from portico.storage.grants import Code, OwnedToken

_INVALID = "This code is not valid, has expired or was used before."


class Wish(NamedTuple):
    """What a client asks a user for, checked. `scopes` may go beyond the user's role."""

    client: Client
    redirect_uri: str
    scopes: frozenset[str]
    nonce: str | None
    code_challenge: str | None


class Exchange(NamedTuple):
    """What a client sends for a code."""

    code: str
    redirect_uri: str
    verifier: str | None


class Exchanged(NamedTuple):
    """What a code bought; `id_token` only for the scope `openid`."""

    pair: Pair
    id_token: str | None


async def grant_code(env: Environment, wish: Wish, *, signed_in_at: int, by: Actor) -> str:
    """A code for what the user of `by` grants: narrowed to their role. Raises `Refused`."""
    code = mint(AUTHORIZATION_CODE, env.random(32))
    now = env.clock()
    async with env.db.transaction() as tx:
        user = await env.users.get(by.user_id or 0, tx)
        if user is None or await env.clients.get(wish.client.id, tx) is None:
            raise Refused("invalid_request", "This account or this application is gone.")
        scopes = narrowed(wish.scopes, ROLE_SCOPES[user.role])
        await env.grants.add_code(
            tx,
            digest(code),
            Code(
                client_id=wish.client.id,
                user_id=user.id,
                redirect_uri=wish.redirect_uri,
                scopes=scopes,
                nonce=wish.nonce,
                code_challenge=wish.code_challenge,
                signed_in_at=signed_in_at,
                expires_at=now + CODE_SECONDS * SECOND,
            ),
        )
        await env.audit.record(
            tx,
            by,
            now,
            "client.authorized",
            target="client",
            target_id=wish.client.client_id,
            details={"scopes": spelled(scopes)},
        )
    return code


async def exchange_code(
    env: Environment, client: Client, exchange: Exchange, by: Actor
) -> Exchanged:
    """Exchanges a code for tokens (RFC 6749 §4.1.3). Raises `Refused`.

    A code that comes a second time ends what it bought the first time.
    """
    await env.signer.ready()
    code_hash = digest(exchange.code)
    found = await env.grants.code(code_hash)
    if found is None or found.client_id != client.id:
        raise Refused("invalid_grant", _INVALID)
    async with env.db.transaction() as tx:
        # The user first, as whoever ends all of a user's codes has it: see `sign_in.still`.
        user = await env.users.get(found.user_id, tx)
        code = await env.grants.code(code_hash, tx)
        if user is None or code is None:
            raise Refused("invalid_grant", _INVALID)
        if code.grant_id is None:
            code = msgspec.structs.replace(
                code, scopes=narrowed(code.scopes, ROLE_SCOPES[user.role])
            )
            return await _spend(env, tx, client, code, code_hash, exchange, by)
        if await env.grants.revoke(tx, code.grant_id, env.clock()):
            details = {"user_id": code.user_id, "reason": "an authorization code was used twice"}
            await env.audit.record(
                tx,
                by,
                env.clock(),
                "grant.revoked",
                target="grant",
                target_id=code.grant_id,
                details=details,
            )
    raise Refused("invalid_grant", _INVALID)


async def _spend(
    env: Environment,
    tx: Transaction,
    client: Client,
    code: Code,
    code_hash: bytes,
    exchange: Exchange,
    by: Actor,
) -> Exchanged:
    now = env.clock()
    if now >= code.expires_at:
        raise Refused("invalid_grant", _INVALID)
    if exchange.redirect_uri != code.redirect_uri:
        raise Refused("invalid_grant", "The redirect_uri is not the one that the code was for.")
    if not verified(code.code_challenge, exchange.verifier):
        raise Refused("invalid_grant", "The code_verifier does not belong to this code.")
    grant = await env.grants.insert(
        tx,
        user_id=code.user_id,
        client_id=client.id,
        scopes=code.scopes,
        address=by.address or "",
        user_agent="",
        now=now,
        expires_at=now + REFRESH_SECONDS * SECOND,
    )
    await env.grants.spend_code(tx, code_hash, grant.id)
    access_token = mint(ACCESS_TOKEN, env.random(32))
    pair = await issue(env, tx, grant.id, access_token, code.scopes, now)
    if "openid" not in code.scopes:
        return Exchanged(pair, None)
    return Exchanged(pair, env.signer.sign(_identity(client, code, access_token), now))


def _identity(client: Client, code: Code, access_token: str) -> dict[str, Any]:
    """The claims of an ID token (OpenID Connect Core §2 and §3.1.3.6)."""
    half = sha256(access_token.encode()).digest()[:16]
    claims: dict[str, Any] = {
        "sub": str(code.user_id),
        "aud": client.client_id,
        "auth_time": code.signed_in_at // SECOND,
        "at_hash": urlsafe_b64encode(half).decode().rstrip("="),
    }
    if code.nonce is not None:
        claims["nonce"] = code.nonce
    return claims


async def revoke_token(env: Environment, client: Client, token: str, by: Actor) -> None:
    """Ends a client's own token (RFC 7009): an access token alone, a refresh token with its whole
    family. What is unknown or another's is left as it is, without an error."""
    token_hash = digest(token)
    refresh = await env.grants.by_refresh(token_hash)
    owned = refresh or await env.grants.by_access(token_hash)
    if owned is None or owned.grant.client_id != client.id:
        return
    now = env.clock()
    async with env.db.transaction() as tx:
        if refresh is None:
            await env.grants.end_access(tx, owned.token.id, now)
        elif await env.grants.revoke(tx, owned.grant.id, now):
            await env.audit.record(
                tx,
                by,
                now,
                "grant.revoked",
                target="grant",
                target_id=owned.grant.id,
                details={"user_id": owned.grant.user_id, "reason": "the client revoked it"},
            )


async def introspect(env: Environment, client: Client, token: str) -> dict[str, Any]:
    """What is to be known of a client's own token (RFC 7662 §2.2); of any other, that it is not
    active."""
    now = env.clock()
    token_hash = digest(token)
    owned = await env.grants.by_access(token_hash)
    if owned is not None and owned.grant.client_id == client.id and living(owned, now):
        end, scopes = owned.token.access_expires_at, owned.token.scopes
        facts = _facts(env, client, owned, end, scopes)
        return {"active": True, "token_type": "Bearer", **facts}
    owned = await env.grants.by_refresh(token_hash)
    if owned is None or owned.grant.client_id != client.id or owned.token.used_at is not None:
        return {"active": False}
    if not refreshable(owned, now):
        return {"active": False}
    end, scopes = owned.token.refresh_expires_at, owned.grant.scopes
    return {"active": True, **_facts(env, client, owned, end, scopes)}


def _facts(
    env: Environment, client: Client, owned: OwnedToken, end: int, scopes: frozenset[str]
) -> dict[str, Any]:
    name = {"username": owned.email} if "email" in scopes else {}
    return {
        **name,
        "scope": spelled(narrowed(scopes, ROLE_SCOPES[owned.role])),
        "client_id": client.client_id,
        "sub": str(owned.grant.user_id),
        "aud": env.addresses.base,
        "iss": env.addresses.auth,
        "iat": owned.token.created_at // SECOND,
        "exp": end // SECOND,
    }
