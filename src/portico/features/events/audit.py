"""The audit log. Entries are written in the transaction of the change that they record, never
changed, and removed only by age."""

from collections.abc import AsyncIterator

import msgspec

from portico.core.audit import Actor, Entry
from portico.core.caller import Principal
from portico.core.errors import Gone
from portico.core.events import Event
from portico.core.ids import MAX_ID
from portico.data.database import Database, Engine, Transaction, integer
from portico.data.table import BATCH, Table, last_expired
from portico.features.access.live_credentials import HOLDS, held
from portico.features.people.storage import anywhere, lower_for, pattern

AUDIT = Table("audit", Entry)

EXPORT_BATCH = 1_000

_OLDEST = f"""
SELECT {AUDIT.columns} FROM audit WHERE id > :after AND id <= :up_to ORDER BY id LIMIT :limit"""
_RELEASED = "SELECT up_to FROM audit_removed"
_RELEASE = """
INSERT INTO audit_removed (one, up_to) VALUES (1, :up_to)
ON CONFLICT (one) DO UPDATE SET up_to = excluded.up_to"""
_REMOVE = """
DELETE FROM audit WHERE id IN (
    SELECT id FROM audit WHERE id > :after AND id <= :up_to ORDER BY id LIMIT :limit)
RETURNING id"""

# Checks the credential in the statement that writes the entry: as late as possible, and without
# another round trip.
_RECORD = """
INSERT INTO audit (at, action, user_id, email, credential, credential_id, client_id, client_name,
    address, target, target_id, details, request_id)
SELECT :at, :action, :user_id, :email, :credential, :credential_id, :client_id, :client_name,
    :address, :target, :target_id, :details, :request_id"""
_RECORDED_WHERE = {kind: f"{_RECORD} WHERE {held} RETURNING id" for kind, held in HOLDS.items()}
# The entries by an account and those about it are read separately, each by its own index.
_OF_USER = ("user_id = {0:d}", "target = 'user' AND target_id = '{0:d}'")
# By the index of actions: reads a row for each creation, change and deletion of an account. Roles,
# plans and names of fields are in `details` too, but only an e-mail has an @. The engine's `lower`
# leaves letters that a key folds, such as ß, so the e-mail is also searched for in the form that
# `lower` gives it.
_ONCE_CALLED = """
SELECT target_id FROM {audit}
WHERE action IN ('user.created', 'user.updated', 'user.deleted')
    AND ({lower}(details) LIKE :folded ESCAPE '!'
        OR {lower}(details) LIKE {lower}(:typed) ESCAPE '!')
GROUP BY target_id ORDER BY max(id) DESC LIMIT :most"""
MOST_ACCOUNTS = 100
"""The most accounts that had one e-mail to look for: each needs two reads of the log."""
_CONDITIONS = {
    "target": "target = :target AND target_id = :target_id",
    "action": "action = :action",
    "since": "at >= :since",
    "until": "at < :until",
    "before": "(at, id) < (:before_at, :before_id)",
}
# On PostgreSQL an entry with a lower id may be committed later.
_SETTLED = """
id < coalesce((SELECT min(id) FROM audit WHERE at >= :settled), 9223372036854775807)"""
_AFTER = {
    "target": _CONDITIONS["target"],
    "actor": "user_id = :actor",
    "action": _CONDITIONS["action"],
}
_INDEXES = {"target": "audit_by_target", "actor": "audit_by_user", "action": "audit_by_action"}
"""The index for each filter, the narrowest first."""
_ORDERED = "ORDER BY at DESC, id DESC LIMIT :limit"
_PLACE = "SELECT at, id FROM audit WHERE id >= :before ORDER BY id LIMIT 1"
# Steps from one action to the next in the index, without reading every entry.
_ACTIONS = """
WITH RECURSIVE known (action) AS (
    SELECT min(action) FROM audit
    UNION ALL
    SELECT (SELECT min(action) FROM audit WHERE action > known.action) FROM known
    WHERE known.action IS NOT NULL
)
SELECT action FROM known WHERE action IS NOT NULL"""


