"""Exact totals of filters for which no row keeps a total: counted, and cached while they are valid.

A total is checked or counted in the same statement as its page and so in the same snapshot.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import NamedTuple

import msgspec

from portico.data.database import NOTHING, Database, Engine, Params, Row, Transaction, Version

# Identifies the server that answers, until it restarts, and the database. While one server runs,
# each of its snapshots shows all that earlier ones showed, unless it crashed. Another server, a
# replica, may be behind and shows commits in another order. The table's file identifies the
# database, even if that is renamed: a database that was emptied or restored has another file.
_ORIGIN = """concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
    pg_relation_filepath(max(tableoid)))"""

_CHANGES = "CAST(coalesce(sum(version), 0) AS BIGINT)"

VERSION: dict[Engine, str] = {
    "sqlite": _CHANGES,
    "postgres": f"concat_ws(' ', {_ORIGIN}, {_CHANGES})",
}
"""The version of a list, from its `list_counts`: an equal version means the same rows."""

BLOCK = 4_096
"""How many ids `list_blocks` counts together, as in the migrations."""

ORIGINS = 8
"""The most origins of which the last state is kept."""

TOUCHED = 32
"""Up to this many changed blocks are recounted one by one, which is faster than recounting all."""

_COUNTS = """
SELECT CAST(coalesce(sum(CASE WHEN {kept} THEN total END), 0) AS BIGINT) AS total,
    {version} AS version
FROM list_counts WHERE list = '{table}'"""

# With LIMIT, the count is computed once, and not for each row that it is joined with.
_COUNTED = """
SELECT ({count}) AS total, kept.version
FROM ({counts}) AS kept LIMIT 1"""

_LIST_VERSIONS = f"""
SELECT key, {VERSION["postgres"]}
FROM list_counts WHERE list = '{{table}}' AND key = ANY($1) GROUP BY key"""

# For totals by blocks: of two versions of one origin, the higher one is later.
_STATE = f"""
SELECT {_ORIGIN} AS origin, {_CHANGES} AS version FROM list_counts WHERE list = '{{table}}'"""

# A snapshot shows all transactions before this one.
_SINCE = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"

_BY_BLOCKS = f"""
SELECT json_build_object('origin', kept.origin, 'since', {_SINCE}, 'counts', (
    SELECT json_agg(json_build_array(block, total)) FROM (
        SELECT {{id}} / {BLOCK} AS block, count(*) AS total
        FROM {{source}} WHERE {{where}} GROUP BY 1
    ) AS blocks))::text"""

# A block was changed since then if the transaction that wrote its row is not older. Transaction ids
# are reused after 4,000 million: long before that, all blocks are recounted.
_TOUCHED = f"""
WITH known AS MATERIALIZED (
    SELECT version, since FROM json_to_recordset(CAST(CAST(:known AS TEXT) AS JSON))
        AS states (origin TEXT, version BIGINT, since BIGINT)
    WHERE origin = kept.origin AND version <= kept.version
        AND {_SINCE} - since BETWEEN 0 AND 1000000000),
touched AS MATERIALIZED (
    SELECT block FROM known CROSS JOIN LATERAL (
        SELECT DISTINCT block FROM list_blocks AS row WHERE list = '{{table}}'
            AND age(row.xmin) BETWEEN 0 AND age(CAST(CAST(since & 4294967295 AS TEXT) AS xid))
        LIMIT {TOUCHED + 1}) AS blocks
    WHERE known.version <> kept.version),
few AS (SELECT block FROM touched WHERE (SELECT count(*) FROM touched) <= {TOUCHED})
SELECT json_build_object('origin', kept.origin, 'since', {_SINCE},
    'touched', CASE WHEN EXISTS (SELECT FROM known) THEN (SELECT count(*) FROM touched) END,
    'counts', (SELECT json_agg(json_build_array(block, (
        SELECT count(*) FROM {{source}} WHERE {{where}}
            AND {{id}} >= block * {BLOCK} AND {{id}} < (block + 1) * {BLOCK}))) FROM few))::text"""


class _State(NamedTuple):
    """The last state that one origin showed: how many rows match (`number`), in which version of
    the list, how many of them are in each block, and `since`, the oldest transaction that it may
    not have shown."""

    number: int
    version: int
    since: int
    blocks: Mapping[int, int]


class Total(NamedTuple):
    """How many rows match in one version of a list, and for totals by blocks the last state of each
    origin, the most recently asked one last."""

    number: int
    version: Version
    states: Mapping[str, _State] = {}

    @property
    def weight(self) -> int:
        """How many numbers it holds in memory."""
        return 1 + sum(len(state.blocks) for state in self.states.values())


class _Answer(msgspec.Struct):
    """The answer of a statement about an origin's blocks. `counts` are pairs of a block and its
    number of matching rows; `touched` is how many blocks were changed since the last state, None if
    no last state is known."""

    origin: str
    since: int
    counts: list[tuple[int, int]] | None
    touched: int | None = None


def kept_total(table: str, kept: str, engine: Engine) -> str:
    """The SELECT of a list's total and version; `kept` is a condition on the keys."""
    return _COUNTS.format(kept=kept, table=table, version=VERSION[engine])


