"""Waiting mails: a queue from which every process takes those that are due."""

from typing import NamedTuple

import msgspec

from portico.storage.database import SKIP_LOCKED, Database, Transaction, integer
from portico.storage.table import Table


class Mail(msgspec.Struct, frozen=True):
    """A waiting mail. `content` is encrypted; times are epoch milliseconds."""

    id: int
    content: bytes
    attempts: int
    """How many attempts have begun."""
    created_at: int
    next_attempt_at: int


class Queue(NamedTuple):
    """How many mails wait, and when the first of them is due."""

    length: int
    next_attempt_at: int | None


MAILS = Table("mails", Mail)

# If a host dies while sending, its mails are due again when the claim ends. MATERIALIZED:
# PostgreSQL might otherwise evaluate the CTE once per row, and claim other mails each time.
_CLAIM = f"""
WITH due AS MATERIALIZED (
    SELECT id FROM mails WHERE next_attempt_at <= :now ORDER BY next_attempt_at LIMIT :room{{lock}})
UPDATE mails SET next_attempt_at = :until, attempts = attempts + 1
WHERE id IN (SELECT id FROM due)
RETURNING {MAILS.columns}"""
_QUEUE = "SELECT count(*), min(next_attempt_at) FROM mails"
_COUNT = "SELECT count(*) FROM (SELECT 1 FROM mails LIMIT :most) AS counted"
# A claimed mail may have been removed and its id reused by SQLite: the content identifies it.
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
        """How many mails wait, counted up to `most`."""
        return await integer(tx, _COUNT, {"most": most})

    async def add(self, tx: Transaction, content: bytes, now: int) -> None:
        """Stores a mail that is due at once."""
        await MAILS.add(tx, Mail(0, content, 0, created_at=now, next_attempt_at=now))

    async def queue(self) -> Queue:
        """The state of the queue, including mails that are being sent."""
        row = await self._db.one(_QUEUE)
        return Queue(*row) if row else Queue(0, None)

    async def claim(self, room: int, *, now: int, until: int) -> list[Mail]:
        """Claims at most `room` due mails. No other process gets them before `until`, when they are
        due again."""
        statement = _CLAIM.format(lock=SKIP_LOCKED[self._db.engine])
        async with self._db.transaction() as tx:
            rows = await tx.all(statement, {"now": now, "until": until, "room": room})
        return MAILS.read_all(rows)

    async def replace(self, tx: Transaction, mail: Mail, content: bytes, now: int) -> bool:
        """Replaces a claimed mail by another that is due at once; False if it was gone."""
        return await tx.one(_REPLACE, {**_same(mail), "new": content, "now": now}) is not None

    async def get(self, mail_id: int, tx: Transaction | None = None) -> Mail | None:
        """The waiting mail with this id; with `tx`, its row is locked until that ends."""
        return await MAILS.get(self._db, mail_id, tx)

    async def later(self, mail: Mail, at: int) -> bool:
        """Makes a claimed mail due at `at`; False if it was gone."""
        async with self._db.transaction() as tx:
            return await tx.one(_LATER, {**_same(mail), "at": at}) is not None

    async def remove(self, mail: Mail) -> bool:
        """Removes a claimed mail that was sent or given up; False if it was gone."""
        async with self._db.transaction() as tx:
            return await tx.one(_REMOVE, _same(mail)) is not None


def _same(mail: Mail) -> dict[str, object]:
    return {"id": mail.id, "content": mail.content}
