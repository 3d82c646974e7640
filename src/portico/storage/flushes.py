"""The number of the last batch that each process stored. So a batch is added only once, even if it
is stored again because the outcome of its transaction was unknown."""

from portico.storage.database import Transaction

_BEGIN = """
INSERT INTO flushes AS f (writer, number, at) VALUES (:writer, :number, :at)
ON CONFLICT (writer) DO UPDATE SET number = excluded.number, at = excluded.at
WHERE f.number < excluded.number RETURNING number"""


class Flushes:
    """The stored batches of one environment."""

    async def begin(self, tx: Transaction, writer: str, number: int, at: int) -> bool:
        """Begins to store a process's batch; False if it was stored before. The numbers of one
        process only grow, and a batch is stored before the next one begins."""
        values = {"writer": writer, "number": number, "at": at}
        return await tx.one(_BEGIN, values) is not None