@cache
def list_versions(table: str) -> str:
    """The SELECT of a list's versions by key on PostgreSQL's primary, for `Batches`: an equal
    version means the same rows."""
    return _LIST_VERSIONS.format(table=table)


def counting(matching: str, count_limit: int | None) -> str:
    """The SELECT that counts the rows of `matching`, the FROM clause of a SELECT without the word
    FROM; it counts up to one above the limit."""
    if count_limit is None:
        return f"SELECT count(*) FROM {matching}"
    return f"SELECT count(*) FROM (SELECT 1 FROM {matching} LIMIT {count_limit + 1}) AS counted"


class CountedTotals:
    """How the totals of one list's filters are counted: anew after each write to the list."""

    def __init__(self, table: str, engine: Engine, count_limit: int | None) -> None:
        """Counts at most one row above `count_limit`, if given."""
        self._table = table
        self._count_limit = count_limit
        self._version = kept_total(table, "TRUE", engine)

    @lru_cache(maxsize=64)  # noqa: B019 - it lives as long as the process
    def count(self, where: str) -> str:
        """The SELECT that returns the row for `counted`; `where` is SQL from a fixed set."""
        count = counting(f"{self._table} WHERE {where}", self._count_limit)
        return _COUNTED.format(count=count, counts=self._version)

    def counted(self, row: Row, _last: Total | None) -> Total:
        """The total from the row of `count`, which replaces the last."""
        return Total(row[0], row[1])

    def check(self, _where: str, _last: Total) -> tuple[str, Params]:
        """The SELECT that returns the row for `checked`, and its additional parameters."""
        return self._version, NOTHING

    def checked(self, row: Row, last: Total) -> Total | None:
        """The total from the row of `check` and the `last` total; None if all must be recounted."""
        return last if row[1] == last.version else None


class BlockTotals:
    """Totals of which, after a write, only the changed blocks are recounted. For PostgreSQL, whose
    `list_blocks` show which blocks changed."""

    def __init__(self, table: str, source: str | None = None, identity: str = "id") -> None:
        """The blocks are those of `table`. Matching rows are counted in it, or in a `source` that
        has the same ids in its column `identity` and changes together with it."""
        self._table = table
        self._source = source or table
        self._identity = identity

    @lru_cache(maxsize=64)  # noqa: B019 - it lives as long as the process
    def count(self, where: str) -> str:
        return self._statement(_BY_BLOCKS, where)

    def counted(self, row: Row, last: Total | None) -> Total:
        answer = msgspec.json.decode(row[0], type=_Answer)
        return _total(answer, row[1], last, 0, {})

    def check(self, where: str, last: Total) -> tuple[str, Params]:
        known = [
            {"origin": origin, "version": state.version, "since": state.since}
            for origin, state in last.states.items()
        ]
        return self._check(where), {"known": msgspec.json.encode(known).decode()}

    def checked(self, row: Row, last: Total) -> Total | None:
        answer = msgspec.json.decode(row[0], type=_Answer)
        if answer.touched is None or answer.touched > TOUCHED:
            return None
        state = last.states[answer.origin]
        return _total(answer, row[1], last, state.number, dict(state.blocks))

    @lru_cache(maxsize=64)  # noqa: B019 - it lives as long as the process
    def _check(self, where: str) -> str:
        return self._statement(_TOUCHED, where)

    def _statement(self, template: str, where: str) -> str:
        fact = template.format(
            table=self._table, source=self._source, id=self._identity, where=where
        )
        return _COUNTED.format(count=fact, counts=_STATE.format(table=self._table))


def _total(
    answer: _Answer, version: int, last: Total | None, number: int, blocks: dict[int, int]
) -> Total:
    """The new total after the answer of one origin. `number` and `blocks` are its previous counts,
    of which the answer replaces some or all."""
    for block, count in answer.counts or ():
        number += count - blocks.get(block, 0)
        blocks[block] = count
    others = [] if last is None else [one for one in last.states.items() if one[0] != answer.origin]
    states = dict(others[1 - ORIGINS :])
    states[answer.origin] = _State(number, version, answer.since, blocks)
    return Total(number, version, states)


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
