"""Exact totals of filters that no row keeps: counted, and known for as long as they are true.

Each is told in the same statement as a page, hence of the same snapshot.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import NamedTuple, Protocol

import msgspec

from portico.storage.database import NOTHING, Engine, Params, Row
from portico.storage.parts import Version

# The server that answers, until it starts anew: while it runs, each of its snapshots shows what the
# ones before it showed, unless it has crashed. Another one, a replica, may be behind, and shows
# commits in another order. And the table's file, which names the database, whatever that is called
# by now: rows of a list that was emptied with its database, or restored, are in another one.
_ORIGIN = """concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()),
    pg_relation_filepath(max(tableoid)))"""

_CHANGES = "CAST(coalesce(sum(version), 0) AS BIGINT)"

VERSION: dict[Engine, str] = {
    "sqlite": _CHANGES,
    "postgres": f"concat_ws(' ', {_ORIGIN}, {_CHANGES})",
}
"""The version of a list, of its `list_counts`: one that comes again is of the same rows."""

BLOCK = 4_096
"""Ids that `list_blocks` counts together, as the migrations have it."""

ORIGINS = 8
"""Those of which is known what they showed last."""

TOUCHED = 32
"""Blocks of which it is quicker to count them again one by one than all."""

_COUNTS = """
SELECT CAST(coalesce(sum(CASE WHEN {kept} THEN total END), 0) AS BIGINT) AS total,
    {version} AS version
FROM list_counts WHERE list = '{table}'"""

# With what only counting tells: once, and not for each row that it is joined with.
_COUNTED = """
SELECT ({count}) AS total, kept.version
FROM ({counts}) AS kept LIMIT 1"""

_LIST_VERSIONS = f"""
SELECT key, {VERSION["postgres"]}
FROM list_counts WHERE list = '{{table}}' AND key = ANY($1) GROUP BY key"""

# Where blocks are counted: of one origin, a version that is higher is later.
_STATE = f"""
SELECT {_ORIGIN} AS origin, {_CHANGES} AS version FROM list_counts WHERE list = '{{table}}'"""

# What a snapshot does not show is of transactions from this one on.
_SINCE = "pg_snapshot_xmin(pg_current_snapshot())::text::bigint"

_BY_BLOCKS = f"""
SELECT json_build_object('origin', kept.origin, 'since', {_SINCE}, 'counts', (
    SELECT json_agg(json_build_array(block, total)) FROM (
        SELECT {{id}} / {BLOCK} AS block, count(*) AS total
        FROM {{source}} WHERE {{where}} GROUP BY 1
    ) AS blocks))::text"""

# The row of a block has been written since, if the transaction that wrote it is no older. Their
# numbers are used again after four thousand million: long before, all is counted.
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
    """What one origin showed: how many rows of which version of the list fit, how many of them in
    each block, and the oldest transaction of which it may not have shown all."""

    number: int
    version: int
    since: int
    blocks: Mapping[int, int]


class Total(NamedTuple):
    """How many rows of one version of a list fit, and what each origin has shown of blocks, where
    they are counted by those: the one that was asked last at the end."""

    number: int
    version: Version
    states: Mapping[str, _State] = {}

    @property
    def weight(self) -> int:
        """How many numbers it holds."""
        return 1 + sum(len(state.blocks) for state in self.states.values())


class _Told(msgspec.Struct):
    """What is told of an origin's blocks: pairs of a block and how many rows in it fit; how many
    blocks were touched, None where it is not known since when."""

    origin: str
    since: int
    counts: list[tuple[int, int]] | None
    touched: int | None = None


class Totals(Protocol):
    """How the totals of one list's filters are counted."""

    def count(self, where: str) -> str:
        """The SELECT of a row for `counted`, where `where` is SQL from a fixed set."""
        ...

    def counted(self, row: Row, last: Total | None) -> Total:
        """The total that such a row tells, in the place of the last."""
        ...

    def check(self, where: str, last: Total) -> tuple[str, Params]:
        """The SELECT of a row for `checked`, and its further values."""
        ...

    def checked(self, row: Row, last: Total) -> Total | None:
        """The total by what such a row tells of changes since `last`; None: all must be counted."""
        ...


