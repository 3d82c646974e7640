"""Events: stored in the transaction of the change that they describe, read by their number.

Numbers are final: once an event was read, no event with a lower number appears. SQLite has one
writer, so numbers are assigned in the order of commits. PostgreSQL commits transactions in any
order, so an event gets its number after its commit, under a lock (`settle`), and is not read before
(docs/decisions/0023).
"""

import asyncio
from collections.abc import AsyncGenerator, Collection, Sequence
from string import ascii_lowercase

import msgspec

from portico.domain.published import Published, StoredEvent
from portico.domain.webhooks import PING
from portico.storage.database import AMONG, Database, Transaction, among, integer, traceparent
from portico.storage.expiry import BATCH, last_expired
from portico.storage.listing import NEWEST
from portico.storage.table import Table

EVENTS = Table("events", StoredEvent)

_INSERT = """
INSERT INTO events (type, at, data, previous, traceparent)
VALUES (:type, :at, :data, :previous, :traceparent)"""
_OF_ALL = f"""
SELECT {EVENTS.columns} FROM events WHERE id {{beyond}} :start AND type <> '{PING}'
ORDER BY id {{order}} LIMIT :limit"""
_TO_TELL = f"""
SELECT id, type, CASE WHEN type = '{PING}' THEN data END FROM events
WHERE id > :after ORDER BY id LIMIT :limit"""
_ONES = f"SELECT {EVENTS.columns} FROM events WHERE id"
# One step through the index for each type, however rare.
_OF_TYPE = f"""
SELECT * FROM (SELECT {EVENTS.columns} FROM events
WHERE type = :type_{{letter}} AND id {{beyond}} :start
ORDER BY id {{order}} LIMIT :limit) AS type_{{letter}}"""
_OF_TYPES = "SELECT * FROM ({each}) AS chosen ORDER BY id {order} LIMIT :limit"
_UP = {"beyond": ">", "order": ""}
_DOWN = {"beyond": "<", "order": "DESC"}
_LAST = "SELECT coalesce((SELECT max(id) FROM events), (SELECT up_to FROM events_removed))"
_REMOVED = "SELECT up_to FROM events_removed"
AT_ONCE = 20_000
"""How many events one statement numbers, as in the migrations."""

# By the index of only these events: otherwise PostgreSQL might read all events to find them.
_WAITING = f"""
SELECT count(*)
FROM (SELECT FROM events WHERE id IS NULL ORDER BY seq LIMIT {AT_ONCE}) AS waiting"""
_SETTLE = "SELECT settle_events()"
_REMOVE = """
DELETE FROM events WHERE id IN (
    SELECT id FROM events WHERE id > :after AND id <= :up_to ORDER BY id LIMIT :limit)
RETURNING id"""
_KEEP_BOUND = """
INSERT INTO events_removed (one, up_to) VALUES (1, :up_to)
ON CONFLICT (one) DO UPDATE SET up_to = excluded.up_to"""

PAGE_BYTES = 1024 * 1024
"""About how many bytes of events a page has. The first event may be larger: it may contain a
product twice, each of more than half of this size."""

_STEP = 10
"""How many events one statement reads, since their size is only known once they are read."""


class EventPage(msgspec.Struct, frozen=True):
    """Some events, and whether there are more after them."""

    rows: list[StoredEvent]
    has_more: bool


class ToTell(msgspec.Struct, frozen=True):
    """What decides which webhooks an event is delivered to; `ping` is the data of a test event."""

    id: int
    type: str
    ping: str | None


