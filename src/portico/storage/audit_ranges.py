"""The audit log's partitions on PostgreSQL: ranges of ids. A partition is dropped as a whole when
all its entries are released (decision record 0034). SQLite has none.

`audit_N` has the ids from N * `RANGE` to before (N + 1) * `RANGE`; the first one also has all lower
ids. Entries that fit no partition are in `audit_rest`.
"""

from portico.storage.database import Database, Transaction

RANGE = 1 << 24
"""Ids per partition. A page of the log reads from every partition, so there should be few."""

AHEAD = 2
"""How many ranges are created before anything is written into them."""

_NUMBERS = """
SELECT CAST(substr(relname, 7) AS BIGINT) FROM pg_inherits JOIN pg_class ON oid = inhrelid
WHERE inhparent = 'audit'::regclass AND relname ~ '^audit_[0-9]+$'"""
_PLACE = """
SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('audit', 'id')::regclass), 0),
    EXISTS (SELECT FROM audit_rest)"""
_RELEASED = "SELECT up_to FROM audit_removed"

# Created first and then attached. While it is attached, only readers and writers of `audit_rest`
# wait, which is scanned then.
_MAKE = """
CREATE TABLE audit_{number} (LIKE audit INCLUDING INDEXES);
CREATE TRIGGER audit_is_append_only BEFORE UPDATE OR TRUNCATE ON audit_{number}
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER audit_is_not_removed AFTER DELETE ON audit_{number} REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_removal();
SELECT copy_rights('audit', 'audit_{number}');
ALTER TABLE audit ATTACH PARTITION audit_{number} FOR VALUES FROM ({first}) TO ({end});"""
# All writers of entries wait behind a transaction that waits for this lock.
_BRIEFLY = "SET LOCAL lock_timeout = '200ms'; SET LOCAL statement_timeout = 0;"
# Autovacuum gives way after a second; nothing else waits behind this lock.
_UNSWEPT = """
SET LOCAL lock_timeout = '3s';
LOCK TABLE audit_{number} IN SHARE UPDATE EXCLUSIVE MODE;"""


class AuditRanges:
    """The partitions of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def missing(self) -> list[int]:
        """The numbers of the ranges to create: the current one, unless `audit_rest` has entries,
        and the next ones."""
        if self._db.engine == "sqlite":
            return []
        made = await self._numbers()
        last, is_late = await self._db.slow.one(_PLACE) or (0, False)
        here = last // RANGE
        wanted = range(here + 1 if is_late else here, here + AHEAD + 1)
        covered = min(made, default=-1)
        return [number for number in wanted if number > covered and number not in made]

    async def make(self, tx: Transaction, number: int) -> None:
        """Creates a partition. Raises `Unavailable` if others hold a lock on `audit_rest`."""
        bounds = {"first": number * RANGE, "end": (number + 1) * RANGE}
        await tx.script(_BRIEFLY)
        await tx.script(_MAKE.format(number=number, **bounds))

    async def released(self) -> list[int]:
        """The numbers of the partitions whose entries may all be removed."""
        if self._db.engine == "sqlite":
            return []
        row = await self._db.slow.one(_RELEASED)
        end = (row[0] + 1) // RANGE if row else 0
        return sorted(number for number in await self._numbers() if number < end)

    async def drop(self, tx: Transaction, number: int) -> None:
        """Drops a partition with all its entries. Raises `Unavailable` if a reader of the log takes
        longer than writers can wait."""
        await tx.script(_UNSWEPT.format(number=number))
        await tx.script(_BRIEFLY)
        await tx.script(f"DROP TABLE audit_{number}")

    async def _numbers(self) -> set[int]:
        return {row[0] for row in await self._db.slow.all(_NUMBERS)}
