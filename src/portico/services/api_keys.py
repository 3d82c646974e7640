"""Use cases of API keys: make one, tell whose it is, rotate it."""

import msgspec

from portico.domain.api_keys import (
    READ_SCOPES,
    ROTATION_OVERLAP_SECONDS,
    ApiKey,
    KeyType,
    digest,
    hint,
    mint,
    usable,
    well_formed,
)
from portico.domain.caller import Principal
from portico.domain.errors import AuthenticationRequired, Conflict, NotFound, PermissionDenied
from portico.domain.scopes import effective
from portico.domain.times import SECOND
from portico.services.environment import Environment

CACHED_KEYS = 100_000

_INVALID = "This API key is not valid."


class Rotation(msgspec.Struct, frozen=True):
    """A rotated key: its successor, the successor's secret, and when the old one ends."""

    successor: ApiKey
    key: str
    previous_end: int


async def create_key(
    env: Environment, *, user_id: int, name: str, key_type: KeyType, expires_at: int | None
) -> tuple[ApiKey, str]:
    """Makes a key for a user and returns it with its secret, which is not kept."""
    secret = mint(key_type, env.random(32))
    async with env.db.transaction() as tx:
        key = await env.api_keys.insert(
            tx,
            user_id=user_id,
            name=name,
            key_type=key_type,
            hint=hint(secret),
            key_hash=digest(secret),
            now=env.clock(),
            expires_at=expires_at,
        )
    return key, secret


async def rotate_key(env: Environment, caller: Principal) -> Rotation:
    """Issues a successor for the caller's own key, which ends 24 hours later.

    Raises `PermissionDenied` for other credentials, `Conflict` when it was rotated before.
    """
    if caller.credential != "api_key":
        raise PermissionDenied("Only an API key can be rotated: call this with the key itself.")
    now = env.clock()
    async with env.db.transaction() as tx:
        before = await env.api_keys.get(caller.credential_id, tx)
        if before is None:
            raise AuthenticationRequired(_INVALID)
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
    return Rotation(successor, secret, end)


async def revoke_key(env: Environment, key_id: int) -> ApiKey:
    """Ends a key at once; a key that was revoked before stays as it is. Raises `NotFound`."""
    async with env.db.transaction() as tx:
        await env.api_keys.revoke(tx, key_id, now=env.clock())
        key = await env.api_keys.get(key_id, tx)
    if key is None:
        raise NotFound(f"There is no key {key_id}.")
    return key


class KeyRing:
    """Tells who presents a key. What it read is kept for as long as the data's version stays."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._version = -1
        self._known: dict[bytes, Principal] = {}
        self.used: dict[int, int] = {}
        """Key ids and when they were last used, since `take_used`."""

    def known(self, key: str, now: int) -> Principal | None:
        """Whose key this is, if that was read before and still holds. Runs for every request."""
        version = self._env.db.version()
        if version != self._version:
            self._known.clear()
            self._version = version
            return None
        principal = self._known.get(digest(key))
        if principal is None or (principal.expires_at is not None and now >= principal.expires_at):
            return None
        self.used[principal.credential_id] = now
        return principal

    async def look_up(self, key: str, now: int) -> Principal:
        """Whose key this is. Raises `AuthenticationRequired` with a message that helps."""
        version = self._version
        key_hash = digest(key)
        principal = await self._read(key, key_hash, now)
        if self._version == version and len(self._known) < CACHED_KEYS:
            self._known[key_hash] = principal
        self.used[principal.credential_id] = now
        return principal

    def take_used(self) -> dict[int, int]:
        """The uses since the last call."""
        used, self.used = self.used, {}
        return used

    async def _read(self, key: str, key_hash: bytes, now: int) -> Principal:
        key_type = well_formed(key)
        if key_type is None:
            raise AuthenticationRequired("This is not an API key: check for a typo.")
        if where := self._env.foreign_keys.get(key_type):
            raise AuthenticationRequired(f"A key of type {key_type} belongs to {where}.")
        owned = await self._env.api_keys.by_hash(key_hash)
        if owned is None:
            raise AuthenticationRequired(_INVALID)
        if owned.key.revoked_at is not None:
            raise AuthenticationRequired("This API key was revoked.")
        if not usable(owned.key, now):
            raise AuthenticationRequired("This API key has expired.")
        read_only = key_type == "read"
        return Principal(
            user_id=owned.key.user_id,
            email=owned.email,
            name=owned.name,
            role=owned.role,
            plan=owned.plan,
            scopes=effective(owned.role, READ_SCOPES if read_only else None),
            read_only=read_only,
            credential="api_key",
            credential_id=owned.key.id,
            expires_at=owned.key.expires_at,
        )