def kept_total(table: str, kept: str, engine: Engine) -> str:
    """Total and version of a list, as a SELECT: `kept` is a condition on the keys."""
    return _COUNTS.format(kept=kept, table=table, version=VERSION[engine])


@cache
def list_versions(table: str) -> str:
    """The versions of a list by its keys, on PostgreSQL's primary, as `Batches` reads them: one
    that comes again is of the same rows."""
    return _LIST_VERSIONS.format(table=table)


def counting(matching: str, count_limit: int | None) -> str:
    """The SELECT that counts the rows `matching`, the end of a SELECT: to one above the limit."""
    if count_limit is None:
        return f"SELECT count(*) FROM {matching}"
    return f"SELECT count(*) FROM (SELECT 1 FROM {matching} LIMIT {count_limit + 1}) AS counted"


class CountedTotals:
    """Totals that are counted again after each write to the list."""

    def __init__(self, table: str, engine: Engine, count_limit: int | None) -> None:
        """No more rows than one above `count_limit` are counted, if that is given."""
        self._table = table
        self._count_limit = count_limit
        self._version = kept_total(table, "TRUE", engine)

    @lru_cache(maxsize=64)  # noqa: B019 - it lives as long as the process
    def count(self, where: str) -> str:
        """See `Totals`."""
        count = counting(f"{self._table} WHERE {where}", self._count_limit)
        return _COUNTED.format(count=count, counts=self._version)

    def counted(self, row: Row, last: Total | None) -> Total:  # noqa: ARG002 - see `Totals`
        """See `Totals`."""
        return Total(row[0], row[1])

    def check(self, where: str, last: Total) -> tuple[str, Params]:  # noqa: ARG002 - see `Totals`
        """See `Totals`."""
        return self._version, NOTHING

    def checked(self, row: Row, last: Total) -> Total | None:
        """See `Totals`."""
        return last if row[1] == last.version else None


class BlockTotals:
    """Totals of which, after a write, only the blocks that it touched are counted again:
    PostgreSQL's, whose `list_blocks` tell which."""

    def __init__(self, table: str, source: str | None = None, identity: str = "id") -> None:
        """The blocks are those of `table`. What fits is found in it, or in a `source` of the same
        ids, which change with it: there a column is their `identity`."""
        self._table = table
        self._source = source or table
        self._identity = identity

    @lru_cache(maxsize=64)  # noqa: B019 - it lives as long as the process
    def count(self, where: str) -> str:
        """See `Totals`."""
        return self._told(_BY_BLOCKS, where)

    def counted(self, row: Row, last: Total | None) -> Total:
        """See `Totals`."""
        told = msgspec.json.decode(row[0], type=_Told)
        return _total(told, row[1], last, 0, {})

    def check(self, where: str, last: Total) -> tuple[str, Params]:
        """See `Totals`."""
        known = [
            {"origin": origin, "version": state.version, "since": state.since}
            for origin, state in last.states.items()
        ]
        return self._check(where), {"known": msgspec.json.encode(known).decode()}

    def checked(self, row: Row, last: Total) -> Total | None:
        """See `Totals`."""
        told = msgspec.json.decode(row[0], type=_Told)
        if told.touched is None or told.touched > TOUCHED:
            return None
        state = last.states[told.origin]
        return _total(told, row[1], last, state.number, dict(state.blocks))

    @lru_cache(maxsize=64)  # noqa: B019 - it lives as long as the process
    def _check(self, where: str) -> str:
        return self._told(_TOUCHED, where)

    def _told(self, template: str, where: str) -> str:
        fact = template.format(
            table=self._table, source=self._source, id=self._identity, where=where
        )
        return _COUNTED.format(count=fact, counts=_STATE.format(table=self._table))


def _total(
    told: _Told, version: int, last: Total | None, number: int, blocks: dict[int, int]
) -> Total:
    """The last total, but for what is told of one origin: where there were so many in these blocks,
    what it tells of some of them is newer."""
    for block, count in told.counts or ():
        number += count - blocks.get(block, 0)
        blocks[block] = count
    others = [] if last is None else [one for one in last.states.items() if one[0] != told.origin]
    states = dict(others[1 - ORIGINS :])
    states[told.origin] = _State(number, version, told.since, blocks)
    return Total(number, version, states)