class AuditFilter(msgspec.Struct, frozen=True):
    """Selects entries: by or about the accounts `users`, about the `target` (kind and id), with
    this action, from `since` on and before `until`. None means any."""

    users: frozenset[int] | None = None
    target: tuple[str, str] | None = None
    action: str | None = None
    since: int | None = None
    until: int | None = None


EVERYTHING = AuditFilter()


def _by_index(name: str, engine: Engine) -> str:
    """The table to read from. On SQLite it names the index, since SQLite has no statistics and
    would choose an index with too many entries."""
    return f"audit INDEXED BY {name}" if engine == "sqlite" else "audit"


def _page(chosen: AuditFilter, engine: Engine, *, begun: bool) -> str:
    """The statement of a page, with only the filters that are set: a parameter that can mean "all"
    would keep the engine from using the index of another filter."""
    wanted = {**msgspec.structs.asdict(chosen), "before": begun or None}
    others = [sql for name, sql in _CONDITIONS.items() if wanted[name] is not None]
    if chosen.target:
        index = "audit_by_target"
    elif chosen.users is None:
        index = "audit_by_action" if chosen.action else "audit_by_time"
    else:
        index = "audit_by_user_action" if chosen.action else "audit_by_user"
    ways = [(index, others)]
    if chosen.users is not None:
        ways = [
            (by, [way.format(user), *others])
            for user in sorted(chosen.users)
            for by, way in zip((index, "audit_by_target"), _OF_USER, strict=True)
        ]
    parts = [
        f"SELECT {AUDIT.columns} FROM {_by_index(name, engine)}"
        f" WHERE {' AND '.join(conditions) or 'TRUE'} {_ORDERED}"
        for name, conditions in ways
    ]
    if len(parts) == 1:
        return parts[0]
    both = " UNION ".join(f"SELECT * FROM ({part}) AS way" for part in parts)
    return f"SELECT * FROM ({both}) AS ways {_ORDERED}"


