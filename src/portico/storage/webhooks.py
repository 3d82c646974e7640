"""Webhooks: their rows."""

from portico.domain.webhooks import RETRY_SECONDS, RETRY_SPREAD, Webhook
from portico.storage.database import LOCKED, AdvisoryLock, Database, Rank, Transaction, alone
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
# What has no row yet cannot be locked, and the bound holds for all of them together.
_LOCK = alone(AdvisoryLock.WEBHOOKS)
_TOLD = "UPDATE webhooks SET told_up_to = :up_to WHERE id = :id"
_FAILS = """
UPDATE webhooks SET failing_since = :since WHERE id = :id AND failing_since IS NULL"""
_ANEW = "UPDATE webhooks SET failing_since = NULL WHERE id = :id AND failing_since IS NOT NULL"
# When an attempt was made is kept in no column: no later than the next one is due, less the wait.
_SHORTEST_WAIT = (
    "CASE attempts "
    + " ".join(
        f"WHEN {attempts} THEN {round(1000 * (1 - RETRY_SPREAD) * seconds)}"
        for attempts, seconds in enumerate(RETRY_SECONDS, 1)
    )
    + " END"
)
# From the latest on: of a million that were never tried, none is passed while others are.
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
        """The webhook with this id; with `tx`, nobody else changes it until that ends."""
        return await WEBHOOKS.get(self._db, webhook_id, tx)

    async def all(self) -> list[Webhook]:
        """Every webhook, the oldest first: there are few."""
        return WEBHOOKS.read_all(await self._db.all(_ALL))

    async def behind(self, tx: Transaction, last: int) -> list[Webhook]:
        """The enabled webhooks that were not told of all events up to `last`, locked."""
        rows = await tx.all(_BEHIND + LOCKED[self._db.engine], {"last": last})
        return WEBHOOKS.read_all(rows)

    async def count(self, tx: Transaction) -> int:
        """How many there are, until `tx` ends."""
        await tx.one(_LOCK[self._db.engine])
        row = await tx.one(_COUNT)
        return int(row[0]) if row else 0

    async def insert(self, tx: Transaction, webhook: Webhook) -> Webhook:
        """Stores a new webhook, whose id is ignored; returns it with the one it got."""
        return await WEBHOOKS.add(tx, webhook)

    async def update(self, tx: Transaction, webhook: Webhook) -> None:
        """Stores a webhook again, but for what only its deliveries move."""
        await tx.run(WEBHOOKS.update, WEBHOOKS.values(webhook))

    async def told(self, tx: Transaction, webhook_id: int, up_to: int) -> None:
        """Notes that all events up to this number have become deliveries, or never will."""
        await tx.run(_TOLD, {"id": webhook_id, "up_to": up_to})

    async def fails(self, tx: Transaction, webhook_id: int, since: int) -> None:
        """Notes since when nothing reaches it; an earlier time stays."""
        await tx.run(_FAILS, {"id": webhook_id, "since": since})

    async def begin_anew(self, tx: Transaction, webhook_id: int) -> None:
        """Has the time in which nothing reaches it begin with its next failure: something has
        reached it, or it is another."""
        await tx.run(_ANEW, {"id": webhook_id})

    async def begin_anew_untried(self, tx: Transaction, webhook_id: int, since: int) -> None:
        """The same where nothing was tried since then."""
        await tx.run(_ANEW_UNTRIED, {"id": webhook_id, "since": since})

    async def delete(self, tx: Transaction, webhook_id: int) -> None:
        """Removes a webhook; its deliveries go with their age."""
        await tx.run(WEBHOOKS.delete, {"id": webhook_id})
