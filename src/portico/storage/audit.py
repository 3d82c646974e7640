"""The audit log: written with what it tells of, in the same transaction, and never changed."""

from collections.abc import Mapping

import msgspec

from portico.domain.audit import Actor, Entry
from portico.storage.database import Database, Transaction

_COLUMNS = (
    "id, at, action, user_id, email, credential, credential_id, address, target, target_id,"
    " details, request_id"
)
_RECORD = """
INSERT INTO audit (at, action, user_id, email, credential, credential_id, address, target,
    target_id, details, request_id)
VALUES (:at, :action, :user_id, :email, :credential, :credential_id, :address, :target,
    :target_id, :details, :request_id)"""
_PAGE = f"""
SELECT {_COLUMNS} FROM audit
WHERE id < :before AND (:user_id = 0 OR user_id = :user_id) AND (:action = '' OR action = :action)
ORDER BY id DESC LIMIT :limit"""
# A parameter that stands for "all" would keep the engine from using the index of the other.
_PAGE_OF_ALL = f"SELECT {_COLUMNS} FROM audit WHERE id < :before ORDER BY id DESC LIMIT :limit"
# Steps from one action to the next in the index, however many entries each has.
_ACTIONS = """
WITH RECURSIVE known (action) AS (
    SELECT min(action) FROM audit
    UNION ALL
    SELECT (SELECT min(action) FROM audit WHERE action > known.action) FROM known
    WHERE known.action IS NOT NULL
)
SELECT action FROM known WHERE action IS NOT NULL"""
_NEWEST = 2**63 - 1


class Audit:
    """The audit log of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def record(
        self,
        tx: Transaction,
        by: Actor,
        at: int,
        action: str,
        *,
        target: str | None = None,
        target_id: int | str | None = None,
        details: Mapping[str, object] | None = None,
    ) -> None:
        """Notes that `by` did `action` ("key.create") to a target ("api_key", its id)."""
        await tx.run(
            _RECORD,
            {
                **msgspec.structs.asdict(by),
                "at": at,
                "action": action,
                "target": target,
                "target_id": None if target_id is None else str(target_id),
                "details": msgspec.json.encode(details or {}).decode(),
            },
        )

    async def page(
        self,
        *,
        before: int | None = None,
        user_id: int | None = None,
        action: str | None = None,
        limit: int,
    ) -> list[Entry]:
        """The newest entries older than the entry `before`, of one account or action or of all."""
        values = {"before": before or _NEWEST, "limit": limit}
        if user_id is None and action is None:
            return [Entry(*row) for row in await self._db.slow.all(_PAGE_OF_ALL, values)]
        chosen = {**values, "user_id": user_id or 0, "action": action or ""}
        return [Entry(*row) for row in await self._db.slow.all(_PAGE, chosen)]

    async def actions(self) -> list[str]:
        """Every action that an entry tells of, in order."""
        return [str(row[0]) for row in await self._db.slow.all(_ACTIONS)]
