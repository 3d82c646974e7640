"""Blocks of ids in which no row is left. On PostgreSQL no trigger removes them."""

from portico.storage.database import Database, Transaction
from portico.storage.filtered_totals import TOUCHED

MIN_BLOCKS = 256
"""Only from this many on are they removed, since each filter must be recounted afterwards."""

_BATCH = 1_000

_EMPTY = """
SELECT list, key, block FROM list_blocks WHERE block >= 0
GROUP BY list, key, block HAVING sum(total) = 0 LIMIT :limit"""

# Skips rows that others are writing to: so it does not wait, and the sum of the removed rows is 0
# whatever is committed meanwhile. Totals are recounted in blocks whose rows were written
# (`filtered_totals`), which a removed row cannot show. So it also writes more empty rows than are
# recounted one by one, which makes every process recount all, including those of other releases.
_REMOVE = f"""
WITH empty AS ({_EMPTY}),
locked AS MATERIALIZED (
    SELECT b.list, b.key, b.block, b.shard, b.total
    FROM list_blocks AS b JOIN empty USING (list, key, block) FOR UPDATE OF b SKIP LOCKED),
removed AS (
    DELETE FROM list_blocks AS b USING locked AS l
    WHERE b.list = l.list AND b.key = l.key AND b.block = l.block AND b.shard = l.shard
        AND (l.list, l.key, l.block) IN (
            SELECT list, key, block FROM locked GROUP BY list, key, block HAVING sum(total) = 0)
    RETURNING b.list, b.key, b.block),
marked AS (
    INSERT INTO list_blocks (list, key, block, shard, total)
    SELECT list, '', -number, 0, 0
    FROM (SELECT DISTINCT list FROM removed) AS lists, generate_series(1, {TOUCHED + 1}) AS number
    ON CONFLICT (list, key, block, shard) DO UPDATE SET total = 0)
SELECT count(*) FROM (SELECT DISTINCT list, key, block FROM removed) AS blocks"""


class EmptyBlocks:
    """The empty blocks of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def are_due(self) -> bool:
        """Whether there are enough to remove them."""
        if self._db.engine == "sqlite":
            return False
        return len(await self._db.slow.all(_EMPTY, {"limit": MIN_BLOCKS})) == MIN_BLOCKS

    async def forget(self, tx: Transaction) -> bool:
        """Removes some empty blocks; returns whether there may be more."""
        row = await tx.one(_REMOVE, {"limit": _BATCH})
        return row is not None and row[0] == _BATCH
