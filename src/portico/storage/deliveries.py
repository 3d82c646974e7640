"""Deliveries of events to webhooks: a queue for each webhook, and a log."""

from collections.abc import Sequence

import msgspec

from portico.domain.webhooks import DROPPED, Delivery, Webhook
from portico.storage.database import SKIP_LOCKED, Database, Transaction, integer
from portico.storage.expiry import BATCH, last_expired
from portico.storage.listing import NEWEST, Keyset, Page, page_by_id
from portico.storage.queue import Queue, claiming
from portico.storage.table import Table

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
_REMOVE = """
DELETE FROM deliveries WHERE id IN (
    SELECT id FROM deliveries WHERE id > :after AND id <= :up_to ORDER BY id LIMIT :limit)
RETURNING id"""
_TELL = "SELECT pg_notify(current_schema(), 'webhooks')"


class Attempt(msgspec.Struct, frozen=True):
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
            lane="webhook_id = :webhook_id_{n} AND id > :dropped_up_to_{n}",
        )
        """Each webhook is a lane."""

    async def add(self, tx: Transaction, at: int, queued: Sequence[tuple[int, int, str]]) -> None:
        """Queues deliveries that are due at once: webhook id, event id and the event's type."""
        await tx.run_many(
            _INSERT,
            [
                {"webhook_id": webhook, "event_id": event, "type": kind, "at": at}
                for webhook, event, kind in queued
            ],
        )

    async def tell(self, tx: Transaction) -> None:
        """On PostgreSQL, rings the bell of every process once `tx` is committed."""
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

    async def done(self, tx: Transaction, attempts: Sequence[Attempt]) -> None:
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
        up_to = await last_expired(tx, "deliveries", "created_at", before, after=after)
        if not up_to:
            return None
        removed = await tx.all(_REMOVE, {"after": after, "up_to": up_to, "limit": BATCH})
        return max((row[0] for row in removed), default=up_to)
