"""Use cases of API keys: create, rotate, revoke."""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from portico.change import Change
from portico.core.audit import SYSTEM, Author
from portico.core.caller import Principal
from portico.core.errors import AuthenticationRequired, Conflict, NotFound, PermissionDenied
from portico.core.scopes import SCOPES
from portico.core.secrets import ROTATION_OVERLAP, digest
from portico.core.users import User
from portico.data.listing import Keyset, Page
from portico.environment import Environment
from portico.features.access.credentials import INVALID_KEY
from portico.features.access.rules import (
    ApiKey,
    Bounds,
    KeyCreated,
    KeyRevoked,
    KeyRotated,
    NewKey,
    agreed,
    hint,
    latest_end,
    mint,
)
from portico.features.access.storage import ApiKeys
from portico.features.mail.letters import notify
from portico.features.mail.storage import Mails
from portico.features.people.storage import Users
from portico.jobs.runner import Wait

Check = Callable[[ApiKey], None]
"""Raises where the caller expected a different key."""


class CreatedKey(NamedTuple):
    """A new key and its secret, which is not stored."""

    key: ApiKey
    secret: str


class Rotation(msgspec.Struct, frozen=True):
    """A rotated key: its successor, the successor's secret, and when the old key expires."""

    successor: ApiKey
    key: str
    previous_end: int


async def create_key(
    env: Environment, user_id: int, new: NewKey, by: Author, *, mail_owner: bool = True
) -> CreatedKey:
    """Creates a key for a user; `mail_owner` says whether the user is told by mail. Raises
    `Invalid` with every fault, and `PermissionDenied` if the caller may not manage this user's
    keys.

    A key cannot create a key with more scopes, more networks or a later expiry than its own.
    """
    permit(by.principal, user_id)

    async def work(change: Change) -> CreatedKey:
        return await add_key(env, change, user_id, new, mail_owner=mail_owner)

    return await env.change(by, work)


async def add_key(
    env: Environment, change: Change, user_id: int, new: NewKey, *, mail_owner: bool
) -> CreatedKey:
    """As `create_key`, within a change. The caller must be permitted to manage the user's keys."""
    owner = await change.lock(env[Users], user_id)
    if owner is None:
        await change.check()  # the deleted user may be the caller
    terms = agreed(new, await _bounds(env, change, owner))
    secret = mint(terms.type, env.random)
    actor_id = change.by.actor.user_id
    maker_id = None if actor_id == user_id else actor_id
    key = ApiKey(
        id=0,
        user_id=user_id,
        hint=hint(secret),
        created_at=change.now,
        last_used_at=None,
        revoked_at=None,
        rotated_at=None,
        maker_id=maker_id,
        **msgspec.structs.asdict(terms),
    )
    key = await env[ApiKeys].insert(change.tx, key, digest(secret))
    change.note(KeyCreated(key))
    if mail_owner and owner is not None:
        await notify(env, change, owner, "new-key", by=change.by, **_facts(env, key))
    return CreatedKey(key, secret)


def _facts(env: Environment, key: ApiKey) -> dict[str, Any]:
    """The values of a mail about a key."""
    page = f"{env.addresses.dashboard}/keys"
    return {"name": key.name, "hint": key.hint, "page": page}


def permit(caller: Principal | None, user_id: int) -> None:
    """Raises `PermissionDenied` if there is a caller who may not manage this user's keys."""
    if caller is not None and caller.user_id != user_id and "admin" not in caller.scopes:
        raise PermissionDenied(
            "Managing the keys of other users needs the scope admin.", scope="admin"
        )


async def _bounds(env: Environment, change: Change, owner: User | None) -> Bounds:
    """The limits of a key created by this change."""
    caller = change.by.principal
    carried, maker = None, None
    if caller is not None and caller.narrow and "admin" not in caller.scopes:
        carried = caller.scopes.intersection(SCOPES)
    if caller is not None and caller.credential == "api_key":
        maker = await change.lock(env[ApiKeys], caller.credential_id)
    return Bounds(
        role=None if owner is None else owner.role,
        elsewhere=env.foreign,
        now=change.now,
        most_days=env.settings.max_key_days,
        carried=carried,
        networks=maker.networks if maker else None,
        ends_at=maker.expires_at if maker else None,
    )


def permit_rotation(caller: Principal) -> None:
    """Raises `PermissionDenied` if the caller's credential is not an API key."""
    if caller.credential != "api_key":
        raise PermissionDenied("Only an API key can be rotated: send the key itself as credential.")


async def rotate_key(env: Environment, caller: Principal, by: Author) -> Rotation:
    """Issues a successor for the API key that calls, which expires 24 hours later. Raises
    `Conflict` if it was already rotated."""
    try:
        return await renew_key(env, caller.credential_id, by)
    except NotFound:
        raise AuthenticationRequired(INVALID_KEY, error="invalid_token") from None


