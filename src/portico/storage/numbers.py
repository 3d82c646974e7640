"""Numbers of a restored database: they go on far above those that were given after the backup."""

from portico.domain.webhooks import PING
from portico.storage.audit_ranges import AuditRanges
from portico.storage.database import Database, Engine

LEFT_OUT = 1_000_000_000
"""More rows of a table than anybody makes between a backup and the loss of what was backed up."""

# A row in `sqlite_sequence` has only a table that has had one itself.
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
# Numbers of events go on from the newest. No webhook has this one's id, so nobody is told.
_MARK = f"""
INSERT INTO events (id, type, at, data)
VALUES (({{id}}), '{PING}', :at, '{{{{"webhook_id":0}}}}')"""


_LOCK: dict[Engine, str] = {
    "sqlite": "",  # which lets one write at a time
    "postgres": "LOCK TABLE events IN SHARE ROW EXCLUSIVE MODE",
}
_MARKED = "SELECT 1 FROM events LIMIT 1"


async def lift(db: Database, now: int, *, unmarked: bool = False) -> None:
    """Leaves out `LEFT_OUT` numbers of every table that numbers its rows, and of events: else what
    was given after the backup, and is known elsewhere, would be given to something else. The audit
    log gets the range in which its numbers go on. For a database that nobody else uses; with
    `unmarked`, where no event stands in it, so that of several who do this one does."""
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
