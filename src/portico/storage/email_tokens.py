"""Single-use tokens that were sent by e-mail or handed over: their digests and purposes."""

import msgspec

from portico.storage.database import Database, Transaction
from portico.storage.table import LOADED_BOOLEAN, Table

NOWHERE = ""
"""Stored in place of an address if a token was handed over."""


class EmailToken(msgspec.Struct, frozen=True):
    """A token's purpose. `email` is where it was sent; `mailed` is whether that was by mail, and
    not into a file that the operator reads. `giver_id` is the admin who handed it over, if any."""

    user_id: int
    purpose: str
    email: str
    expires_at: int
    mailed: bool = False
    giver_id: int | None = None


EMAIL_TOKENS = Table(
    "email_tokens", EmailToken, forms={"mailed": LOADED_BOOLEAN}, secrets=("token_hash",)
)

_BY_HASH = f"SELECT {EMAIL_TOKENS.columns} FROM email_tokens WHERE token_hash = :hash"
# Single use: of concurrent uses exactly one finds the row.
_TAKE = f"""
DELETE FROM email_tokens WHERE token_hash = :hash AND purpose = :purpose AND expires_at > :now
RETURNING {EMAIL_TOKENS.columns}"""
_DELETE_OF_USER = """
DELETE FROM email_tokens
WHERE user_id = :user_id AND (:purpose = '' OR purpose = :purpose)"""
_DELETE_SENT = f"""
DELETE FROM email_tokens
WHERE user_id = :user_id AND purpose = :purpose AND email <> '{NOWHERE}'"""
_DELETE_OF_GIVER = "DELETE FROM email_tokens WHERE giver_id = :giver_id"


class EmailTokens:
    """The e-mailed tokens of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def by_hash(self, token_hash: bytes) -> EmailToken | None:
        """The token with this digest, expired or not; it stays usable."""
        return await EMAIL_TOKENS.one(self._db, _BY_HASH, {"hash": token_hash})

    async def insert(self, tx: Transaction, token_hash: bytes, token: EmailToken) -> None:
        """Stores a new token and its digest."""
        await EMAIL_TOKENS.add(tx, token, token_hash=token_hash)

    async def take(
        self, tx: Transaction, token_hash: bytes, *, purpose: str, now: int
    ) -> EmailToken | None:
        """Uses up and returns a token, if there is one for this purpose that has not expired."""
        row = await tx.one(_TAKE, {"hash": token_hash, "purpose": purpose, "now": now})
        return EMAIL_TOKENS.read(row) if row else None

    async def delete_of_user(self, tx: Transaction, user_id: int, *, purpose: str = "") -> None:
        """Deletes a user's tokens of one purpose, or of all."""
        await tx.run(_DELETE_OF_USER, {"user_id": user_id, "purpose": purpose})

    async def delete_sent(self, tx: Transaction, user_id: int, purpose: str) -> None:
        """Deletes a user's tokens of one purpose, except those that were handed over."""
        await tx.run(_DELETE_SENT, {"user_id": user_id, "purpose": purpose})

    async def delete_of_giver(self, tx: Transaction, giver_id: int) -> None:
        """Deletes the tokens that an admin handed over."""
        await tx.run(_DELETE_OF_GIVER, {"giver_id": giver_id})
