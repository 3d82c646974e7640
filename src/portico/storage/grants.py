"""Grants and what they buy: authorization codes, refresh tokens and access tokens."""

from typing import Any

import msgspec

from portico.domain.oauth import spelled
from portico.storage.database import LOCKED, Database, Row, Transaction

_COLUMNS = (
    "id, user_id, client_id, scopes, address, user_agent, created_at, last_used_at, expires_at,"
    " revoked_at"
)
_GRANT = ", ".join(f"g.{name}" for name in _COLUMNS.split(", "))
_PAIR = (
    "t.id, t.grant_id, t.scopes, t.created_at, t.access_expires_at, t.refresh_expires_at, t.used_at"
)
_OWNED = f"""
SELECT {_PAIR}, {_GRANT}, u.email, u.name, u.role, u.plan
FROM tokens AS t JOIN grants AS g ON g.id = t.grant_id JOIN users AS u ON u.id = g.user_id"""
_BY_ACCESS = f"{_OWNED} WHERE t.access_hash = :hash"
_BY_REFRESH = f"{_OWNED} WHERE t.refresh_hash = :hash"
_OF_USER = f"""
SELECT {_COLUMNS} FROM grants
WHERE user_id = :user_id AND revoked_at IS NULL AND expires_at > :now ORDER BY id DESC"""
_ALL = f"""
SELECT {_COLUMNS} FROM grants
WHERE client_id IS NULL AND revoked_at IS NULL AND expires_at > :now ORDER BY id DESC"""
_BY_ID = f"SELECT {_COLUMNS} FROM grants WHERE id = :id"
_INSERT = f"""
INSERT INTO grants (user_id, client_id, scopes, address, user_agent, created_at, last_used_at,
    expires_at)
VALUES (:user_id, :client_id, :scopes, :address, :user_agent, :now, :now, :expires_at)
RETURNING {_COLUMNS}"""
_REVOKE = "UPDATE grants SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING id"
_REVOKE_OF_USER = """
UPDATE grants SET revoked_at = :now WHERE user_id = :user_id AND revoked_at IS NULL RETURNING id"""
_EXTEND = "UPDATE grants SET expires_at = :expires_at, last_used_at = :now WHERE id = :id"
# Whoever holds a row that this wants may want another that this holds; so it waits for none.
_USED = {
    "sqlite": "UPDATE grants SET last_used_at = :at WHERE id = :id AND last_used_at < :at",
    "postgres": """
UPDATE grants SET last_used_at = :at WHERE id = (
    SELECT id FROM grants WHERE id = :id AND last_used_at < :at FOR UPDATE SKIP LOCKED)""",
}
_ISSUE = """
INSERT INTO tokens (grant_id, refresh_hash, access_hash, scopes, created_at, access_expires_at,
    refresh_expires_at)
VALUES (:grant_id, :refresh_hash, :access_hash, :scopes, :now, :access_expires_at,
    :refresh_expires_at)"""
# Single use: of concurrent refreshes with one token exactly one finds `used_at` empty.
_USE = "UPDATE tokens SET used_at = :now WHERE id = :id AND used_at IS NULL RETURNING id"
_END_ACCESS = """
UPDATE tokens SET access_expires_at = :now WHERE id = :id AND access_expires_at > :now"""
_ADD_CODE = """
INSERT INTO authorization_codes (code_hash, client_id, user_id, redirect_uri, scopes, nonce,
    code_challenge, signed_in_at, expires_at)
VALUES (:code_hash, :client_id, :user_id, :redirect_uri, :scopes, :nonce, :code_challenge,
    :signed_in_at, :expires_at)"""
_CODE = """
SELECT client_id, user_id, redirect_uri, scopes, nonce, code_challenge, signed_in_at, expires_at,
    grant_id
FROM authorization_codes WHERE code_hash = :hash"""
_SPEND_CODE = """
UPDATE authorization_codes SET grant_id = :grant_id
WHERE code_hash = :hash AND grant_id IS NULL RETURNING client_id"""
_FORGET_CODES = "DELETE FROM authorization_codes WHERE expires_at < :until"
# What a family that lives on has long used up: too old for any refresh, so too old to be reused.
_FORGET_TOKENS = "DELETE FROM tokens WHERE refresh_expires_at <= :now"
_FORGET_GRANTS = "DELETE FROM grants WHERE expires_at <= :now"
_FORGET_CODES_OF_USER = "DELETE FROM authorization_codes WHERE user_id = :user_id"


class Grant(msgspec.Struct, frozen=True):
    """A token family: what a user granted to a client, or, without one, by signing in.

    Times are epoch milliseconds; `expires_at` is the end of its last refresh token.
    """

    id: int
    user_id: int
    client_id: int | None
    scopes: frozenset[str]
    address: str
    user_agent: str
    created_at: int
    last_used_at: int
    expires_at: int
    revoked_at: int | None


class Token(msgspec.Struct, frozen=True):
    """One issued pair of refresh and access token; `scopes` are the access token's."""

    id: int
    grant_id: int
    scopes: frozenset[str]
    created_at: int
    access_expires_at: int
    refresh_expires_at: int
    used_at: int | None


class OwnedToken(msgspec.Struct, frozen=True):
    """A pair, its family, and what the family's user may do at present."""

    token: Token
    grant: Grant
    email: str
    name: str
    role: str
    plan: str


class Code(msgspec.Struct, frozen=True):
    """An authorization code; `grant_id` is what it was exchanged for."""

    client_id: int
    user_id: int
    redirect_uri: str
    scopes: frozenset[str]
    nonce: str | None
    code_challenge: str | None
    signed_in_at: int
    expires_at: int
    grant_id: int | None = None


def _grant(row: Row) -> Grant:
    return Grant(*_with_scopes(row, 3))