class Events:
    """The events of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, tx: Transaction, at: int, event: Published) -> None:
        """Stores an event. The caller rings the database's bell after it has committed `tx`."""
        values = {
            "type": event.type,
            "at": at,
            "data": event.data,
            "previous": event.previous,
            "traceparent": traceparent.get(),
        }
        await tx.last(_INSERT, values)

    async def settle(self) -> None:
        """Numbers all committed events that have no number yet, and notifies every process. Does
        nothing on SQLite."""
        waiting = AT_ONCE if self._db.engine == "postgres" else 0
        while waiting == AT_ONCE:
            # Usually there are none, and no write transaction is needed.
            if waiting := await integer(self._db, _WAITING):
                async with self._db.transaction() as tx:
                    await tx.last(_SETTLE)

    async def settled_in(self, tx: Transaction) -> int:
        """The number of the newest event, after numbering all events committed before. Events that
        are committed later get higher numbers."""
        more = self._db.engine == "postgres"
        while more:
            row = await tx.one(_SETTLE)
            more = bool(row and row[0])
        return await integer(tx, _LAST)

    async def last_id(self) -> int:
        """The number of the newest event, 0 before the first."""
        return await integer(self._db, _LAST)

    async def removed_up_to(self) -> int:
        """The highest number of an event that was removed by age, or 0."""
        return await integer(self._db, _REMOVED)

    async def page(self, after: int, types: Sequence[str] | None, limit: int) -> EventPage:
        """The oldest events with a number above `after`, of these types or of all: at most `limit`,
        and about `PAGE_BYTES`."""
        return await self._walk(_UP, after, types, limit)

    async def latest(
        self, before: int | None, types: Sequence[str] | None, limit: int
    ) -> EventPage:
        """The newest events with a number below `before`, otherwise as `page`."""
        return await self._walk(_DOWN, NEWEST if before is None else before, types, limit)

    async def _walk(
        self, way: dict[str, str], start: int, types: Sequence[str] | None, limit: int
    ) -> EventPage:
        rows: list[StoredEvent] = []
        size = 0
        while True:
            step = min(_STEP, limit + 1 - len(rows))
            some = await self._some(way, start, types, step)
            for event in some:
                size += event.size
                if len(rows) == limit or (rows and size > PAGE_BYTES):
                    return EventPage(rows, has_more=True)
                rows.append(event)
            if len(some) < step:
                return EventPage(rows, has_more=False)
            start = rows[-1].id

    async def _some(
        self, way: dict[str, str], start: int, types: Sequence[str] | None, limit: int
    ) -> list[StoredEvent]:
        values: dict[str, object] = {"start": start, "limit": limit}
        if types is None:
            sql = _OF_ALL.format(**way)
        else:
            chosen = dict(zip(ascii_lowercase, dict.fromkeys(types), strict=False))
            values |= {f"type_{letter}": name for letter, name in chosen.items()}
            each = (_OF_TYPE.format(letter=letter, **way) for letter in chosen)
            sql = _OF_TYPES.format(each=" UNION ALL ".join(each), **way)
        return EVENTS.read_all(await self._db.all(sql, values))

    async def to_tell(self, after: int, limit: int, tx: Transaction | None = None) -> list[ToTell]:
        """The oldest events with a number above `after`, including tests of webhooks."""
        rows = await (tx or self._db).all(_TO_TELL, {"after": after, "limit": limit})
        return [ToTell(*row) for row in rows]

    async def some(self, ids: Collection[int]) -> dict[int, StoredEvent]:
        """The events with these numbers that are still stored, by number."""
        engine = self._db.engine
        rows = await self._db.all(f"{_ONES} {AMONG[engine]}", among(engine, ids))
        return {event.id: event for event in EVENTS.read_all(rows)}

    async def each(self, ids: Collection[int]) -> AsyncGenerator[StoredEvent, None]:
        """As `some`, one by one; yields to the event loop after about every `PAGE_BYTES`."""
        numbers, size = sorted(ids), 0
        for first in range(0, len(numbers), _STEP):
            for event in (await self.some(numbers[first : first + _STEP])).values():
                yield event
                size += event.size
                if size > PAGE_BYTES:
                    size = 0
                    await asyncio.sleep(0)

    async def is_due(self, before: int) -> bool:
        """Whether the oldest event is old."""
        return await last_expired(self._db.slow, "events", "at", before, limit=1) > 0

    async def forget(self, tx: Transaction, before: int, after: int = 0) -> int | None:
        """Removes a batch of old events, without a gap. Returns with which `after` to remove the
        next one, or None if there are no more."""
        up_to = await last_expired(tx, "events", "at", before, after=after)
        if not up_to:
            return None
        removed = await tx.all(_REMOVE, {"after": after, "up_to": up_to, "limit": BATCH})
        last = max((row[0] for row in removed), default=up_to)
        await tx.run(_KEEP_BOUND, {"up_to": last})
        return last
