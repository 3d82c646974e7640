"""Grants and what is issued for them: authorization codes, refresh tokens and access tokens."""

from collections.abc import AsyncIterator

import msgspec

from portico.domain.proofs import Methods, Proof
from portico.domain.users import Owner
from portico.storage.counted_pages import counted_page
from portico.storage.database import Database, Rank, Row, Transaction, integer
from portico.storage.listing import Page
from portico.storage.many_rows import in_batches
from portico.storage.table import SCOPES, WORDS, Table, cuts, move_forward
from portico.storage.users import OWNERS


class Grant(msgspec.Struct, frozen=True):
    """A token family: a user's grant to a client, or a login if there is no client.

    Times are epoch milliseconds; `expires_at` is when its last token expires, `proved_at` when the
    user signed in, by the methods `amr`.
    """

    id: int
    user_id: int
    client_row_id: int | None
    scopes: frozenset[str]
    address: str
    user_agent: str
    created_at: int
    last_used_at: int
    expires_at: int
    revoked_at: int | None
    amr: Methods
    proved_at: int

    @property
    def proof(self) -> Proof:
        """How and when the user signed in."""
        return Proof(self.amr, self.proved_at)

    def lives(self, now: int) -> bool:
        """Whether it is neither revoked nor expired at this time, in epoch milliseconds."""
        return self.revoked_at is None and now < self.expires_at


class Token(msgspec.Struct, frozen=True):
    """One issued pair of refresh and access token; `scopes` are the access token's."""

    id: int
    grant_id: int
    scopes: frozenset[str]
    created_at: int
    access_expires_at: int
    refresh_expires_at: int
    used_at: int | None


class OwnedToken(Owner, frozen=True, kw_only=True):
    """A token pair, its grant, and their user's current role and state."""

    token: Token
    grant: Grant

    def holds(self, now: int) -> bool:
        """Whether the access token is valid: not expired, its grant not revoked, and its user not
        suspended."""
        if self.suspended_at is not None:
            return False
        return self.grant.revoked_at is None and now < self.token.access_expires_at


class Code(msgspec.Struct, frozen=True):
    """An authorization code; `grant_id` is the grant that it was exchanged for."""

    client_row_id: int
    user_id: int
    redirect_uri: str
    scopes: frozenset[str]
    nonce: str | None
    code_challenge: str | None
    signed_in_at: int
    expires_at: int
    amr: Methods
    grant_id: int | None = None

    @property
    def proof(self) -> Proof:
        """How and when the user signed in."""
        return Proof(self.amr, self.signed_in_at)


GRANTS = Table("grants", Grant, forms={"scopes": SCOPES, "amr": WORDS})
TOKENS = Table("tokens", Token, forms={"scopes": SCOPES}, secrets=("refresh_hash", "access_hash"))
_OWNER, _TOKEN, _GRANT = cuts(OWNERS, TOKENS, GRANTS)
CODES = Table(
    "authorization_codes", Code, forms={"scopes": SCOPES, "amr": WORDS}, secrets=("code_hash",)
)

_OWNED = f"""
SELECT {OWNERS.of("u")}, {TOKENS.of("t")}, {GRANTS.of("g")}
FROM tokens AS t JOIN grants AS g ON g.id = t.grant_id JOIN users AS u ON u.id = g.user_id"""
_BY_ACCESS = f"{_OWNED} WHERE t.access_hash = :hash"
_BY_REFRESH = f"{_OWNED} WHERE t.refresh_hash = :hash"
_VALID = "revoked_at IS NULL AND expires_at > :now"
_COUNT = f"SELECT count(*) FROM grants WHERE user_id = :user_id AND {_VALID}"
_OF_CLIENTS = f"""
SELECT count(*) OVER () AS total, {GRANTS.columns} FROM grants
WHERE user_id = :user_id AND client_row_id IS NOT NULL AND {_VALID}
ORDER BY id DESC LIMIT :limit OFFSET :offset"""
_LOGIN = f"client_row_id IS NULL AND {_VALID}"
_REVOKE = "UPDATE grants SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL RETURNING id"
_REVOKE_OF_USER = """
UPDATE grants SET revoked_at = :now WHERE id IN (
    SELECT id FROM grants WHERE user_id = :user_id AND revoked_at IS NULL AND id > :after
    ORDER BY id LIMIT :limit)
RETURNING id"""
_EXTEND = "UPDATE grants SET expires_at = :expires_at, last_used_at = :now WHERE id = :id"
_USED = move_forward("grants", "last_used_at", "last_used_at < :at")
# Single use: of concurrent refreshes with one token exactly one finds `used_at` empty.
_USE = "UPDATE tokens SET used_at = :now WHERE id = :id AND used_at IS NULL RETURNING id"
# The time 0 has passed by every clock, also one that is behind.
_END_ACCESS = """
UPDATE tokens SET access_expires_at = 0 WHERE id = :id AND access_expires_at > 0
RETURNING grant_id"""
_END_LOGINS_ACCESS = """
UPDATE tokens SET access_expires_at = 0 WHERE access_expires_at > :since
    AND grant_id IN (SELECT id FROM grants WHERE client_row_id IS NULL)"""
