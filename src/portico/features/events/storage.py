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

from portico.core.events import DROPPED, PING, Delivery, Published, StoredEvent, Webhook
from portico.data.database import (
    IN_ID_LIST,
    LOCKED,
    SKIP_LOCKED,
    AdvisoryLock,
    Database,
    Rank,
    Transaction,
    exclusive_lock,
    id_list,
    integer,
    traceparent,
)
from portico.data.listing import NEWEST, Keyset, Page, page_by_id
from portico.data.queue import Queue, claiming
from portico.data.table import BATCH, Table, json_form, last_expired

EVENTS = Table("events", StoredEvent)

_INSERT_EVENT = """
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
_LAST_EVENT = "SELECT coalesce((SELECT max(id) FROM events), (SELECT up_to FROM events_removed))"
_REMOVED = "SELECT up_to FROM events_removed"
AT_ONCE = 20_000
"""How many events one statement numbers, as in the migrations."""

# By the index of only these events: otherwise PostgreSQL might read all events to find them.
_WAITING = f"""
SELECT count(*)
FROM (SELECT FROM events WHERE id IS NULL ORDER BY seq LIMIT {AT_ONCE}) AS waiting"""
_SETTLE = "SELECT settle_events()"
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
        """Stores an event. The caller rings the database's signal after it has committed `tx`."""
        values = {
            "type": event.type,
            "at": at,
            "data": event.data,
            "previous": event.previous,
            "traceparent": traceparent.get(),
        }
        await tx.conclude(_INSERT_EVENT, values)

    async def number(self) -> None:
        """Numbers all committed events that have no number yet, and notifies every process. Does
        nothing on SQLite."""
        waiting = AT_ONCE if self._db.engine == "postgres" else 0
        while waiting == AT_ONCE:
            # Usually there are none, and no write transaction is needed.
            if waiting := await integer(self._db, _WAITING):
                async with self._db.transaction() as tx:
                    await tx.conclude(_SETTLE)

    async def numbered_in(self, tx: Transaction) -> int:
        """The number of the newest event, after numbering all events committed before. Events that
        are committed later get higher numbers."""
        more = self._db.engine == "postgres"
        while more:
            row = await tx.one(_SETTLE)
            more = bool(row and row[0])
        return await integer(tx, _LAST_EVENT)

    async def last_id(self) -> int:
        """The number of the newest event, 0 before the first."""
        return await integer(self._db, _LAST_EVENT)

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
        rows = await self._db.all(f"{_ONES} {IN_ID_LIST[engine]}", id_list(engine, ids))
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
        last = await _forget(tx, "events", "at", before, after)
        if last is not None:
            await tx.run(_KEEP_BOUND, {"up_to": last})
        return last


_FORGET = """
DELETE FROM {table} WHERE id IN (
    SELECT id FROM {table} WHERE id > :after AND id <= :up_to ORDER BY id LIMIT :limit)
RETURNING id"""


async def _forget(tx: Transaction, table: str, age: str, before: int, after: int) -> int | None:
    """Removes a batch of old rows; returns the last id, None if there are none."""
    up_to = await last_expired(tx, table, age, before, after=after)
    if not up_to:
        return None
    values = {"after": after, "up_to": up_to, "limit": BATCH}
    removed = await tx.all(_FORGET.format(table=table), values)
    return max((row[0] for row in removed), default=up_to)


WEBHOOKS = Table(
    "webhooks",
    Webhook,
    forms={"types": json_form(tuple[str, ...])},
    fixed=("created_at", "queued_up_to", "failing_since"),
)

_ALL = f"SELECT {WEBHOOKS.columns} FROM webhooks ORDER BY id"
_BEHIND = f"""
SELECT {WEBHOOKS.columns} FROM webhooks
WHERE disabled_reason IS NULL AND queued_up_to < :last ORDER BY id"""
_COUNT_WEBHOOKS = "SELECT count(*) FROM webhooks"
# The limit applies to all webhooks together, and rows that are not inserted yet cannot be locked.
_LOCK = exclusive_lock(AdvisoryLock.WEBHOOKS)
_QUEUED = "UPDATE webhooks SET queued_up_to = :up_to WHERE id = :id"
_FAILS = """
UPDATE webhooks SET failing_since = :since WHERE id = :id AND failing_since IS NULL"""
_ANEW = "UPDATE webhooks SET failing_since = NULL WHERE id = :id AND failing_since IS NOT NULL"


