"""Invitations: their rows, found by the digest of the token in their links."""

from portico.domain.invitations import Invitation
from portico.domain.users import email_key
from portico.storage.counted_pages import counted_page
from portico.storage.database import Database, Rank, Transaction, integer
from portico.storage.listing import Page
from portico.storage.table import LOADED_BOOLEAN, Table

INVITATIONS = Table(
    "invitations",
    Invitation,
    forms={"signed_up": LOADED_BOOLEAN, "mailed": LOADED_BOOLEAN},
    keys={"email_key": lambda one: email_key(one.email)},
    secrets=("token_hash",),
)

_BY_HASH = f"SELECT {INVITATIONS.columns} FROM invitations WHERE token_hash = :hash"
_OF_EMAIL = f"SELECT {INVITATIONS.columns} FROM invitations WHERE email_key = :email_key"
_BY_ADMINS = f"""
SELECT count(*) OVER () AS total, {INVITATIONS.columns} FROM invitations WHERE signed_up = 0
ORDER BY id DESC LIMIT :limit OFFSET :offset"""
_COUNT_PENDING = "SELECT count(*) FROM invitations WHERE signed_up = 0 AND expires_at > :now"
# Single use: of concurrent uses exactly one finds the row.
_TAKE = f"""
DELETE FROM invitations WHERE token_hash = :hash AND expires_at > :now
RETURNING {INVITATIONS.columns}"""
# A sign-up does not replace an admin's invitation until that has expired.
_PUT = f"""
INSERT INTO invitations ({", ".join(INVITATIONS.written)})
VALUES ({", ".join(f":{column}" for column in INVITATIONS.written)})
ON CONFLICT (email_key) DO UPDATE
SET {", ".join(f"{column} = excluded.{column}" for column in INVITATIONS.written)}
WHERE invitations.signed_up >= excluded.signed_up OR invitations.expires_at <= excluded.created_at
RETURNING {INVITATIONS.columns}"""
_TAKE_OF_EMAIL = f"""
DELETE FROM invitations WHERE email_key = :email_key RETURNING {INVITATIONS.columns}"""
_TAKE_OF_INVITER = f"""
DELETE FROM invitations WHERE inviter_id = :inviter_id RETURNING {INVITATIONS.columns}"""


class Invitations:
    """The invitations of one environment: at most one for each e-mail."""

    rank = Rank.REST

    def __init__(self, db: Database) -> None:
        self._db = db

    async def get(self, invitation_id: int, tx: Transaction | None = None) -> Invitation | None:
        """The invitation with this id, if any. With `tx` it is locked until the transaction
        ends."""
        return await INVITATIONS.get(self._db, invitation_id, tx)

    async def by_hash(self, token_hash: bytes) -> Invitation | None:
        """The invitation whose link has this digest, expired or not; it stays usable."""
        return await INVITATIONS.one(self._db, _BY_HASH, {"hash": token_hash})

    async def of_email(self, email: str) -> Invitation | None:
        """The invitation for an e-mail, expired or not."""
        return await INVITATIONS.one(self._db, _OF_EMAIL, {"email_key": email_key(email)})

    async def by_admins(self, *, offset: int, limit: int) -> Page[Invitation]:
        """One page of the invitations by admins, including expired ones, newest first. The total is
        0 past the last page."""
        rows = await self._db.slow.all(_BY_ADMINS, {"offset": offset, "limit": limit})
        return counted_page(rows, INVITATIONS.read)

    async def count_pending(self, now: int) -> int:
        """How many invitations by admins have not expired."""
        return await integer(self._db.slow, _COUNT_PENDING, {"now": now})

    async def put(
        self, tx: Transaction, token_hash: bytes, invitation: Invitation
    ) -> Invitation | None:
        """Stores an invitation, ignoring its `id`, in place of any other for its e-mail; returns it
        as stored. Stores nothing and returns None for a sign-up whose e-mail an admin has
        invited."""
        values = {**INVITATIONS.values(invitation), "token_hash": token_hash}
        row = await tx.one(_PUT, values)
        return INVITATIONS.read(row) if row else None

    async def take(self, tx: Transaction, token_hash: bytes, now: int) -> Invitation | None:
        """Uses up and returns an invitation, if it exists and has not expired."""
        row = await tx.one(_TAKE, {"hash": token_hash, "now": now})
        return INVITATIONS.read(row) if row else None

    async def delete(self, tx: Transaction, invitation_id: int) -> None:
        """Deletes an invitation, so that its link no longer works."""
        await tx.run(INVITATIONS.delete, {"id": invitation_id})

    async def take_of_email(self, tx: Transaction, email: str) -> Invitation | None:
        """Removes the invitation for an e-mail, expired or not; returns it, if there was one."""
        row = await tx.one(_TAKE_OF_EMAIL, {"email_key": email_key(email)})
        return INVITATIONS.read(row) if row else None

    async def take_of_inviter(self, tx: Transaction, inviter_id: int) -> list[Invitation]:
        """Removes and returns the invitations by this admin, expired or not."""
        return INVITATIONS.read_all(await tx.all(_TAKE_OF_INVITER, {"inviter_id": inviter_id}))
