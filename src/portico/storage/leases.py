"""Leases: which process may do what only one may do at a time, for so long."""

from portico.storage.database import Database, Transaction

# Of several who want it at once, one finds it free; whoever has it may renew it.
_TAKE = """
INSERT INTO leases AS l (name, holder, until) VALUES (:name, :holder, :until)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE l.until <= :now OR l.holder = excluded.holder RETURNING name"""
_RELEASE = "DELETE FROM leases WHERE name = :name AND holder = :holder"


class Leases:
    """The leases of one environment: at most one for each name."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def take(self, tx: Transaction, name: str, holder: str, *, now: int, until: int) -> bool:
        """Takes or renews a lease; False where another has it. Where `tx` does the work too,
        whoever has lost the lease changes nothing. Times are epoch milliseconds."""
        values = {"name": name, "holder": holder, "now": now, "until": until}
        return await tx.one(_TAKE, values) is not None

    async def release(self, name: str, holder: str) -> None:
        """Gives a lease back, so that nobody has to wait for its end."""
        async with self._db.transaction() as tx:
            await tx.run(_RELEASE, {"name": name, "holder": holder})
