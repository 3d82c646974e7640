"""Pages that are kept to be shown once: encrypted, and found by the digest of a token."""

from portico.data.database import Transaction

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


class ShownOnce:
    """The kept pages of one environment's accounts."""

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
        """A user's page; None if there is none or it has expired. From then on it is kept until
        `until` under the digest `again`, made of the token and the first caller's session, so that
        only this session can load it again."""
        key = {"hash": token_hash, "user_id": user_id, "now": now}
        await tx.run(_MOVE, {**key, "again": again, "until": until})
        row = await tx.one(_PAGE, {**key, "hash": again})
        return bytes(row[0]) if row else None
