"""The audit log: written with what it tells of, in the same transaction, and never changed."""

import msgspec

from portico.domain.audit import Actor, Entry
from portico.domain.caller import Principal
from portico.domain.events.base import Event
from portico.storage.database import Database, Transaction
from portico.storage.table import Table

AUDIT = Table("audit", Entry)

# Whose credential it is still has the same role, and the credential has not ended. With the line in
# one statement, so that a caller is asked for as late as can be, and for no further round trip.
_HOLDS = {
    "api_key": """EXISTS (
    SELECT 1 FROM api_keys AS k JOIN users AS u ON u.id = k.user_id
    WHERE k.id = :holder AND k.revoked_at IS NULL AND u.role = :role
        AND (k.expires_at IS NULL OR k.expires_at > :now))""",
    "session": """EXISTS (
    SELECT 1 FROM sessions AS s JOIN users AS u ON u.id = s.user_id
    WHERE s.id = :holder AND s.expires_at > :now AND u.role = :role)""",
    "token": """EXISTS (
    SELECT 1 FROM tokens AS t JOIN grants AS g ON g.id = t.grant_id
        JOIN users AS u ON u.id = g.user_id
    WHERE t.id = :holder AND t.access_expires_at > :now AND g.revoked_at IS NULL
        AND u.role = :role)""",
}
_RECORD = """
INSERT INTO audit (at, action, user_id, email, credential, credential_id, address, target,
    target_id, details, request_id)
SELECT :at, :action, :user_id, :email, :credential, :credential_id, :address, :target,
    :target_id, :details, :request_id"""
_RECORDED = f"{_RECORD} RETURNING id"
_RECORDED_WHERE = {kind: f"{_RECORD} WHERE {held} RETURNING id" for kind, held in _HOLDS.items()}
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


def _held(principal: Principal, now: int) -> tuple[str, dict[str, object]]:
    """Which of `_HOLDS` is to be asked for a credential, and its parameters."""
    token = principal.token_id is not None
    held = principal.token_id if token else principal.credential_id
    kind = "token" if token else principal.credential
    return kind, {"holder": held, "role": principal.role, "now": now}


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
        kind, held = _held(still, at)
        return await tx.one(_RECORDED_WHERE[kind], {**values, **held}) is not None

    async def holds(self, tx: Transaction, principal: Principal, now: int) -> bool:
        """Whether a credential has not ended, and its owner has the same role."""
        kind, held = _held(principal, now)
        return await tx.one(f"SELECT 1 WHERE {_HOLDS[kind]}", held) is not None

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