class Webhooks:
    """The webhooks of one environment."""

    rank = Rank.REST

    def __init__(self, db: Database) -> None:
        self._db = db

    async def get(self, webhook_id: int, tx: Transaction | None = None) -> Webhook | None:
        """The webhook with this id, if any. With `tx` it is locked until the transaction ends."""
        return await WEBHOOKS.get(self._db, webhook_id, tx)

    async def all(self) -> list[Webhook]:
        """Every webhook, oldest first: there are few."""
        return WEBHOOKS.read_all(await self._db.all(_ALL))

    async def behind(self, tx: Transaction, last: int) -> list[Webhook]:
        """The enabled webhooks that have not been served up to the event `last`, locked."""
        rows = await tx.all(_BEHIND + LOCKED[self._db.engine], {"last": last})
        return WEBHOOKS.read_all(rows)

    async def count(self, tx: Transaction) -> int:
        """How many webhooks there are. The number stays true until `tx` ends."""
        await tx.one(_LOCK[self._db.engine])
        return await integer(tx, _COUNT_WEBHOOKS)

    async def insert(self, tx: Transaction, webhook: Webhook) -> Webhook:
        """Stores a new webhook, ignoring its `id`; returns it with the assigned id."""
        return await WEBHOOKS.add(tx, webhook)

    async def update(self, tx: Transaction, webhook: Webhook) -> None:
        """Stores a webhook again, except for the fields that its deliveries change."""
        await tx.run(WEBHOOKS.update, WEBHOOKS.values(webhook))

    async def served(self, tx: Transaction, webhook_id: int, up_to: int) -> None:
        """Records up to which event the webhook was served: events up to it have their deliveries,
        or never get any."""
        await tx.run(_QUEUED, {"id": webhook_id, "up_to": up_to})

    async def fails(self, tx: Transaction, webhook_id: int, since: int) -> None:
        """Records since when deliveries to it fail, unless an earlier time is stored."""
        await tx.run(_FAILS, {"id": webhook_id, "since": since})

    async def begin_anew(self, tx: Transaction, webhook_id: int) -> None:
        """Clears since when deliveries fail: one was successful, or the webhook was changed."""
        await tx.run(_ANEW, {"id": webhook_id})

    async def delete(self, tx: Transaction, webhook_id: int) -> None:
        """Deletes a webhook; its deliveries are removed by age."""
        await tx.run(WEBHOOKS.delete, {"id": webhook_id})


DELIVERIES = Table("deliveries", Delivery)

_INSERT = """
INSERT INTO deliveries (webhook_id, event_id, type, status, attempts, next_attempt_at, created_at)
VALUES (:webhook_id, :event_id, :type, 'pending', 0, :at, :at)"""
_LAST = "SELECT max(id) FROM deliveries WHERE webhook_id = :webhook_id"
_ONE = f"{DELIVERIES.by_id} AND webhook_id = :webhook_id"
_COUNT = "SELECT count(*) FROM deliveries WHERE webhook_id = :webhook_id"
_PAGE = f"""
SELECT {DELIVERIES.columns} FROM deliveries WHERE webhook_id = :webhook_id AND id < :below
ORDER BY id DESC LIMIT :limit OFFSET :offset"""
_LATEST = f"""
SELECT {DELIVERIES.columns} FROM deliveries WHERE webhook_id = :webhook_id AND id < :before
ORDER BY id DESC LIMIT :limit"""
# Reads only the latest deliveries of each webhook: one that fails may have a million.
_LAST_DELIVERED = """
SELECT w.id, (
    SELECT max(created_at) FROM (
        SELECT status, created_at FROM deliveries WHERE webhook_id = w.id
        ORDER BY id DESC LIMIT 200
    ) AS latest WHERE status = 'delivered'
) FROM webhooks AS w"""
_DONE = """
UPDATE deliveries SET status = :status, attempts = attempts + 1,
    next_attempt_at = :next_attempt_at, last_status = :last_status, last_error = :last_error,
    last_milliseconds = :last_milliseconds, answer = :answer
WHERE id = :id AND status = 'pending'"""
# By the index of due deliveries, which has only pending ones: by any other, those already marked
# would be read again each time.
_GIVEN_UP = """
SELECT id FROM deliveries
WHERE webhook_id = :webhook_id AND status = 'pending' AND next_attempt_at > 0 AND +id <= :up_to
ORDER BY next_attempt_at LIMIT :limit"""
_DROPPED = "status = 'failed', next_attempt_at = NULL, last_error = :reason"
_TELL = "SELECT pg_notify(current_schema(), 'webhooks')"


