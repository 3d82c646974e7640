"""Removes rows by age, a few at a time, so that no request waits however many are due.

SQLite deletes on the event loop, and PostgreSQL cancels statements that take longer than a request
may. So rows are removed in batches by the index of their age, each in its own transaction.

Each batch begins where the one before ended. Otherwise PostgreSQL would pass all the rows removed
so far, which stay in its indexes for as long as any snapshot is open, such as a backup's.
"""

from collections.abc import Mapping
from enum import Enum

from portico.storage.database import Database, Engine, Reader, Transaction

BATCH = 200
"""Rows removed at a time: 1.5 ms on SQLite's event loop for the widest rows."""

_IS_DUE = "EXISTS (SELECT 1 FROM {table} WHERE {age} < :{table})"
# PostgreSQL: a row that another transaction has locked is in use, or is removed the next time.
_FORGET: dict[Engine, str] = {
    "sqlite": """
DELETE FROM {table} WHERE ({key}) IN (
    SELECT {key} FROM {table} WHERE {age} >= :after AND {age} < :before
    ORDER BY {age} LIMIT :limit)
RETURNING {age}""",
    "postgres": """
DELETE FROM {table} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {table} WHERE {age} >= :after AND {age} < :before
    ORDER BY {age} LIMIT :limit FOR UPDATE SKIP LOCKED))
RETURNING {age}""",
}


class Aging(Enum):
    """The tables whose rows are removed by age: name, column of the age, which has an index, and
    the primary key on SQLite if it is not the rowid."""

    SESSIONS = ("sessions", "expires_at")
    # Before the grants: removing a grant removes its tokens too, and so few are left.
    TOKENS = ("tokens", "refresh_expires_at")
    CODES = ("authorization_codes", "expires_at", "code_hash")
    GRANTS = ("grants", "expires_at")
    CHALLENGES = ("challenges", "expires_at", "token_hash")
    USED_CHALLENGES = ("used_challenges", "expires_at", "challenge_hash")
    PENDING_SIGN_INS = ("pending_sign_ins", "expires_at", "token_hash")
    PROVIDER_VISITS = ("provider_visits", "expires_at", "token_hash")
    EMAIL_TOKENS = ("email_tokens", "expires_at", "token_hash")
    INVITATIONS = ("invitations", "expires_at")
    SHOWN_ONCE = ("shown_once", "expires_at", "token_hash")
    KNOWN_ADDRESSES = ("known_addresses", "last_at", "user_id, address")
    KNOWN_DEVICES = ("known_devices", "last_at", "user_id, token_hash")
    IDEMPOTENCY_KEYS = ("idempotency_keys", "created_at")
    REQUEST_HOURS = ("request_hours", "hour", "user_id, hour, route, status, key_id")
    REQUEST_DAYS = ("request_days", "day", "user_id, day, route, status, key_id")
    FAILED_REQUESTS = ("failed_requests", "at", "user_id, at, request_id")
    RATE_COUNTERS = ("rate_counters", "day", "caller")
    FLUSHES = ("flushes", "at", "writer")
    UPLOADS = ("uploads", "created_at")
    LEASES = ("leases", "until", "name")

    def __init__(self, table: str, age: str, key: str = "rowid") -> None:
        self.terms = {"table": table, "age": age, "key": key}

    def forgetting(self, engine: Engine) -> str:
        """The statement that removes the `:limit` oldest of the rows older than `:before` whose age
        is `:after` or later, and returns their ages."""
        return _FORGET[engine].format(**self.terms)


_FIRST = """
SELECT id, {age} FROM {table} WHERE id > :after ORDER BY id LIMIT :limit"""


async def last_expired(
    reader: Reader, table: str, age: str, before: int, *, after: int = 0, limit: int = BATCH
) -> int:
    """The id up to which all rows of a table after the id `after` are older than `before`, or 0;
    looks at `limit` rows at most. For tables whose ids are in the order of age, which need no index
    by age."""
    up_to = 0
    values = {"after": after, "limit": limit}
    for row in await reader.all(_FIRST.format(table=table, age=age), values):
        if row[1] >= before:
            break
        up_to = row[0]
    return up_to


class Expiry:
    """Removes old rows of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def due(self, bounds: Mapping[Aging, int]) -> list[Aging]:
        """The kinds that have rows older than their bound, which is in the unit of their column."""
        each = ", ".join(_IS_DUE.format(**kind.terms) for kind in bounds)
        values = {kind.terms["table"]: before for kind, before in bounds.items()}
        row = await self._db.one(f"SELECT {each}", values) or ()
        return [kind for kind, is_due in zip(bounds, row, strict=True) if is_due]

    async def forget(self, tx: Transaction, kind: Aging, before: int, after: int = 0) -> int | None:
        """Removes a batch of the rows older than `before`. Returns with which `after` to remove the
        next one, or None if there are no more."""
        values = {"after": after, "before": before, "limit": BATCH}
        ages = [row[0] for row in await tx.all(kind.forgetting(self._db.engine), values)]
        return max(ages) if len(ages) == BATCH else None