_CODE = f"SELECT {CODES.columns} FROM authorization_codes WHERE code_hash = :hash"
_SPEND_CODE = """
UPDATE authorization_codes SET grant_id = :grant_id
WHERE code_hash = :hash AND grant_id IS NULL"""
_FORGET_CODES_OF_USER = "DELETE FROM authorization_codes WHERE user_id = :user_id"


def _owned(row: Row) -> OwnedToken:
    return OwnedToken(*row[_OWNER], token=TOKENS.read(row[_TOKEN]), grant=GRANTS.read(row[_GRANT]))


class Grants:
    """The grants of one environment."""

    rank = Rank.GRANT

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
        """The grant with this id, if any. With `tx` it is locked until the transaction ends."""
        return await GRANTS.get(self._db, grant_id, tx)

    async def of_clients(self, user_id: int, now: int, *, offset: int, limit: int) -> Page[Grant]:
        """One page of a user's valid grants to clients, newest first. The total is 0 past the last
        page."""
        values = {"user_id": user_id, "now": now, "offset": offset, "limit": limit}
        rows = await self._db.slow.all(_OF_CLIENTS, values)
        return counted_page(rows, GRANTS.read)

    async def count(self, user_id: int, now: int) -> int:
        """How many valid grants a user has."""
        return await integer(self._db.slow, _COUNT, {"user_id": user_id, "now": now})

    def logins(self, now: int, user_id: int | None = None) -> AsyncIterator[list[Grant]]:
        """Every valid login, or a user's, newest first, in batches."""
        return GRANTS.batches(
            self._db.slow, _LOGIN, {"now": now}, user_id=user_id, newest_first=True
        )

    async def insert(
        self,
        tx: Transaction,
        *,
        user_id: int,
        client_row_id: int | None,
        scopes: frozenset[str],
        address: str,
        user_agent: str,
        proof: Proof,
        now: int,
        expires_at: int,
    ) -> Grant:
        """Stores a new grant."""
        grant = Grant(
            id=0,
            user_id=user_id,
            client_row_id=client_row_id,
            scopes=scopes,
            address=address,
            user_agent=user_agent,
            created_at=now,
            last_used_at=now,
            expires_at=expires_at,
            revoked_at=None,
            amr=proof.amr,
            proved_at=proof.at,
        )
        return await GRANTS.add(tx, grant)

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
        """Stores the digests of a new pair, and extends its grant to when the pair expires."""
        pair = Token(
            id=0,
            grant_id=grant_id,
            scopes=scopes,
            created_at=now,
            access_expires_at=access_expires_at,
            refresh_expires_at=refresh_expires_at,
            used_at=None,
        )
        await TOKENS.add(tx, pair, refresh_hash=refresh_hash, access_hash=access_hash)
        expires_at = max(refresh_expires_at, access_expires_at)
        extended = {"id": grant_id, "expires_at": expires_at, "now": now}
        await tx.run(_EXTEND, extended)

    async def use(self, tx: Transaction, token_id: int, now: int) -> bool:
        """Marks a refresh token as used; False if it was used before."""
        return await tx.one(_USE, {"id": token_id, "now": now}) is not None

    async def end_access(self, tx: Transaction, token_id: int) -> None:
        """Makes an access token expire at once; its refresh token stays valid."""
        if row := await tx.one(_END_ACCESS, {"id": token_id}):
            tx.touch(GRANTS.part(row[0]))

    async def end_access_of_logins(self, tx: Transaction, now: int) -> None:
        """Makes the access tokens of all logins expire at once; their refresh tokens stay valid.
        Touches no part: cached owners also depend on the signing keys, which end together with
        these tokens."""
        await tx.run(_END_LOGINS_ACCESS, {"since": now})

    async def revoke(self, tx: Transaction, grant_id: int, now: int) -> bool:
        """Revokes a grant with all its tokens; False if it was revoked before."""
        tx.touch(GRANTS.part(grant_id))
        return await tx.one(_REVOKE, {"id": grant_id, "now": now}) is not None

    async def revoke_of_user(self, tx: Transaction, user_id: int, now: int) -> int:
        """Revokes all of a user's grants and deletes their codes; returns how many grants it
        revoked."""
        await tx.run(_FORGET_CODES_OF_USER, {"user_id": user_id})
        values, revoked = {"user_id": user_id, "now": now}, 0
        async for ids in in_batches(tx, self._db.engine, _REVOKE_OF_USER, values):
            tx.touch(*map(GRANTS.part, ids))
            revoked += len(ids)
        return revoked

    async def record_use(self, tx: Transaction, used: dict[int, int]) -> None:
        """Moves the last-used times of grants forward: grant id to milliseconds."""
        uses = [{"id": grant, "at": at} for grant, at in used.items()]
        await tx.run_many(_USED[self._db.engine], uses)

    async def add_code(self, tx: Transaction, code_hash: bytes, code: Code) -> None:
        """Stores a new authorization code and its digest."""
        await CODES.add(tx, code, code_hash=code_hash)

    async def code(self, code_hash: bytes, tx: Transaction | None = None) -> Code | None:
        """The code with this digest, if any. With `tx` it is locked until the transaction ends."""
        return await CODES.one(self._db, _CODE, {"hash": code_hash}, tx)

    async def spend_code(self, tx: Transaction, code_hash: bytes, grant_id: int) -> None:
        """Exchanges a code for a grant, unless it was exchanged before."""
        await tx.run(_SPEND_CODE, {"hash": code_hash, "grant_id": grant_id})
