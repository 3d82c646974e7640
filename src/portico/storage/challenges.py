"""Random values that pages issue and that can be used once. Only their digests are stored."""

from portico.storage.database import Transaction

_INSERT = """
INSERT INTO challenges (token_hash, session_id, expires_at)
VALUES (:hash, :session_id, :expires_at)"""
# Single use: of concurrent requests with one value exactly one finds the row.
_TAKE = """
DELETE FROM challenges
WHERE token_hash = :hash AND session_id = :session_id AND expires_at > :now RETURNING session_id"""


class Challenges:
    """The challenges of one environment's pages."""

    async def insert(
        self, tx: Transaction, token_hash: bytes, *, session_id: int, expires_at: int
    ) -> None:
        """Stores a value issued to a session."""
        values = {"hash": token_hash, "session_id": session_id, "expires_at": expires_at}
        await tx.run(_INSERT, values)

    async def take(self, tx: Transaction, token_hash: bytes, *, session_id: int, now: int) -> bool:
        """Uses up a session's value; False if there is none or it has expired."""
        values = {"hash": token_hash, "session_id": session_id, "now": now}
        return await tx.one(_TAKE, values) is not None
