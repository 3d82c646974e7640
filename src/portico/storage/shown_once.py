"""Pages that wait to be shown, once: encrypted, and found by the digest of a token."""

from portico.storage.database import Transaction

_INSERT = "INSERT INTO shown_once VALUES (:hash, :user_id, :page, :expires_at)"
# Single use: of concurrent visits, whatever process serves them, exactly one finds the row.
_TAKE = """
DELETE FROM shown_once WHERE token_hash = :hash AND user_id = :user_id AND expires_at > :now
RETURNING page"""


class ShownOnce:
    """The waiting pages of one environment's accounts."""

    async def insert(
        self, tx: Transaction, token_hash: bytes, *, user_id: int, page: bytes, expires_at: int
    ) -> None:
        """Stores an encrypted page for a user."""
        values = {"hash": token_hash, "user_id": user_id, "page": page, "expires_at": expires_at}
        await tx.run(_INSERT, values)

    async def take(
        self, tx: Transaction, token_hash: bytes, *, user_id: int, now: int
    ) -> bytes | None:
        """A user's page, which is gone then; None where it is not there, or has expired."""
        row = await tx.one(_TAKE, {"hash": token_hash, "user_id": user_id, "now": now})
        return bytes(row[0]) if row else None
