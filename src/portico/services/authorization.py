"""Use cases of OAuth 2.0: grant a code, exchange it, revoke and introspect tokens.

Implements RFC 6749 with the security practice of RFC 9700, RFC 7009, RFC 7662 and OpenID Connect
Core.
"""

from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from portico.domain.audit import By
from portico.domain.base64url import base64url
from portico.domain.events.clients import ClientAuthorized
from portico.domain.events.signing_in import GrantRevoked
from portico.domain.oauth import (
    CODE_SECONDS,
    REFRESH_SECONDS,
    Client,
    Refused,
    narrowed,
    spelled,
    verified,
)
from portico.domain.proofs import Proof, level
from portico.domain.scopes import of_role
from portico.domain.secrets import ACCESS_TOKEN, AUTHORIZATION_CODE, digest, mint
from portico.domain.times import SECOND
from portico.services.change import Change
from portico.services.environment import Environment
from portico.services.signing import Signer
from portico.services.tokens import Pair, good_for_one_use, issue, refresh_end, refreshable
from portico.storage.clients import Clients
from portico.storage.grants import Code, Grants, OwnedToken
from portico.storage.users import Users

_INVALID = "This code is not valid, has expired or was used before."


class ConsentRequest(NamedTuple):
    """What a client asks a user for, validated. `scopes` may exceed the user's role; they are
    narrowed to it when the user grants them."""

    client: Client
    redirect_uri: str
    scopes: frozenset[str]
    nonce: str | None
    code_challenge: str | None


class Exchange(NamedTuple):
    """What a client sends to exchange a code."""

    code: str
    redirect_uri: str
    verifier: str | None


class Exchanged(NamedTuple):
    """The tokens issued for a code; `id_token` only with the scope `openid`."""

    pair: Pair
    id_token: str | None


async def grant_code(env: Environment, wanted: ConsentRequest, proof: Proof, by: By) -> str:
    """Issues a code for what the user of `by` grants, narrowed to their role; `proof` is how and
    when they authenticated. Raises `Refused`."""
    code = mint(AUTHORIZATION_CODE, env.random)

    async def work(change: Change) -> None:
        user = await change.lock(env[Users], by.actor.user_id or 0)
        client = await change.lock(env[Clients], wanted.client.id)
        if user is None or user.suspended_at is not None or client is None:
            raise Refused(
                "invalid_request",
                "The account was suspended or deleted, or the application was deleted.",
            )
        granted = Code(
            client_row_id=client.id,
            user_id=user.id,
            redirect_uri=wanted.redirect_uri,
            scopes=narrowed(wanted.scopes, of_role(user.role)),
            nonce=wanted.nonce,
            code_challenge=wanted.code_challenge,
            signed_in_at=proof.at,
            amr=proof.amr,
            expires_at=change.now + CODE_SECONDS * SECOND,
        )
        await env[Grants].add_code(change.tx, digest(code), granted)
        change.note(ClientAuthorized(client, granted.scopes))

    await env.change(by, work)
    return code


async def exchange_code(env: Environment, client: Client, exchange: Exchange, by: By) -> Exchanged:
    """Exchanges a code for tokens (RFC 6749 §4.1.3). Raises `Refused`.

    If a code is used a second time, the tokens of the first exchange are revoked.
    """
    await env[Signer].ready()
    code_hash = digest(exchange.code)
    found = await env[Grants].code(code_hash)
    if found is None or found.client_row_id != client.id:
        raise Refused("invalid_grant", _INVALID)

    async def work(change: Change) -> Exchanged | None:
        user = await change.lock(env[Users], found.user_id)
        if user is None or user.suspended_at is not None:
            return None
        if await change.lock(env[Clients], client.id) is None:
            return None
        code = await env[Grants].code(code_hash, change.tx)
        if code is None:
            return None
        if code.grant_id is None:
            narrow = narrowed(code.scopes, of_role(user.role))
            code = msgspec.structs.replace(code, scopes=narrow)
            return await _spend(env, change, client, code, code_hash, exchange)
        if await env[Grants].revoke(change.tx, code.grant_id, change.now):
            why = {"reason": "an authorization code was used twice"}
            change.note(GrantRevoked(code.grant_id, code.user_id, why))
        return None

    with good_for_one_use():
        exchanged = await env.change(by, work)
    if exchanged is None:
        raise Refused("invalid_grant", _INVALID)
    return exchanged