class DeliveryAttempt(msgspec.Struct, frozen=True):
    """The outcome of one attempt, in the columns of its delivery."""

    id: int
    status: str
    next_attempt_at: int | None
    last_status: int | None
    last_error: str | None
    last_milliseconds: int
    answer: str | None


class Deliveries:
    """The deliveries of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.queue = Queue(
            db,
            DELIVERIES,
            pending="status = 'pending'",
            channel="webhook_id = :webhook_id_{n} AND id > :dropped_up_to_{n}",
        )
        """Each webhook is a channel."""

    async def add(self, tx: Transaction, at: int, queued: Sequence[tuple[int, int, str]]) -> None:
        """Queues deliveries that are due at once: webhook id, event id and the event's type."""
        await tx.run_many(
            _INSERT,
            [
                {"webhook_id": webhook, "event_id": event, "type": kind, "at": at}
                for webhook, event, kind in queued
            ],
        )

    async def notify(self, tx: Transaction) -> None:
        """On PostgreSQL, rings the signal of every process once `tx` is committed."""
        if self._db.engine == "postgres":
            await tx.one(_TELL)

    async def get(self, webhook_id: int, delivery_id: int) -> Delivery | None:
        """A webhook's delivery with this id."""
        return await DELIVERIES.one(self._db, _ONE, {"id": delivery_id, "webhook_id": webhook_id})

    async def page(
        self, webhook_id: int, *, offset: int, limit: int, behind: Keyset | None = None
    ) -> Page[Delivery]:
        """A page of a webhook's deliveries, newest first. It begins `behind` a keyset if given,
        else at `offset`."""
        values = {"webhook_id": webhook_id}
        statements = _COUNT, _PAGE
        return await page_by_id(
            self._db, DELIVERIES, statements, values, offset=offset, limit=limit, behind=behind
        )

    async def latest(self, webhook_id: int, before: int | None, limit: int) -> list[Delivery]:
        """A webhook's newest deliveries with an id below `before`."""
        start = NEWEST if before is None else before
        values = {"webhook_id": webhook_id, "before": start, "limit": limit}
        return DELIVERIES.read_all(await self._db.all(_LATEST, values))

    async def last_delivered(self) -> dict[int, int | None]:
        """By webhook: when its newest successful delivery was queued, in epoch milliseconds, or
        None if none of its latest was successful."""
        return dict(await self._db.slow.all(_LAST_DELIVERED))  # type: ignore[arg-type]  # pairs

    async def last_of(self, tx: Transaction, webhook_id: int) -> int:
        """The id of a webhook's newest delivery, or 0 if it has none."""
        return await integer(tx, _LAST, {"webhook_id": webhook_id})

    async def done(self, tx: Transaction, attempts: Sequence[DeliveryAttempt]) -> None:
        """Stores the outcomes of attempts, unless the delivery was given up meanwhile."""
        await tx.run_many(_DONE, [msgspec.structs.asdict(attempt) for attempt in attempts])

    async def drop(self, tx: Transaction, webhook: Webhook) -> bool:
        """Marks a batch of the deliveries that were given up when their webhook was disabled;
        returns whether there may be more."""
        values = {
            "webhook_id": webhook.id,
            "up_to": webhook.dropped_up_to,
            "reason": DROPPED,
            "limit": BATCH,
        }
        given_up = _GIVEN_UP + SKIP_LOCKED[self._db.engine]
        statement = claiming(DELIVERIES, given_up, _DROPPED)
        return len(await tx.all(statement, values)) == BATCH

    async def is_due(self, before: int) -> bool:
        """Whether the oldest delivery is old."""
        return await last_expired(self._db.slow, "deliveries", "created_at", before, limit=1) > 0

    async def forget(self, tx: Transaction, before: int, after: int = 0) -> int | None:
        """Removes a batch of old deliveries. Returns with which `after` to remove the next one, or
        None if there are no more."""
        return await _forget(tx, "deliveries", "created_at", before, after)
