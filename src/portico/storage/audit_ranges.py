"""The audit log's partitions on PostgreSQL: ranges of ids, each of which goes at once when all that
it holds is released (decision record 0034). SQLite has none.

`audit_N` ends before the id (N + 1) * `RANGE`. What fits no range stands in `audit_rest`, where all
would be if nobody made any.
"""

from portico.storage.database import Database, Transaction

RANGE = 1 << 24
"""Ids of one. A page of the log looks into each, so there are few."""

# Those that come next. It looks a little ahead, for what is written until they are there.
_MISSING = f"""
SELECT number FROM (
    SELECT generate_series(here + 1, here + 2) AS number FROM (
        SELECT (coalesce(pg_sequence_last_value(pg_get_serial_sequence('audit', 'id')::regclass), 0)
            + {RANGE // 16}) / {RANGE} AS here) AS place) AS next
WHERE to_regclass('audit_' || number) IS NULL ORDER BY number"""
# Attached when it is made, which neither readers nor writers of others notice.
_MAKE = """
CREATE TABLE audit_{number} (LIKE audit INCLUDING INDEXES);
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON audit_{number}
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_is_not_removed AFTER DELETE ON audit_{number} REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_removal();
ALTER TABLE audit ATTACH PARTITION audit_{number} FOR VALUES FROM ({first}) TO ({end});"""
_RELEASED = f"""
SELECT number FROM (
    SELECT CAST(substring(relname FROM '^audit_([0-9]+)$') AS BIGINT) AS number
    FROM pg_inherits JOIN pg_class ON oid = inhrelid WHERE inhparent = 'audit'::regclass) AS ranges
WHERE (number + 1) * {RANGE} <= (SELECT up_to FROM audit_removed) + 1 ORDER BY number"""
# Everybody who writes an entry waits for whoever waits for this lock.
_BRIEFLY = "SET LOCAL lock_timeout = '200ms'"


class AuditRanges:
    """Those of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def missing(self) -> list[int]:
        """The numbers of the ranges that are to be made, so that what is written finds one."""
        return await self._numbers(_MISSING)

    async def make(self, tx: Transaction, number: int) -> None:
        """Makes one. Raises `Unavailable` where others hold a lock on `audit_rest`."""
        bounds = {"first": number * RANGE, "end": (number + 1) * RANGE}
        await tx.script(_BRIEFLY)
        await tx.script(_MAKE.format(number=number, **bounds))

    async def released(self) -> list[int]:
        """The numbers of those that hold nothing but what may be removed."""
        return await self._numbers(_RELEASED)

    async def drop(self, tx: Transaction, number: int) -> None:
        """Removes one, with all that it holds. Raises `Unavailable` where somebody reads the log
        for longer than writers can wait."""
        await tx.script(_BRIEFLY)
        await tx.script(f"DROP TABLE audit_{number}")

    async def _numbers(self, sql: str) -> list[int]:
        if self._db.engine == "sqlite":
            return []
        return [row[0] for row in await self._db.slow.all(sql)]
