"""Which batch each process stored last. What a batch adds is so added once, even where nobody heard
whether its transaction was committed, and it is stored again."""

from portico.storage.database import Transaction

_BEGIN = """
INSERT INTO flushes AS f (writer, number, at) VALUES (:writer, :number, :at)
ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = excluded.at
WHERE f.number < excluded.number RETURNING number"""


class Flushes:
    """The stored batches of one environment."""

    async def begin(self, tx: Transaction, writer: str, number: int, at: int) -> bool:
        """Begins to store a process's batch; False where it is stored already. Of one process,
        numbers only grow, and a batch is stored before the next one begins."""
        values = {"writer": writer, "number": number, "at": at}
        return await tx.one(_BEGIN, values) is not None
