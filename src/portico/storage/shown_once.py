"""Pages and forms that are kept to be shown once: encrypted, and found by the digest of a token."""

from portico.storage.database import Database, Transaction, integer

_INSERT = """
INSERT INTO shown_once (token_hash, user_id, page, expires_at)
VALUES (:hash, :user_id, :page, :expires_at)
ON CONFLICT (token_hash) DO UPDATE SET page = excluded.page, expires_at = excluded.expires_at"""
# Single use: of concurrent visits, in any process, exactly one finds the row.
_MOVE = """
UPDATE shown_once SET token_hash = :again, expires_at = :until
WHERE token_hash = :hash AND user_id = :user_id AND expires_at > :now"""
_PAGE = """
SELECT page FROM shown_once WHERE token_hash = :hash AND user_id = :user_id AND expires_at > :now"""
_TAKE = """
DELETE FROM shown_once WHERE token_hash = :hash AND user_id = :user_id AND expires_at > :now
RETURNING page"""
_HAS = "SELECT 1 FROM shown_once WHERE token_hash = :hash"
_WAITING = "SELECT count(*) FROM shown_once WHERE user_id = :user_id AND expires_at > :now"


class ShownOnce:
    """The kept pages and forms of one environment's accounts."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def has(self, token_hash: bytes) -> bool:
        """Whether a page is kept under the token with this digest."""
        return await self._db.one(_HAS, {"hash": token_hash}) is not None

    async def waiting(self, tx: Transaction, user_id: int, *, now: int) -> int:
        """How many pages are kept for a user."""
        return await integer(tx, _WAITING, {"user_id": user_id, "now": now})

    async def insert(
        self, tx: Transaction, token_hash: bytes, *, user_id: int, page: bytes, expires_at: int
    ) -> None:
        """Stores an encrypted page for a user, replacing one under this token that was not shown
        yet."""
        values = {"hash": token_hash, "user_id": user_id, "page": page, "expires_at": expires_at}
        await tx.run(_INSERT, values)

    async def show(
        self,
        tx: Transaction,
        token_hash: bytes,
        *,
        again: bytes,
        until: int,
        user_id: int,
        now: int,
    ) -> bytes | None:
        """A user's page as in `take`, but kept until `until` under the digest `again`, made of the
        token and the first caller's session, so that only this session can load it again."""
        key = {"hash": token_hash, "user_id": user_id, "now": now}
        await tx.run(_MOVE, {**key, "again": again, "until": until})
        row = await tx.one(_PAGE, {**key, "hash": again})
        return bytes(row[0]) if row else None

    async def take(
        self, tx: Transaction, token_hash: bytes, *, user_id: int, now: int
    ) -> bytes | None:
        """Removes and returns a user's page; None if there is none or it has expired."""
        row = await tx.one(_TAKE, {"hash": token_hash, "user_id": user_id, "now": now})
        return bytes(row[0]) if row else None
