"""Use cases of API keys: make one, rotate it, end it."""

import msgspec

from portico.domain.api_keys import (
    ROTATION_OVERLAP_SECONDS,
    ApiKey,
    KeyType,
    hint,
    mint,
)
from portico.domain.audit import By
from portico.domain.caller import Principal
from portico.domain.errors import AuthenticationRequired, Conflict, NotFound, PermissionDenied
from portico.domain.events.api_keys import KeyCreated, KeyRevoked, KeyRotated
from portico.domain.secrets import digest
from portico.domain.times import SECOND
from portico.services.change import Change
from portico.services.environment import Environment

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
    by: By,
) -> tuple[ApiKey, str]:
    """Makes a key for a user and returns it with its secret, which is not kept. Raises
    `NotFound`."""
    secret = mint(key_type, env.random(32))

    async def work(change: Change) -> ApiKey:
        if await change.lock(env.users, user_id) is None:
            raise NotFound(f"There is no user {user_id}.")
        key = await env.api_keys.insert(
            change.tx,
            user_id=user_id,
            name=name,
            key_type=key_type,
            hint=hint(secret),
            key_hash=digest(secret),
            now=change.now,
            expires_at=expires_at,
        )
        change.note(KeyCreated(key))
        return key

    return await env.change(by, work), secret


async def rotate_key(env: Environment, caller: Principal, by: By) -> Rotation:
    """Issues a successor for the caller's own key, which ends 24 hours later.

    Raises `PermissionDenied` for other credentials, `Conflict` when it was rotated before.
    """
    if caller.credential != "api_key":
        raise PermissionDenied("Only an API key can be rotated: call this with the key itself.")
    try:
        return await renew_key(env, caller.credential_id, by)
    except NotFound:
        raise AuthenticationRequired(_INVALID) from None


async def renew_key(env: Environment, key_id: int, by: By) -> Rotation:
    """Issues a successor for a key, as `rotate_key` does. Raises `NotFound` and `Conflict`."""
    found = await _found(env, key_id)
    secret = mint(found.type, env.random(32))

    async def work(change: Change) -> Rotation:
        before = await _locked(env, change, found)
        until = change.now + ROTATION_OVERLAP_SECONDS * SECOND
        end = await env.api_keys.rotate(change.tx, before.id, now=change.now, until=until)
        if end is None:
            raise Conflict("This key was rotated already; use its successor.")
        successor = await env.api_keys.insert(
            change.tx,
            user_id=before.user_id,
            name=before.name,
            key_type=before.type,
            hint=hint(secret),
            key_hash=digest(secret),
            now=change.now,
            expires_at=before.expires_at,
        )
        change.note(KeyRotated(before, successor, end))
        return Rotation(successor, secret, end)

    return await env.change(by, work)


async def revoke_key(env: Environment, key_id: int, by: By) -> ApiKey:
    """Ends a key at once; a key that was revoked before stays as it is. Raises `NotFound`."""
    found = await _found(env, key_id)

    async def work(change: Change) -> ApiKey:
        key = await _locked(env, change, found)
        if key.revoked_at is not None:
            return key
        await change.check()
        await env.api_keys.revoke(change.tx, key_id, now=change.now)
        key = msgspec.structs.replace(key, revoked_at=change.now)
        change.note(KeyRevoked(key))
        return key

    return await env.change(by, work)


async def _found(env: Environment, key_id: int) -> ApiKey:
    key = await env.api_keys.get(key_id)
    if key is None:
        raise _missing(key_id)
    return key


async def _locked(env: Environment, change: Change, found: ApiKey) -> ApiKey:
    """The key as it is now, behind its owner's lock: who deletes the owner wants both so."""
    await change.lock(env.users, found.user_id)
    key = await change.lock(env.api_keys, found.id)
    if key is None:
        raise _missing(found.id)
    return key


def _missing(key_id: int) -> NotFound:
    return NotFound(f"There is no key {key_id}.")
