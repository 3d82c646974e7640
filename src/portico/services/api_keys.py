"""Use cases of API keys: make one, tell whose it is, rotate it."""

import msgspec

from portico.domain.api_keys import (
    ROTATION_OVERLAP_SECONDS,
    ApiKey,
    KeyType,
    hint,
    mint,
)
from portico.domain.audit import Actor
from portico.domain.caller import Principal
from portico.domain.errors import AuthenticationRequired, Conflict, NotFound, PermissionDenied
from portico.domain.secrets import digest
from portico.domain.times import SECOND
from portico.services.environment import Environment
from portico.storage.database import Keep

_INVALID = "This API key is not valid."


class Rotation(msgspec.Struct, frozen=True):
    """A rotated key: its successor, the successor's secret, and when the old one ends."""

    successor: ApiKey
    key: str
    previous_end: int


async def create_key(
    env: Environment,
    *,
    user_id: int,
    name: str,
    key_type: KeyType,
    expires_at: int | None,
    by: Actor,
) -> tuple[ApiKey, str]:
    """Makes a key for a user and returns it with its secret, which is not kept."""
    secret = mint(key_type, env.random(32))
    now = env.clock()
    async with env.db.transaction() as tx:
        key = await env.api_keys.insert(
            tx,
            user_id=user_id,
            name=name,
            key_type=key_type,
            hint=hint(secret),
            key_hash=digest(secret),
            now=now,
            expires_at=expires_at,
        )
        facts = {"name": name, "type": key_type, "user_id": user_id}
        await env.audit.record(
            tx, by, now, "key.created", target="api_key", target_id=key.id, details=facts
        )
    return key, secret


async def rotate_key(
    env: Environment, caller: Principal, by: Actor, keep: Keep[Rotation] | None = None
) -> Rotation:
    """Issues a successor for the caller's own key, which ends 24 hours later.

    Raises `PermissionDenied` for other credentials, `Conflict` when it was rotated before.
    """
    if caller.credential != "api_key":
        raise PermissionDenied("Only an API key can be rotated: call this with the key itself.")
    try:
        return await renew_key(env, caller.credential_id, by, keep)
    except NotFound:
        raise AuthenticationRequired(_INVALID) from None


async def renew_key(
    env: Environment, key_id: int, by: Actor, keep: Keep[Rotation] | None = None
) -> Rotation:
    """Issues a successor for a key, as `rotate_key` does. Raises `NotFound` and `Conflict`."""
    now = env.clock()
    async with env.db.transaction() as tx:
        before = await env.api_keys.get(key_id, tx)
        if before is None:
            raise NotFound(f"There is no key {key_id}.")
        until = now + ROTATION_OVERLAP_SECONDS * SECOND
        end = await env.api_keys.rotate(tx, before.id, now=now, until=until)
        if end is None:
            raise Conflict("This key was rotated already; use its successor.")
        secret = mint(before.type, env.random(32))
        successor = await env.api_keys.insert(
            tx,
            user_id=before.user_id,
            name=before.name,
            key_type=before.type,
            hint=hint(secret),
            key_hash=digest(secret),
            now=now,
            expires_at=before.expires_at,
        )
        facts = {"name": before.name, "successor": successor.id}
        await env.audit.record(
            tx, by, now, "key.rotated", target="api_key", target_id=before.id, details=facts
        )
        rotation = Rotation(successor, secret, end)
        if keep is not None:
            await keep(tx, rotation)
    return rotation


async def revoke_key(env: Environment, key_id: int, by: Actor) -> ApiKey:
    """Ends a key at once; a key that was revoked before stays as it is. Raises `NotFound`."""
    now = env.clock()
    async with env.db.transaction() as tx:
        key = await env.api_keys.get(key_id, tx)
        if key is None:
            raise NotFound(f"There is no key {key_id}.")
        if key.revoked_at is not None:
            return key
        await env.api_keys.revoke(tx, key_id, now=now)
        facts = {"name": key.name, "user_id": key.user_id}
        await env.audit.record(
            tx, by, now, "key.revoked", target="api_key", target_id=key_id, details=facts
        )
    return msgspec.structs.replace(key, revoked_at=now)
