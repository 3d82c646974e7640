"""Random values that pages give out and that come back once, by their digests."""

from portico.storage.database import Transaction

_INSERT = """
INSERT INTO challenges (token_hash, session_id, expires_at)
VALUES (:hash, :session_id, :expires_at)"""
# Single use: of any number that come back at once exactly one finds the row.
_TAKE = """
DELETE FROM challenges
WHERE token_hash = :hash AND session_id = :session_id AND expires_at > :now RETURNING session_id"""


class Challenges:
    """What one environment's pages wait for."""

    async def insert(
        self, tx: Transaction, token_hash: bytes, *, session_id: int, expires_at: int
    ) -> None:
        """Stores a value that a session gets."""
        values = {"hash": token_hash, "session_id": session_id, "expires_at": expires_at}
        await tx.run(_INSERT, values)

    async def take(self, tx: Transaction, token_hash: bytes, *, session_id: int, now: int) -> bool:
        """Uses a session's value up; False where it is not there, or has expired."""
        values = {"hash": token_hash, "session_id": session_id, "now": now}
        return await tx.one(_TAKE, values) is not None
