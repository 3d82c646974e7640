"""Answers that are stored together with their effect, for requests that are repeated."""

import msgspec

from portico.core.audit import KEPT_SECONDS, Answer, Kept, KeyedRequest
from portico.core.times import SECOND
from portico.data.database import Database, Transaction

_COLUMNS = "body_hash, status, headers, body"
_ONE = f"""
SELECT {_COLUMNS} FROM idempotency_keys
WHERE user_id = :user_id AND route = :route AND key_hash = :key_hash AND created_at > :since"""
# Of concurrent requests with one key exactly one finds no row, or one that has expired.
_KEEP = """
INSERT INTO idempotency_keys (user_id, route, key_hash, body_hash, status, headers, body,
    created_at)
VALUES (:user_id, :route, :key_hash, :body_hash, :status, :headers, :body, :now)
ON CONFLICT (user_id, route, key_hash) DO UPDATE SET body_hash = excluded.body_hash,
    status = excluded.status, headers = excluded.headers, body = excluded.body,
    created_at = excluded.created_at
WHERE idempotency_keys.created_at <= :since RETURNING status"""
_FORGET = "DELETE FROM idempotency_keys WHERE created_at <= :since"


def _since(now: int) -> int:
    return now - KEPT_SECONDS * SECOND


class IdempotencyKeys:
    """The kept answers of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def get(self, request: KeyedRequest, now: int) -> Kept | None:
        """The answer to an earlier request with the same key in the last 24 hours, if any."""
        values = {**msgspec.structs.asdict(request), "since": _since(now)}
        row = await self._db.one(_ONE, values)
        if row is None:
            return None
        headers = msgspec.json.decode(row[2], type=list[tuple[str, str]])
        return Kept(row[0], Answer(row[1], headers, row[3]))

    async def keep(
        self,
        tx: Transaction,
        request: KeyedRequest,
        now: int,
        answer: Answer,
        otherwise: Exception,
    ) -> None:
        """Keeps the answer to a request. Raises `otherwise` if another request with the same key
        came first."""
        values = {
            **msgspec.structs.asdict(request),
            "status": answer.status,
            "headers": msgspec.json.encode(answer.headers).decode(),
            "body": answer.body,
            "now": now,
            "since": _since(now),
        }
        await tx.conclude(_KEEP, values, otherwise)

    async def forget(self, tx: Transaction, now: int) -> None:
        """Removes answers older than 24 hours."""
        await tx.run(_FORGET, {"since": _since(now)})