class Audit:
    """The audit log of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def record(
        self,
        tx: Transaction,
        by: Actor,
        at: int,
        event: Event,
        *,
        still: Principal | None = None,
        ended: Exception | None = None,
    ) -> None:
        """Records an event that `by` caused. If the credential of `still` is no longer valid at the
        time `at`, or its owner has another role, raises `ended` and rolls back the transaction."""
        values = {
            **msgspec.structs.asdict(by),
            "at": at,
            "action": event.action,
            "target": event.target,
            "target_id": None if event.target_id is None else str(event.target_id),
            "details": msgspec.json.encode(event.details).decode(),
        }
        if still is None:
            await tx.conclude(_RECORD, values)
            return
        kind, asked = held(still, at)
        await tx.conclude(_RECORDED_WHERE[kind], {**values, **asked}, ended)

    async def page(
        self, chosen: AuditFilter = EVERYTHING, *, before: int | None = None, limit: int
    ) -> list[Entry]:
        """The newest entries of a filter that are older than the entry `before`."""
        if chosen.users is not None and not chosen.users:
            return []
        slow = self._db.replica.slow
        place = None
        if before is not None:  # a replica may not have this entry yet
            asked = {"before": before}
            place = await slow.one(_PLACE, asked) or await self._db.slow.one(_PLACE, asked)
        kind, target_id = chosen.target or (None, None)
        values = {
            "target": kind,
            "target_id": target_id,
            "action": chosen.action,
            "since": chosen.since,
            "until": chosen.until,
            "before_at": place[0] if place else None,
            "before_id": place[1] if place else None,
        }
        values = {name: value for name, value in values.items() if value is not None}
        sql = _page(chosen, self._db.engine, begun=place is not None)
        return AUDIT.read_all(await slow.all(sql, {**values, "limit": limit}))

    async def after(
        self,
        last: int,
        *,
        action: str | None,
        actor_id: int | None,
        target: tuple[str, str] | None,
        settled: int,
        limit: int,
    ) -> list[Entry]:
        """The oldest entries with an id above `last`, of those up to which all were written at
        `settled` (epoch milliseconds). Raises `Gone` if some above `last` may have been removed."""
        kind, target_id = target or (None, None)
        values = {"action": action, "actor": actor_id, "target": kind, "target_id": target_id}
        values = {name: value for name, value in values.items() if value is not None}
        index = next((name for field, name in _INDEXES.items() if field in values), None)
        engine = self._db.engine
        source = "audit" if index is None else _by_index(index, engine)
        conditions = ["id > :last", *(_AFTER[name] for name in _INDEXES if name in values)]
        if engine == "postgres":
            conditions.append(_SETTLED)
            values["settled"] = settled
        sql = (
            f"SELECT {AUDIT.columns} FROM {source}"
            f" WHERE {' AND '.join(conditions)} ORDER BY id LIMIT :limit"
        )
        found = AUDIT.read_all(
            await self._db.replica.slow.all(sql, {**values, "last": last, "limit": limit})
        )
        if last and last < (removed := await self.released()):
            raise Gone(
                f"Entries up to {removed} are no longer kept; pass after=0 to begin with the oldest"
                " that is."
            )
        return found

    async def batches(
        self, chosen: AuditFilter, *, before: int | None = None, limit: int = MAX_ID
    ) -> AsyncIterator[list[Entry]]:
        """As `page`, but in batches, and by default every entry. Without entries that are written
        meanwhile."""
        left, last = limit, before
        while left and (
            batch := await self.page(chosen, before=last, limit=min(left, EXPORT_BATCH))
        ):
            yield batch
            left, last = left - len(batch), batch[-1].id

    async def had_email(self, email: str) -> frozenset[int]:
        """The accounts that had this e-mail according to the log; if there are many, the latest."""
        engine = self._db.engine
        sql = _ONCE_CALLED.format(
            audit=_by_index("audit_by_action", engine), lower=lower_for(engine, email)
        )
        text = msgspec.json.encode(email).decode()
        values = {"folded": pattern(text), "typed": anywhere(text), "most": MOST_ACCOUNTS}
        rows = await self._db.replica.slow.all(sql, values)
        return frozenset(int(row[0]) for row in rows)

    async def actions(self) -> list[str]:
        """Every action that any entry has, in order."""
        return [str(row[0]) for row in await self._db.replica.slow.all(_ACTIONS)]

    async def oldest_time(self, after: int, before: int) -> int | None:
        """The time of the first entry after the entry `after`, or None if that is not old."""
        slow = self._db.slow
        first = await last_expired(slow, "audit", "at", before, after=after, limit=1)
        row = await slow.one(AUDIT.by_id, {"id": first}) if first else None
        return AUDIT.read(row).at if row else None

    async def oldest(self, after: int, before: int, limit: int) -> list[Entry]:
        """The first old entries after the entry `after`, at most `limit`."""
        slow = self._db.slow
        up_to = await last_expired(slow, "audit", "at", before, after=after, limit=limit)
        values = {"after": after, "up_to": up_to, "limit": limit}
        return AUDIT.read_all(await slow.all(_OLDEST, values))

    async def released(self) -> int:
        """The id up to which entries may be removed, 0 for none."""
        return await integer(self._db, _RELEASED)

    async def release(self, tx: Transaction, up_to: int) -> None:
        """Allows all entries up to this one to be removed; the database refuses it for others."""
        await tx.run(_RELEASE, {"up_to": up_to})

    async def remove(self, tx: Transaction, after: int, up_to: int) -> int:
        """Removes a few released entries after the entry `after`; returns the id of the last of
        them, or 0 if none are left."""
        values = {"after": after, "up_to": up_to, "limit": BATCH}
        return max((row[0] for row in await tx.all(_REMOVE, values)), default=0)


RANGE = 1 << 24
"""Ids per partition. A page of the log reads from every partition, so there should be few."""

AHEAD = 2
"""How many ranges are created before anything is written into them."""

_NUMBERS = """
SELECT CAST(substr(relname, 7) AS BIGINT) FROM pg_inherits JOIN pg_class ON oid = inhrelid
WHERE inhparent = 'audit'::regclass AND relname ~ '^audit_[0-9]+$'"""
_RANGE_PLACE = """
SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('audit', 'id')::regclass), 0),
    EXISTS (SELECT FROM audit_rest)"""
_RELEASED_RANGES = "SELECT up_to FROM audit_removed"

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
        last, is_late = await self._db.slow.one(_RANGE_PLACE) or (0, False)
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
        row = await self._db.slow.one(_RELEASED_RANGES)
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
