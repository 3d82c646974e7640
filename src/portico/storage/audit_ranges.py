"""The audit log's partitions on PostgreSQL: ranges of ids, each of which goes at once when all that
it holds is released (decision record 0034). SQLite has none.

`audit_N` ends before the id (N + 1) * `RANGE`, and begins where that of N does, but for the first,
which has all below. What fits no range stands in `audit_rest`, where all would be if nobody made
any.
"""

from portico.storage.database import Database, Transaction

RANGE = 1 << 24
"""Ids of one. A page of the log looks into each, so there are few."""

AHEAD = 2
"""Ranges that are made before anything is written into them."""

_NUMBERS = """
SELECT CAST(substr(relname, 7) AS BIGINT) FROM pg_inherits JOIN pg_class ON oid = inhrelid
WHERE inhparent = 'audit'::regclass AND relname ~ '^audit_[0-9]+$'"""
_PLACE = """
SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('audit', 'id')::regclass), 0),
    EXISTS (SELECT FROM audit_rest)"""
_RELEASED = "SELECT up_to FROM audit_removed"

# Attached when it is made, for which nobody waits but who reads or writes `audit_rest`, while that
# is looked through.
_MAKE = """
CREATE TABLE audit_{number} (LIKE audit INCLUDING INDEXES);
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON audit_{number}
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_is_not_removed AFTER DELETE ON audit_{number} REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_removal();
SELECT copy_rights('audit', 'audit_{number}');
ALTER TABLE audit ATTACH PARTITION audit_{number} FOR VALUES FROM ({first}) TO ({end});"""
# Everybody who writes an entry waits for whoever waits for this lock.
_BRIEFLY = "SET LOCAL lock_timeout = '200ms'; SET LOCAL statement_timeout = 0;"
# Autovacuum goes out of the way after a second; for this lock nobody else waits.
_UNSWEPT = """
SET LOCAL lock_timeout = '3s';
LOCK TABLE audit_{number} IN SHARE UPDATE EXCLUSIVE MODE;"""


class AuditRanges:
    """Those of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def missing(self) -> list[int]:
        """The numbers of the ranges that are to be made: the present one, unless something of it
        stands in `audit_rest`, and the next ones."""
        if self._db.engine == "sqlite":
            return []
        made = await self._numbers()
        last, is_late = await self._db.slow.one(_PLACE) or (0, False)
        here = last // RANGE
        wanted = range(here + 1 if is_late else here, here + AHEAD + 1)
        covered = min(made, default=-1)
        return [number for number in wanted if number > covered and number not in made]

    async def make(self, tx: Transaction, number: int) -> None:
        """Makes one. Raises `Unavailable` where others hold a lock on `audit_rest`."""
        bounds = {"first": number * RANGE, "end": (number + 1) * RANGE}
        await tx.script(_BRIEFLY)
        await tx.script(_MAKE.format(number=number, **bounds))

    async def released(self) -> list[int]:
        """The numbers of those that hold nothing but what may be removed."""
        if self._db.engine == "sqlite":
            return []
        row = await self._db.slow.one(_RELEASED)
        end = (row[0] + 1) // RANGE if row else 0
        return sorted(number for number in await self._numbers() if number < end)

    async def drop(self, tx: Transaction, number: int) -> None:
        """Removes one, with all that it holds. Raises `Unavailable` where somebody reads the log
        for longer than writers can wait."""
        await tx.script(_UNSWEPT.format(number=number))
        await tx.script(_BRIEFLY)
        await tx.script(f"DROP TABLE audit_{number}")

    async def _numbers(self) -> set[int]:
        return {row[0] for row in await self._db.slow.all(_NUMBERS)}