async def _spend(
    env: Environment,
    change: Change,
    client: Client,
    code: Code,
    code_hash: bytes,
    exchange: Exchange,
) -> Exchanged:
    now = change.now
    if now >= code.expires_at:
        raise Refused("invalid_grant", _INVALID)
    if exchange.redirect_uri != code.redirect_uri:
        raise Refused("invalid_grant", "The code was issued for another redirect_uri.")
    if not verified(code.code_challenge, exchange.verifier):
        raise Refused("invalid_grant", "The code_verifier does not match this code.")
    change.noted_elsewhere()  # when the user gave the consent
    grant = await env[Grants].insert(
        change.tx,
        user_id=code.user_id,
        client_row_id=client.id,
        scopes=code.scopes,
        address=change.by.address,
        user_agent="",
        proof=code.proof,
        now=now,
        expires_at=now + REFRESH_SECONDS * SECOND,
    )
    await env[Grants].spend_code(change.tx, code_hash, grant.id)
    access_token = mint(ACCESS_TOKEN, env.random)
    pair = await issue(env, change, grant, access_token, code.scopes)
    if "openid" not in code.scopes:
        return Exchanged(pair, None)
    return Exchanged(pair, env[Signer].sign(_identity(client, code, access_token), now))


def _identity(client: Client, code: Code, access_token: str) -> dict[str, Any]:
    """The claims of an ID token (OpenID Connect Core §2 and §3.1.3.6)."""
    half = sha256(access_token.encode()).digest()[:16]
    claims: dict[str, Any] = {
        "sub": str(code.user_id),
        "aud": client.client_id,
        **_proven(code.proof),
        "at_hash": base64url(half),
    }
    if code.nonce is not None:
        claims["nonce"] = code.nonce
    return claims


def _proven(proof: Proof) -> dict[str, Any]:
    """The claims about how and when the user signed in."""
    return {"auth_time": proof.at // SECOND, "acr": level(proof.amr), "amr": list(proof.amr)}


async def revoke_token(env: Environment, client: Client, token: str, by: By) -> None:
    """Revokes a client's own token (RFC 7009): an access token alone, a refresh token with its
    whole family. Unknown tokens are ignored. Raises `Refused` for another client's token."""
    token_hash = digest(token)
    refresh = await env[Grants].by_refresh(token_hash)
    owned = refresh or await env[Grants].by_access(token_hash)
    if owned is None:
        return
    if owned.grant.client_row_id != client.id:
        raise Refused("invalid_grant", "This token was not issued to this client.")

    async def work(change: Change) -> None:
        if refresh is None:
            change.noted_elsewhere()  # not worth a note: it expires within the hour anyway
            await env[Grants].end_access(change.tx, owned.token.id)
        elif await env[Grants].revoke(change.tx, owned.grant.id, change.now):
            why = {"reason": "the client revoked it"}
            change.note(GrantRevoked(owned.grant.id, owned.grant.user_id, why))

    await env.change(by, work)


async def introspect(env: Environment, client: Client, token: str) -> dict[str, Any]:
    """Describes a client's own token (RFC 7662 §2.2); any other is reported as not active."""
    now = env.clock()
    token_hash = digest(token)
    owned = await env[Grants].by_access(token_hash)
    if owned is not None and owned.grant.client_row_id == client.id and owned.holds(now):
        end, scopes = owned.token.access_expires_at, owned.token.scopes
        facts = _facts(env, client, owned, end, scopes)
        return {"active": True, "token_type": "Bearer", **facts}
    owned = await env[Grants].by_refresh(token_hash)
    if owned is None or owned.grant.client_row_id != client.id or owned.token.used_at is not None:
        return {"active": False}
    if not refreshable(env, owned, now):
        return {"active": False}
    end, scopes = refresh_end(env, owned), owned.grant.scopes
    return {"active": True, **_facts(env, client, owned, end, scopes)}


def _facts(
    env: Environment, client: Client, owned: OwnedToken, end: int, scopes: frozenset[str]
) -> dict[str, Any]:
    name = {"username": owned.email} if "email" in scopes else {}
    return {
        **name,
        **_proven(owned.grant.proof),
        "scope": spelled(narrowed(scopes, of_role(owned.role))),
        "client_id": client.client_id,
        "sub": str(owned.grant.user_id),
        "aud": env.addresses.base,
        "iss": env.addresses.auth,
        "iat": owned.token.created_at // SECOND,
        "exp": end // SECOND,
    }