def _owned(row: Row) -> OwnedToken:
    return OwnedToken(Token(*_with_scopes(row[:7], 2)), _grant(row[7:17]), *row[17:])


def _with_scopes(row: Row, column: int) -> list[Any]:
    values = [*row]
    values[column] = frozenset(row[column].split())
    return values


class Grants:
    """The grants of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def by_access(self, access_hash: bytes) -> OwnedToken | None:
        """The pair whose access token has this digest, whatever its state."""
        row = await self._db.one(_BY_ACCESS, {"hash": access_hash})
        return _owned(row) if row else None

    async def by_refresh(self, refresh_hash: bytes) -> OwnedToken | None:
        """The pair whose refresh token has this digest, whatever its state."""
        row = await self._db.one(_BY_REFRESH, {"hash": refresh_hash})
        return _owned(row) if row else None

    async def get(self, grant_id: int, tx: Transaction | None = None) -> Grant | None:
        """The grant with this id; with `tx`, nobody else changes it until that ends."""
        if tx is None:
            row = await self._db.one(_BY_ID, {"id": grant_id})
        else:
            row = await tx.one(_BY_ID + LOCKED[self._db.engine], {"id": grant_id})
        return _grant(row) if row else None

    async def of_user(self, user_id: int, now: int) -> list[Grant]:
        """A user's living grants, newest first."""
        rows = await self._db.all(_OF_USER, {"user_id": user_id, "now": now})
        return [_grant(row) for row in rows]

    async def logins(self, now: int) -> list[Grant]:
        """Every living grant that came of signing in, newest first."""
        return [_grant(row) for row in await self._db.slow.all(_ALL, {"now": now})]

    async def insert(
        self,
        tx: Transaction,
        *,
        user_id: int,
        client_id: int | None,
        scopes: frozenset[str],
        address: str,
        user_agent: str,
        now: int,
        expires_at: int,
    ) -> Grant:
        """Stores a new grant."""
        row = await tx.one(
            _INSERT,
            {
                "user_id": user_id,
                "client_id": client_id,
                "scopes": spelled(scopes),
                "address": address,
                "user_agent": user_agent,
                "now": now,
                "expires_at": expires_at,
            },
        )
        return _grant(row)  # type: ignore[arg-type]  # INSERT … RETURNING always has a row

    async def issue(
        self,
        tx: Transaction,
        grant_id: int,
        *,
        refresh_hash: bytes,
        access_hash: bytes,
        scopes: frozenset[str],
        now: int,
        access_expires_at: int,
        refresh_expires_at: int,
    ) -> None:
        """Stores a new pair by its digests, and lets its family live as long as it does."""
        await tx.run(
            _ISSUE,
            {
                "grant_id": grant_id,
                "refresh_hash": refresh_hash,
                "access_hash": access_hash,
                "scopes": spelled(scopes),
                "now": now,
                "access_expires_at": access_expires_at,
                "refresh_expires_at": refresh_expires_at,
            },
        )
        extended = {"id": grant_id, "expires_at": refresh_expires_at, "now": now}
        await tx.run(_EXTEND, extended)

    async def use(self, tx: Transaction, token_id: int, now: int) -> bool:
        """Marks a refresh token as used; False when it was used before."""
        return await tx.one(_USE, {"id": token_id, "now": now}) is not None

    async def end_access(self, tx: Transaction, token_id: int, now: int) -> None:
        """Ends an access token at once; its refresh token stays."""
        await tx.run(_END_ACCESS, {"id": token_id, "now": now})

    async def revoke(self, tx: Transaction, grant_id: int, now: int) -> bool:
        """Ends a family at once; False when it was revoked before."""
        return await tx.one(_REVOKE, {"id": grant_id, "now": now}) is not None

    async def revoke_of_user(self, tx: Transaction, user_id: int, now: int) -> int:
        """Ends all of a user's families and codes; tells how many families there were."""
        await tx.run(_FORGET_CODES_OF_USER, {"user_id": user_id})
        return len(await tx.all(_REVOKE_OF_USER, {"user_id": user_id, "now": now}))

    async def record_use(self, tx: Transaction, used: dict[int, int]) -> None:
        """Moves the last-used times of grants forward: grant id to milliseconds."""
        uses = [{"id": grant, "at": at} for grant, at in used.items()]
        await tx.run_many(_USED[self._db.engine], uses)

    async def add_code(self, tx: Transaction, code_hash: bytes, code: Code) -> None:
        """Stores a new authorization code by its digest."""
        values = {**msgspec.structs.asdict(code), "scopes": spelled(code.scopes)}
        del values["grant_id"]
        await tx.run(_ADD_CODE, {"code_hash": code_hash, **values})

    async def code(self, code_hash: bytes, tx: Transaction | None = None) -> Code | None:
        """The code with this digest; with `tx`, nobody else spends it until that ends."""
        if tx is None:
            row = await self._db.one(_CODE, {"hash": code_hash})
        else:
            row = await tx.one(_CODE + LOCKED[self._db.engine], {"hash": code_hash})
        return Code(*_with_scopes(row, 3)) if row else None

    async def spend_code(self, tx: Transaction, code_hash: bytes, grant_id: int) -> bool:
        """Exchanges a code for a grant; False when it was exchanged before."""
        spent = await tx.one(_SPEND_CODE, {"hash": code_hash, "grant_id": grant_id})
        return spent is not None

    async def forget(self, tx: Transaction, now: int, codes_until: int) -> None:
        """Removes expired families and tokens, and codes that expired before `codes_until`."""
        await tx.run(_FORGET_GRANTS, {"now": now})
        await tx.run(_FORGET_TOKENS, {"now": now})
        await tx.run(_FORGET_CODES, {"until": codes_until})
