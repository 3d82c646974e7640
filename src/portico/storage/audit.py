"""The audit log: written with what it tells of, in the same transaction, and never changed."""

import msgspec

from portico.domain.audit import Actor, Entry
from portico.domain.caller import Principal
from portico.domain.events.base import Event
from portico.storage.database import Database, Transaction
from portico.storage.live_credentials import HOLDS, held
from portico.storage.table import Table

AUDIT = Table("audit", Entry)

# In one statement with the line, so that a caller is asked for as late as can be, without a further
# round trip.
_RECORD = """
INSERT INTO audit (at, action, user_id, email, credential, credential_id, address, target,
    target_id, details, request_id)
SELECT :at, :action, :user_id, :email, :credential, :credential_id, :address, :target,
    :target_id, :details, :request_id"""
_RECORDED = f"{_RECORD} RETURNING id"
_RECORDED_WHERE = {kind: f"{_RECORD} WHERE {held} RETURNING id" for kind, held in HOLDS.items()}
_PAGE = f"SELECT {AUDIT.columns} FROM audit WHERE {{where}} ORDER BY id DESC LIMIT :limit"
_FILTERS = {"user_id": "user_id = :user_id", "action": "action = :action"}
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
        self, tx: Transaction, by: Actor, at: int, event: Event, *, still: Principal | None = None
    ) -> bool:
        """Notes an event that `by` caused. False, and nothing noted, where the credential of
        `still` has ended by the time `at`, or its owner has another role."""
        values = {
            **msgspec.structs.asdict(by),
            "at": at,
            "action": event.action,
            "target": event.target,
            "target_id": None if event.target_id is None else str(event.target_id),
            "details": msgspec.json.encode(event.details).decode(),
        }
        if still is None:
            return await tx.one(_RECORDED, values) is not None
        kind, asked = held(still, at)
        return await tx.one(_RECORDED_WHERE[kind], {**values, **asked}) is not None

    async def holds(self, tx: Transaction, principal: Principal, now: int) -> bool:
        """Whether a credential has not ended, and its owner has the same role."""
        kind, values = held(principal, now)
        return await tx.one(f"SELECT 1 WHERE {HOLDS[kind]}", values) is not None

    async def page(
        self,
        *,
        before: int | None = None,
        user_id: int | None = None,
        action: str | None = None,
        limit: int,
    ) -> list[Entry]:
        """The newest entries older than the entry `before`, of one account or action or of all."""
        chosen = {"user_id": user_id, "action": action}
        chosen = {name: value for name, value in chosen.items() if value is not None}
        # Only the filters that are set: one whose parameter stood for "all" would keep the engine
        # from the other's index.
        where = " AND ".join(("id < :before", *(_FILTERS[name] for name in chosen)))
        values = {**chosen, "before": before or _NEWEST, "limit": limit}
        rows = await self._db.slow.all(_PAGE.format(where=where), values)
        return AUDIT.read_all(rows)

    async def actions(self) -> list[str]:
        """Every action that an entry tells of, in order."""
        return [str(row[0]) for row in await self._db.slow.all(_ACTIONS)]
