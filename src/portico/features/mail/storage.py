"""Waiting mails, in a queue."""

import msgspec

from portico.core.ids import MAX_ID
from portico.data.database import Database, Reader, Signal, Transaction, integer
from portico.data.queue import Queue
from portico.data.table import Table


class Mail(msgspec.Struct, frozen=True):
    """A waiting mail. `content` is encrypted; times are epoch milliseconds."""

    id: int
    content: bytes
    attempts: int
    """How many attempts have begun."""
    created_at: int
    next_attempt_at: int


MAILS = Table("mails", Mail)

_COUNT = "SELECT count(*) FROM (SELECT 1 FROM mails LIMIT :most) AS counted"
_TAKE = f"{MAILS.delete} RETURNING id"


class Mails:
    """The waiting mails of one environment."""

    def __init__(self, db: Database) -> None:
        self.queue = Queue(db, MAILS, counted="attempts")
        self.signal = Signal()
        """Rings when a mail waits to be sent."""
        self.waiting = 0
        """How many mails were waiting when the job last counted them."""

    async def count(self, reader: Reader, most: int = MAX_ID) -> int:
        """How many mails wait, including those that are being sent, counted up to `most`."""
        return await integer(reader, _COUNT, {"most": most})

    async def add(self, tx: Transaction, content: bytes, now: int) -> None:
        """Stores a mail that is due at once."""
        await MAILS.add(tx, Mail(0, content, 0, created_at=now, next_attempt_at=now))

    async def remove(self, tx: Transaction, mail_id: int) -> bool:
        """Removes a mail that was sent, given up or replaced; False if it was gone."""
        return await tx.one(_TAKE, {"id": mail_id}) is not None
