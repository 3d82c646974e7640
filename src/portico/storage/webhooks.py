"""Webhooks: their rows."""

from portico.domain.retries import DELIVERIES as RETRIES
from portico.domain.webhooks import Webhook
from portico.storage.database import (
    LOCKED,
    AdvisoryLock,
    Database,
    Rank,
    Transaction,
    alone,
    integer,
)
from portico.storage.table import Table, json_form

WEBHOOKS = Table(
    "webhooks",
    Webhook,
    forms={"types": json_form(tuple[str, ...])},
    fixed=("created_at", "told_up_to", "failing_since"),
)

_ALL = f"SELECT {WEBHOOKS.columns} FROM webhooks ORDER BY id"
_BEHIND = f"""
SELECT {WEBHOOKS.columns} FROM webhooks
WHERE disabled_reason IS NULL AND told_up_to < :last ORDER BY id"""
_COUNT = "SELECT count(*) FROM webhooks"
# The limit applies to all webhooks together, and rows that are not inserted yet cannot be locked.
_LOCK = alone(AdvisoryLock.WEBHOOKS)
_TOLD = "UPDATE webhooks SET told_up_to = :up_to WHERE id = :id"
_FAILS = """
UPDATE webhooks SET failing_since = :since WHERE id = :id AND failing_since IS NULL"""
_ANEW = "UPDATE webhooks SET failing_since = NULL WHERE id = :id AND failing_since IS NOT NULL"
# No column holds when an attempt was made: at the latest when the next one is due, minus the
# shortest wait.
_SHORTEST_WAIT = (
    "CASE attempts "
    + " ".join(
        f"WHEN {attempts} THEN {round(1000 * (1 - RETRIES.spread) * seconds)}"
        for attempts, seconds in enumerate(RETRIES.waits, 1)
    )
    + " END"
)
# From the latest due one on, so that a million deliveries that were never tried are not all read.
_ANEW_UNTRIED = f"""
UPDATE webhooks SET failing_since = NULL WHERE id = :id AND failing_since <= :since AND (
    SELECT id FROM deliveries
    WHERE webhook_id = :id AND status = 'pending' AND next_attempt_at > :since
        AND next_attempt_at - {_SHORTEST_WAIT} > :since
    ORDER BY next_attempt_at DESC LIMIT 1
) IS NULL"""


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
        return await integer(tx, _COUNT)

    async def insert(self, tx: Transaction, webhook: Webhook) -> Webhook:
        """Stores a new webhook, ignoring its `id`; returns it with the assigned id."""
        return await WEBHOOKS.add(tx, webhook)

    async def update(self, tx: Transaction, webhook: Webhook) -> None:
        """Stores a webhook again, except for the fields that its deliveries change."""
        await tx.run(WEBHOOKS.update, WEBHOOKS.values(webhook))

    async def told(self, tx: Transaction, webhook_id: int, up_to: int) -> None:
        """Records up to which event the webhook was served: events up to it have their deliveries,
        or never get any."""
        await tx.run(_TOLD, {"id": webhook_id, "up_to": up_to})

    async def fails(self, tx: Transaction, webhook_id: int, since: int) -> None:
        """Records since when deliveries to it fail, unless an earlier time is stored."""
        await tx.run(_FAILS, {"id": webhook_id, "since": since})

    async def begin_anew(self, tx: Transaction, webhook_id: int) -> None:
        """Clears since when deliveries fail: one was successful, or the webhook was changed."""
        await tx.run(_ANEW, {"id": webhook_id})

    async def begin_anew_untried(self, tx: Transaction, webhook_id: int, since: int) -> None:
        """As `begin_anew`, if no delivery was tried after `since`."""
        await tx.run(_ANEW_UNTRIED, {"id": webhook_id, "since": since})

    async def delete(self, tx: Transaction, webhook_id: int) -> None:
        """Deletes a webhook; its deliveries are removed by age."""
        await tx.run(WEBHOOKS.delete, {"id": webhook_id})
