"""Finds the principal of a credential: an API key, access token, login JWT or session cookie.

Credentials are stored and cached by their SHA-256 digest. A cached principal is valid while the
version of the credential's row and of its owner's row stays the same, so a revocation takes effect
with the next request and leaves other credentials cached.
"""

from collections import OrderedDict
from typing import NamedTuple

import msgspec

from portico.core.caller import Held, Principal
from portico.core.errors import AuthenticationRequired
from portico.core.networks import admitting
from portico.core.oauth import OPENID_SCOPES
from portico.core.scopes import effective
from portico.core.secrets import ACCESS_TOKEN, digest
from portico.core.sessions import idle_end
from portico.data.database import Dependency
from portico.environment import Environment
from portico.features.access.live_credentials import parts
from portico.features.access.rules import key_type_of, usable
from portico.features.access.signing import Signer, claimed_issuer, is_access_token
from portico.features.access.storage import ApiKeys, Grants
from portico.features.signin.storage import Sessions

CACHED = 100_000

_NOT_ONE = "This is not a Portico credential: check for a typo."
INVALID_KEY = "This API key is not valid."
_INVALID_TOKEN = "This access token is not valid, has expired or was revoked."  # noqa: S105 - a message
ENDED = "This session has ended; sign in again."
SUSPENDED = "This account is suspended; ask an administrator."


class Uses(msgspec.Struct):
    """When credentials were last used, in epoch milliseconds, by the ids of their rows."""

    keys: dict[int, int] = {}
    grants: dict[int, int] = {}
    sessions: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self.keys or self.grants or self.sessions)


class _Kept(NamedTuple):
    """A credential's principal, valid while these parts of the data have this version."""

    principal: Principal
    parts: tuple[Dependency, ...]
    version: int


class _Session:
    """A session as this process last saw it. It is kept when the data's version changes, because
    `last_seen_at` is stored only later."""

    __slots__ = ("expires_at", "idle_end", "last_seen_at", "parts", "principal", "version")

    def __init__(self, principal: Principal, last_seen_at: int, expires_at: int) -> None:
        self.principal = principal
        self.parts = parts(principal)
        self.last_seen_at = last_seen_at
        self.idle_end = idle_end(last_seen_at)
        self.expires_at = expires_at
        self.version: int | None = None


