"""Ids in a restored database: they continue far above those assigned after the backup."""

from portico.domain.webhooks import PING
from portico.storage.audit_ranges import AuditRanges
from portico.storage.database import Database, Engine

LEFT_OUT = 1_000_000_000
"""How many ids of each table are skipped: more than are ever assigned between a backup and the loss
of the database."""

# `sqlite_sequence` has a row only for tables into which a row was ever inserted.
_LIFT: dict[Engine, tuple[str, ...]] = {
    "sqlite": (
        """
INSERT INTO sqlite_sequence (name, seq)
SELECT name, 0 FROM sqlite_master WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'
    AND name NOT IN (SELECT name FROM sqlite_sequence)""",
        f"UPDATE sqlite_sequence SET seq = seq + {LEFT_OUT}",
    ),
    "postgres": (
        f"""
SELECT setval(format('%I.%I', schemaname, sequencename)::regclass,
    coalesce(last_value, 0) + {LEFT_OUT})
FROM pg_sequences WHERE schemaname = current_schema()""",
    ),
}
_ID: dict[Engine, str] = {
    "sqlite": "SELECT seq + 1 FROM sqlite_sequence WHERE name = 'events'",
    "postgres": f"""
SELECT coalesce(greatest((SELECT max(id) FROM events), (SELECT up_to FROM events_removed)), 0)
    + {LEFT_OUT}""",
}
# Event ids continue from the newest event. No webhook has the id 0, so this one is not delivered.
_MARK = f"""
INSERT INTO events (id, type, at, data)
VALUES (({{id}}), '{PING}', :at, '{{{{"webhook_id":0}}}}')"""


_LOCK: dict[Engine, str] = {
    "sqlite": "",  # which lets one write at a time
    "postgres": "LOCK TABLE events IN SHARE ROW EXCLUSIVE MODE",
}
_MARKED = "SELECT 1 FROM events LIMIT 1"


async def skip_ids(db: Database, now: int, *, unmarked: bool = False) -> None:
    """Skips `LEFT_OUT` ids of every table with generated ids, and of events. Otherwise an id that
    was assigned after the backup, and is known outside, would be assigned again. Also creates the
    audit log's ranges for its next ids.

    For a database that no other process uses. With `unmarked`, does nothing if there is an event,
    so that only one of several processes that call this acts.
    """
    async with db.transaction() as tx:
        await tx.script(_LOCK[db.engine])
        if unmarked and await tx.one(_MARKED):
            return
        for statement in _LIFT[db.engine]:
            await tx.all(statement)
        await tx.run(_MARK.format(id=_ID[db.engine]), {"at": now})
        ranges = AuditRanges(db)
        for number in await ranges.missing():
            await ranges.make(tx, number)
