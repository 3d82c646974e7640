"""Leases: each lets one process do, for a limited time, what only one may do at a time."""

from collections.abc import Collection, Sequence

import msgspec

from portico.data.database import LOCKED, Database, Engine, Transaction

# Of concurrent attempts exactly one finds it free; its holder may renew it.
_TAKE = """
INSERT INTO leases AS l (name, holder, until) VALUES (:name, :holder, :until)
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE l.until <= :now OR l.holder = excluded.holder RETURNING name"""
_GIVEN: dict[Engine, str] = {
    "sqlite": "SELECT value AS name FROM json_each(:names)",
    "postgres": "SELECT value AS name FROM json_array_elements_text(CAST(:names AS JSON))",
}
# Of several processes that find the same lease free, one gets it and the others get no row.
_TAKE_FREE = """
INSERT INTO leases AS l (name, holder, until)
SELECT given.name, :holder, :until FROM ({given}) AS given
WHERE NOT EXISTS (
    SELECT 1 FROM leases AS t
    WHERE t.name = given.name AND t.until > :now)
LIMIT 1
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE l.until <= :now RETURNING name"""
_FREE = """
SELECT 1 FROM ({given}) AS given
WHERE NOT EXISTS (
    SELECT 1 FROM leases AS t
    WHERE t.name = given.name AND t.until > :now)
LIMIT 1"""
# Both lock their rows in one order, so that they never wait for each other in a ring. MATERIALIZED:
# PostgreSQL might otherwise lock a row only when it is about to write it.
_OWN = """
SELECT name FROM leases WHERE holder = :holder AND name IN ({given}) ORDER BY name{lock}"""
_RENEW = f"""
WITH own AS MATERIALIZED ({_OWN})
UPDATE leases SET until = :until WHERE name IN (SELECT name FROM own) RETURNING name"""
_RELEASE = "DELETE FROM leases WHERE name = :name AND holder = :holder"
_RELEASE_ALL = f"""
WITH own AS MATERIALIZED ({_OWN})
DELETE FROM leases WHERE name IN (SELECT name FROM own)"""


class Leases:
    """The leases of one environment: at most one for each name. Times are epoch milliseconds."""

    def __init__(self, db: Database) -> None:
        self._db = db
        given = _GIVEN[db.engine]
        self._take_free = _TAKE_FREE.format(given=given)
        self._free = _FREE.format(given=given)
        lock = LOCKED[db.engine]
        self._renew = _RENEW.format(given=given, lock=lock)
        self._release_all = _RELEASE_ALL.format(given=given, lock=lock)

    async def take(self, tx: Transaction, name: str, holder: str, *, now: int, until: int) -> bool:
        """Takes or renews a lease; False if another process has it. If the work is in the same
        `tx`, a process that has lost the lease changes nothing."""
        values = {"name": name, "holder": holder, "until": until, "now": now}
        return await tx.one(_TAKE, values) is not None

    async def prove(self, name: str, holder: str, *, now: int, until: int) -> None:
        """Takes a lease that no other process wants, to check that writes are committed."""
        async with self._db.transaction() as tx:
            await self.take(tx, name, holder, now=now, until=until)

    async def take_one(
        self, names: Sequence[str], holder: str, *, now: int, until: int
    ) -> str | None:
        """Takes one of these leases that is free; None if none is."""
        values = {"names": _text(names), "now": now}
        taking = {**values, "holder": holder, "until": until}
        while await self._db.one(self._free, values):
            async with self._db.transaction() as tx:
                if (row := await tx.one(self._take_free, taking)) is not None:
                    return str(row[0])
        return None

    async def renew(self, names: Collection[str], holder: str, until: int) -> set[str]:
        """Renews several leases; returns the names of those that the holder has."""
        values = {"names": _text(names), "holder": holder, "until": until}
        async with self._db.transaction() as tx:
            rows = await tx.all(self._renew, values)
        return {row[0] for row in rows}

    async def release(self, name: str, holder: str) -> None:
        """Releases a lease, so that others need not wait until it ends."""
        async with self._db.transaction() as tx:
            await tx.run(_RELEASE, {"name": name, "holder": holder})

    async def release_all(self, names: Collection[str], holder: str) -> None:
        """Releases several leases."""
        async with self._db.transaction() as tx:
            await tx.run(self._release_all, {"names": _text(names), "holder": holder})


def _text(names: Collection[str]) -> str:
    return msgspec.json.encode(list(names)).decode()
