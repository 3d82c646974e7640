"""Mails that wait: a queue from which every process takes what is due."""

from typing import NamedTuple

import msgspec

from portico.storage.database import SKIP_LOCKED, Database, Transaction
from portico.storage.table import Table


class Mail(msgspec.Struct, frozen=True):
    """One that waits. `content` is encrypted; times are epoch milliseconds."""

    id: int
    content: bytes
    attempts: int
    """How many have begun."""
    created_at: int
    next_attempt_at: int


class Queue(NamedTuple):
    """How many wait, when the next and the last of them are due, and when the newest was queued."""

    length: int
    next_attempt_at: int | None
    last_attempt_at: int | None
    newest_at: int | None


MAILS = Table("mails", Mail)

# Whose host died while it sent them, they come back when the claim ends. Materialized, for else
# PostgreSQL may look for them once for each row, and take more each time.
_CLAIM = f"""
WITH due AS MATERIALIZED (
    SELECT id FROM mails WHERE next_attempt_at <= :now ORDER BY next_attempt_at LIMIT :room{{lock}})
UPDATE mails SET next_attempt_at = :until, attempts = attempts + 1
WHERE id IN (SELECT id FROM due)
RETURNING {MAILS.columns}"""
_QUEUE = """
SELECT count(*), min(next_attempt_at), max(next_attempt_at), max(created_at) FROM mails"""
_PUT_RIGHT = """
UPDATE mails SET next_attempt_at = :until,
    created_at = CASE WHEN created_at > :now THEN :now ELSE created_at END
WHERE created_at > :latest OR next_attempt_at > :last"""
_COUNT = "SELECT count(*) FROM (SELECT 1 FROM mails LIMIT :most) AS counted"
# What was claimed may be gone by now, and SQLite gives its id to another: its content tells.
_SAME = "WHERE id = :id AND content = :content"
_LATER = f"UPDATE mails SET next_attempt_at = :at {_SAME} RETURNING id"
_REPLACE = f"""
UPDATE mails SET content = :new, attempts = 0, created_at = :now, next_attempt_at = :now
{_SAME} RETURNING id"""
_REMOVE = f"DELETE FROM mails {_SAME} RETURNING id"


class Mails:
    """The waiting mails of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def count(self, tx: Transaction, most: int) -> int:
        """How many wait; of more than `most`, that."""
        row = await tx.one(_COUNT, {"most": most})
        return int(row[0]) if row else 0

    async def add(self, tx: Transaction, content: bytes, now: int) -> None:
        """Stores one that is due at once."""
        await MAILS.add(tx, Mail(0, content, 0, created_at=now, next_attempt_at=now))

    async def queue(self) -> Queue:
        """All that wait, those included that are being sent."""
        row = await self._db.one(_QUEUE)
        return Queue(*row) if row else Queue(0, None, None, None)

    async def claim(self, room: int, *, now: int, until: int) -> list[Mail]:
        """Takes some that are due, nobody else until `until`, when they are due again."""
        statement = _CLAIM.format(lock=SKIP_LOCKED[self._db.engine])
        async with self._db.transaction() as tx:
            rows = await tx.all(statement, {"now": now, "until": until, "room": room})
        return MAILS.read_all(rows)

    async def put_right(self, now: int, *, until: int, latest: int, last: int) -> None:
        """Has those be due at `until` that were queued after `latest`, now in the place of then, or
        that are due after `last`."""
        values = {"now": now, "until": until, "latest": latest, "last": last}
        async with self._db.transaction() as tx:
            await tx.run(_PUT_RIGHT, values)

    async def replace(self, tx: Transaction, mail: Mail, content: bytes, now: int) -> bool:
        """Stores another, due at once, in the place of one that was claimed; whether that was still
        there."""
        return await tx.one(_REPLACE, {**_same(mail), "new": content, "now": now}) is not None

    async def get(self, mail_id: int, tx: Transaction | None = None) -> Mail | None:
        """What waits under this id; with `tx`, nobody else changes it until that ends."""
        return await MAILS.get(self._db, mail_id, tx)

    async def later(self, mail: Mail, at: int) -> bool:
        """Makes one due at `at`; whether it was still there."""
        async with self._db.transaction() as tx:
            return await tx.one(_LATER, {**_same(mail), "at": at}) is not None

    async def remove(self, mail: Mail) -> bool:
        """Removes one that was sent, or never will be; whether it was still there."""
        async with self._db.transaction() as tx:
            return await tx.one(_REMOVE, _same(mail)) is not None


def _same(mail: Mail) -> dict[str, object]:
    return {"id": mail.id, "content": mail.content}