async def renew_key(env: Environment, key_id: int, by: Author) -> Rotation:
    """Issues a successor for a key, as `rotate_key` does. Raises `NotFound` and `Conflict`."""
    found = await _found(env, key_id)
    secret = mint(found.type, env.random)

    async def work(change: Change) -> Rotation:
        before = await _locked(env, change, found)
        owner = await env[Users].get(found.user_id, change.tx)
        until = change.now + ROTATION_OVERLAP
        end = await env[ApiKeys].rotate(change.tx, before.id, now=change.now, until=until)
        if end is None:
            await change.check()  # the caller's own key may have been revoked meanwhile
            if before.rotated_at is None:
                raise Conflict("This key was revoked; create another one.")
            raise Conflict("This key was already rotated; use its successor.")
        successor = msgspec.structs.replace(
            before,
            hint=hint(secret),
            created_at=change.now,
            expires_at=latest_end(before.expires_at, change.now, env.settings.max_key_days),
            last_used_at=None,
        )
        successor = await env[ApiKeys].insert(change.tx, successor, digest(secret))
        change.note(KeyRotated(before, successor, end))
        # A thief could rotate a stolen key and keep the successor, so the owner is told.
        if owner is not None:
            facts = _facts(env, successor)
            await notify(env, change, owner, "rotated-key", by=by, until=end, **facts)
        return Rotation(successor, secret, end)

    return await env.change(by, work)


async def list_keys(
    env: Environment,
    user_id: int,
    by: Author,
    *,
    offset: int,
    limit: int,
    behind: Keyset | None,
) -> Page[ApiKey]:
    """One page of a user's keys, newest first. It begins after the keyset `behind`, if given,
    otherwise at `offset`. Raises `PermissionDenied`."""
    permit(by.principal, user_id)
    return await env[ApiKeys].page(user_id, offset=offset, limit=limit, behind=behind)


class MadeKey(NamedTuple):
    """A usable key that somebody created for another account: its environment and its owner."""

    environment: str
    owner: str
    key: ApiKey


async def keys_for_others(
    env: Environment, user_id: int, mirror_id: int | None = None
) -> list[MadeKey]:
    """The usable keys that an account, even a deleted one, created for others: in `env`, and by its
    mirror user in the mirroring environment."""
    found = [
        MadeKey(env.name, owned.email, owned.key)
        for owned in await env[ApiKeys].made_for_others(user_id, env.clock())
    ]
    if env.mirror is not None and mirror_id is not None:
        found += await keys_for_others(env.mirror, mirror_id)
    return found


async def read_key(env: Environment, key_id: int, by: Author) -> ApiKey:
    """The key with this id. Raises `NotFound`, and `PermissionDenied` for another user's key."""
    found = await _found(env, key_id)
    permit(by.principal, found.user_id)
    return found


async def revoke_key(
    env: Environment, key_id: int, by: Author, check: Check = lambda _: None
) -> ApiKey:
    """Revokes a key at once. A key that is already revoked stays as it is. Raises what `read_key`
    and `check` raise."""
    found = await read_key(env, key_id, by)

    async def work(change: Change) -> ApiKey:
        key = await _locked(env, change, found)
        check(key)
        if key.revoked_at is not None:
            return key
        await change.check()
        await env[ApiKeys].revoke(change.tx, key_id, now=change.now)
        key = msgspec.structs.replace(key, revoked_at=change.now)
        change.note(KeyRevoked(key))
        return key

    return await env.change(by, work)


async def _found(env: Environment, key_id: int) -> ApiKey:
    key = await env[ApiKeys].get(key_id)
    if key is None:
        raise _missing(key_id)
    return key


async def _locked(env: Environment, change: Change, found: ApiKey) -> ApiKey:
    """The key, locked after its owner: deleting a user locks both in this order too."""
    await change.lock(env[Users], found.user_id)
    key = await change.lock(env[ApiKeys], found.id)
    if key is None:
        raise _missing(found.id)
    return key


def _missing(key_id: int) -> NotFound:
    return NotFound(f"There is no key {key_id}.")


REMIND_PERIOD = 10.0

BATCH = 50

MOST_WAITING = 1_000
"""No reminders are queued while this many mails wait: the rest of the queue is for urgent ones."""

PAUSE_SECONDS = 0.01
"""The pause between two batches, for other writers."""


async def remind(env: Environment, wait: Wait = asyncio.sleep) -> None:
    """Reminds the owners of all keys for which it is time. Raises `Unavailable`; then the next run
    does the rest.

    A key is claimed for good in the transaction that queues the mail, so that no owner is told
    twice, even if a process is killed.
    """

    async def work(change: Change) -> bool:
        """Reminds the owners of some keys; returns whether there may be more."""
        if await env[Mails].count(change.tx, MOST_WAITING) == MOST_WAITING:
            return False
        change.noted_elsewhere()  # only the mail tells of it
        keys = await env[ApiKeys].remind(change.tx, change.now, BATCH)
        page = f"{env.addresses.dashboard}/keys"
        for key in keys:
            owner, until = await env[Users].get(key.user_id), key.expires_at
            if owner is None or until is None:
                continue
            name, hint = key.name, key.hint
            await notify(
                env, change, owner, "key-ends", name=name, hint=hint, until=until, page=page
            )
        return len(keys) == BATCH

    while await env[ApiKeys].are_ending(env.clock()) and await env.change(SYSTEM, work):
        await wait(PAUSE_SECONDS)