class Credentials:
    """The credentials of one environment."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._known: OrderedDict[bytes, _Kept] = OrderedDict()
        self._sessions: dict[bytes, _Session] = {}
        self._uses = Uses()
        self.hits = 0
        """How often a credential was found in the cache."""
        self.misses = 0
        """How often one was looked up in the database, whether it exists or not."""

    def known(self, token: str, now: int) -> Principal | None:
        """The principal of a bearer credential, if it is cached and still valid. Runs for every
        request."""
        kept = self._known.get(digest(token))
        if kept is None or kept.version != self._env.db.version(*kept.parts):
            return None
        principal = kept.principal
        if principal.expires_at is not None and now >= principal.expires_at:
            return None
        self.hits += 1
        self._use(principal, now)
        return principal

    async def look_up(self, token: str, now: int) -> Principal:
        """The principal of a bearer credential. Raises `AuthenticationRequired` with the reason."""
        self.misses += 1
        version = self._env.db.version()  # of everything: the owner's row is not known yet
        if token.startswith("sk_"):
            principal = await self._api_key(token, now)
        elif token.startswith(ACCESS_TOKEN):
            principal = await self._access_token(token, now, "oauth")
        elif token.count(".") == 2:
            if is_access_token(token):  # found by its digest, as an opaque one is
                principal = await self._access_token(token, now, "oauth")
            else:
                await self._verify(token, now)
                principal = await self._access_token(token, now, "jwt")
        else:
            raise AuthenticationRequired(_NOT_ONE)
        if self._env.db.version() == version:
            self._keep(digest(token), principal)
        self._use(principal, now)
        return principal

    def known_session(self, cookie: str, now: int) -> Principal | None:
        """The principal of a session cookie, if it is cached and still valid."""
        session = self._sessions.get(digest(cookie))
        if session is None or session.version != self._env.db.version(*session.parts):
            return None
        if now >= session.idle_end or now >= session.expires_at:
            return None
        self.hits += 1
        self._see(session, now)
        return session.principal

    async def look_up_session(self, cookie: str, now: int) -> Principal:
        """The principal of a session cookie. Raises `AuthenticationRequired`."""
        self.misses += 1
        version = self._env.db.version()
        token_hash = digest(cookie)
        owned = await self._env[Sessions].by_hash(token_hash)
        before = self._sessions.pop(token_hash, None)
        if owned is None or owned.suspended_at is not None:
            raise AuthenticationRequired(ENDED)
        stored = owned.session
        principal = Principal(
            user_id=stored.user_id,
            email=owned.email,
            name=owned.name,
            role=owned.role,
            plan=owned.plan,
            account_id=owned.account_id,
            scopes=effective(owned.role, None),
            read_only=False,
            credential="session",
            credential_id=stored.id,
            expires_at=stored.expires_at,
        )
        last_seen_at = max(stored.last_seen_at, before.last_seen_at if before else 0)
        session = _Session(principal, last_seen_at, stored.expires_at)
        if now >= session.idle_end or now >= session.expires_at:
            raise AuthenticationRequired(ENDED)
        if self._env.db.version() == version:
            session.version = self._env.db.version(*session.parts)
        if len(self._sessions) >= CACHED:
            self._forget_sessions(now)
        self._sessions[token_hash] = session
        self._see(session, now)
        return principal

    @property
    def base(self) -> str:
        """The address of the API at which these are valid."""
        return self._env.addresses.base

    async def holds(self, credential: str, now: int, *, session: bool) -> bool:
        """Whether this is a valid credential here. It does not count as a use of it."""
        try:
            if session:
                owned = await self._env[Sessions].by_hash(digest(credential))
                if owned is None:
                    return False
                stored = owned.session
                return now < min(stored.expires_at, idle_end(stored.last_seen_at))
            if credential.startswith(ACCESS_TOKEN) or is_access_token(credential):
                await self._access_token(credential, now, "oauth")
                return True
        except AuthenticationRequired:
            pass
        return False  # keys and JWTs say themselves where they are valid

    def take_uses(self) -> Uses:
        """The uses since the last call."""
        uses, self._uses = self._uses, Uses()
        return uses

    def _keep(self, token_hash: bytes, principal: Principal) -> None:
        """Caches a principal; beyond `CACHED`, the oldest entries are dropped."""
        of = parts(principal)
        self._known[token_hash] = _Kept(principal, of, self._env.db.version(*of))
        if len(self._known) > CACHED:
            self._known.popitem(last=False)

    def _use(self, principal: Principal, now: int) -> None:
        used = self._uses.keys if principal.credential == "api_key" else self._uses.grants
        used[principal.credential_id] = now

    def _see(self, session: _Session, now: int) -> None:
        if now > session.last_seen_at:
            session.last_seen_at = now
            session.idle_end = idle_end(now)
            self._uses.sessions[session.principal.credential_id] = now

    def _forget_sessions(self, now: int) -> None:
        self._sessions = {
            token_hash: session
            for token_hash, session in self._sessions.items()
            if now < session.idle_end
        }
        if len(self._sessions) >= CACHED:
            self._sessions.clear()  # loses at most half a second of idle time

    async def _api_key(self, key: str, now: int) -> Principal:
        key_type = key_type_of(key)
        if key_type is None:
            raise AuthenticationRequired("This is not an API key: check for a typo.")
        if where := self._env.foreign.get(key_type):
            raise AuthenticationRequired(f"A key of type {key_type} is only valid at {where}.")
        owned = await self._env[ApiKeys].by_hash(digest(key))
        if owned is None:
            raise AuthenticationRequired(INVALID_KEY)
        if owned.key.revoked_at is not None:
            raise AuthenticationRequired("This API key was revoked.")
        if not usable(owned.key, now):
            raise AuthenticationRequired("This API key has expired.")
        if owned.suspended_at is not None:
            raise AuthenticationRequired(SUSPENDED)
        return Principal(
            user_id=owned.key.user_id,
            email=owned.email,
            name=owned.name,
            role=owned.role,
            plan=owned.plan,
            account_id=owned.account_id,
            scopes=effective(owned.role, owned.key.carried),
            read_only=key_type == "read",
            credential="api_key",
            credential_id=owned.key.id,
            expires_at=owned.key.expires_at,
            narrow=owned.key.scopes is not None,
            credential_name=owned.key.name,
            admits=None if owned.key.networks is None else admitting(owned.key.networks),
        )

    async def _verify(self, token: str, now: int) -> None:
        if await self._env[Signer].verify(token, audience=self._env.addresses.base, now=now):
            return
        if where := self._env.foreign.get(claimed_issuer(token) or ""):
            raise AuthenticationRequired(f"This token is only valid at {where}.")
        raise AuthenticationRequired(_INVALID_TOKEN)

    async def _access_token(self, token: str, now: int, credential: Held) -> Principal:
        owned = await self._env[Grants].by_access(digest(token))
        if owned is None or not owned.holds(now):
            raise AuthenticationRequired(_INVALID_TOKEN)
        granted = None if owned.grant.client_row_id is None else owned.token.scopes
        openid = owned.token.scopes.intersection(OPENID_SCOPES)
        return Principal(
            user_id=owned.grant.user_id,
            email=owned.email,
            name=owned.name,
            role=owned.role,
            plan=owned.plan,
            account_id=owned.account_id,
            scopes=effective(owned.role, granted) | openid,
            read_only=False,
            credential=credential,
            credential_id=owned.grant.id,
            expires_at=owned.token.access_expires_at,
            token_id=owned.token.id,
            narrow=granted is not None,
            resource=owned.grant.resource,
            client_id=owned.client_id,
            client_name=owned.client_name,
        )


def other_resource(caller: Principal) -> AuthenticationRequired:
    """The error for an OAuth token that is used where it was not meant for."""
    where = caller.resource or "the API"
    return AuthenticationRequired(
        f"This access token is only valid at {where}.", error="invalid_token"
    )
