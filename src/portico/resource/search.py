"""Full-text search over the rows of a table, with the same result on both engines.

A row matches if every word of the search is a word of its name or of its other texts, the last one
as a prefix. The most relevant come first, in three tiers: those whose name has every word, then
those whose name has every word with the last as a prefix, then the rest; newest first within each.
The words are made by `data.search` and prefixed with a mark, so both engines index plain ASCII
words, and neither engine's own tokens, ranks or query syntax matter.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from portico.data.database import NOTHING, Params, Reader, Reads, Row, Transaction, Version
from portico.data.filtered_totals import VERSION, BlockTotals, Total, counting
from portico.data.listing import (
    CACHED_BLOCKS,
    CACHED_TOTALS,
    NEWEST,
    Keyset,
    Order,
    Page,
    remember,
)
from portico.data.table import Table

R = TypeVar("R", bound=msgspec.Struct)

Counts = dict[object, int]
"""The counts of one version of the rows, by `_counted`."""

_RARE = 5_000
"""Up to this many matches are all sorted on PostgreSQL, where the planner would otherwise walk the
primary key. Recounting up to this many is also faster than looking for changed blocks."""


class Indexed(NamedTuple, Generic[R]):
    """What is searched: a table, and the words of its rows in another."""

    table: str
    words_table: str
    words: Callable[[R], tuple[list[str], list[str]]]
    """The marked words of a row: those of its name, and the others."""
    marks: Mapping[str, str]
    """The mark by the value of the column that every search may be limited to."""


class _Statements:
    """The SQL of one index."""

    def __init__(self, table: str, words: str) -> None:
        self.version = f"SELECT {{version}} FROM list_counts WHERE list = '{table}'"
        self.match = {
            "sqlite": f"{words} MATCH :query",
            "postgres": "words @@ CAST(CAST(:query AS TEXT) AS tsquery)",
        }
        self.id = {"sqlite": f"{words}.rowid", "postgres": f"{words}.id"}
        # SQLite keeps the order of a CROSS JOIN. Otherwise it would go through all rows in a
        # price range and look each of them up in the word index.
        self.joined = {
            "sqlite": f"{words} CROSS JOIN {table} ON {table}.id = {words}.rowid",
            "postgres": f"{words} JOIN {table} ON {table}.id = {words}.id",
        }
        self.add = {
            "sqlite": f"INSERT INTO {words} (rowid, name, description)"
            " VALUES (:id, :name, :description)",
            "postgres": f"INSERT INTO {words} (id, words) VALUES (:id, array_to_tsvector(:words))"
            " ON CONFLICT (id) DO UPDATE SET words = excluded.words",
        }
        self.add_arrays = f"""
INSERT INTO {words} (id, words)
SELECT id, array_to_tsvector(string_to_array(words, ' '))
FROM unnest(CAST(:ids AS BIGINT[]), CAST(:words AS TEXT[])) AS added (id, words)"""
        self.remove = {
            "sqlite": f"DELETE FROM {words} WHERE rowid = :id",
            "postgres": f"DELETE FROM {words} WHERE id = :id",
        }
        self.remove_array = f"DELETE FROM {words} WHERE id = ANY (:ids)"
        self.remove_all = {
            "sqlite": f"INSERT INTO {words} ({words}) VALUES ('delete-all')",
            "postgres": f"DELETE FROM {words}",
        }


def _id(row: Any) -> int:
    number: int = row.id
    return number


def _lexemes(name: list[str], description: list[str]) -> list[str]:
    return [*name, *description, *(f"={word}" for word in name)]


def _counted(query: str, further: str | None, params: Params) -> object:
    """The key under which a total is cached."""
    return (query, *params.items(), further)


class WordSearch(Generic[R]):
    """The word index of one table in one environment."""

    def __init__(
        self, indexed: Indexed[R], db: Reads, listed: Table[R], count_limit: int | None
    ) -> None:
        """`listed` has the columns of a page. `count_limit` is the most rows to count; pages by
        offset end there too. None counts all."""
        self._table = indexed.table
        self._words_table = indexed.words_table
        self._words = indexed.words
        self._marks = indexed.marks
        self._sql = _Statements(indexed.table, indexed.words_table)
        self._db = db
        self._engine = db.engine
        self._listed = listed
        self._count_limit = count_limit
        self._countable = NEWEST if count_limit is None else count_limit
        self._rare = min(_RARE, self._countable)
        self._counts: Counts = {}
        self._counts_version: Version | None = None
        self._in_blocks = self._engine == "postgres" and count_limit is None
        self._blocks = {
            source: BlockTotals(indexed.table, source, self._sql.id["postgres"])
            for source in (indexed.words_table, self._sql.joined["postgres"])
        }
        self._last_totals: dict[object, Total] = {}
        """The last total of each query, of whatever version of the rows."""

    async def add(self, tx: Transaction, row: R) -> None:
        """Indexes a row that is not indexed yet."""
        name, description = self._words(row)
        if self._engine == "sqlite":
            words: Params = {"name": " ".join(name), "description": " ".join(description)}
        else:
            words = {"words": _lexemes(name, description)}
        await tx.defer(self._sql.add[self._engine], [{"id": _id(row), **words}])

    async def replace(self, tx: Transaction, row: R) -> None:
        """Replaces the words of an indexed row."""
        if self._engine == "sqlite":
            await self.remove(tx, _id(row))
        await self.add(tx, row)

    async def add_many(self, tx: Transaction, ids: Sequence[int], added: Sequence[R]) -> None:
        """Indexes rows that are not indexed yet, under these ids instead of their own."""
        words = map(self._words, added)
        if self._engine == "sqlite":
            rows: Iterable[Params] = (
                {"id": new, "name": " ".join(name), "description": " ".join(description)}
                for new, (name, description) in zip(ids, words, strict=True)
            )
            await tx.defer(self._sql.add["sqlite"], rows)
        else:
            lexemes = [" ".join(_lexemes(*both)) for both in words]
            await tx.run(self._sql.add_arrays, {"ids": ids, "words": lexemes})

    async def remove(self, tx: Transaction, row_id: int) -> None:
        """Removes a row's words."""
        await tx.defer(self._sql.remove[self._engine], [{"id": row_id}])

    async def remove_many(self, tx: Transaction, ids: Sequence[int]) -> None:
        """Removes the words of several rows."""
        if self._engine == "sqlite":
            await tx.defer(self._sql.remove["sqlite"], ({"id": row_id} for row_id in ids))
        else:
            await tx.run(self._sql.remove_array, {"ids": ids})

    async def remove_all(self, tx: Transaction) -> None:
        """Removes all words."""
        await tx.defer(self._sql.remove_all[self._engine], [NOTHING])

    async def page(
        self,
        words: list[str],
        status: str | None,
        further: str | None,
        params: Params,
        *,
        offset: int,
        limit: int,
        behind: Keyset | None = None,
        order: Order | None = None,
    ) -> Page[R]:
        """One page of the rows of this status, or of any, that have all `words`, most relevant
        first unless `order` says otherwise. It begins `behind` a keyset (tier and id of a row) if
        given, else at `offset`.

        `further` is a condition on the table with its values in `params`, or None.
        """
        within, tiers = self._tiers(words, status)

        async def read(reader: Reader) -> Page[R]:
            rows: list[Row] = []
            found_in: list[int] = []
            tier_behind, below = map(int, behind or (0, NEWEST))
            skip, before = 0 if behind else offset, 0
            count = partial(self._count, reader, await self._current_counts(reader))
            counted = await count(within[-1], further, params)
            total = min(counted, self._countable)
            exact = counted == total
            if order is not None:
                place = {"query": within[-1], "limit": limit, "offset": offset}
                every = self._sorted(further, order)
                rows = await reader.all(every, {**params, **place}) if offset < total else []
                return Page(self._listed.read_all(rows), total, None, exact)
            # One more row shows whether there is a next page, if the counts do not.
            wanted = limit if exact and not behind else limit + 1
            for tier, (query, reached) in enumerate(zip(tiers, within, strict=True)):
                if len(rows) == wanted or skip >= total:
                    break
                rare = False
                # SQLite needs no count to read the start of a tier, and counting takes longest.
                if skip or self._engine == "postgres":
                    most = await count(reached, further, params)
                    if most > self._countable:
                        matches = await count(query, further, params)
                    else:
                        matches, before = most - before, most
                    rare = matches <= self._rare
                    if matches <= skip:
                        skip -= matches
                        continue
                if tier < tier_behind:
                    continue
                bounds = {"query": query, "limit": wanted - len(rows), "offset": skip}
                bounds["below"] = below if tier == tier_behind else NEWEST
                rows += await reader.all(self._select(further, rare=rare), {**params, **bounds})
                found_in += [tier] * (len(rows) - len(found_in))
                skip = 0
            found = self._listed.read_all(rows[:limit])
            more = len(rows) > limit or (rows and wanted == limit and offset + limit < total)
            last = len(found) - 1
            keyset = (found_in[last], _id(found[last])) if more else None
            return Page(found, total, keyset, exact)

        return await self._db.snapshot(read)

    async def ids_after(
        self, words: list[str], status: str | None, further: str | None, params: Params
    ) -> list[int]:
        """The ids of the rows that `page` would show, oldest first: the first `limit` above
        `after`, both in `params`."""
        within, _ = self._tiers(words, status)
        identity = self._sql.id[self._engine]
        rows = await self._db.slow.all(
            f"SELECT {identity} FROM {self._matches(further)} AND {identity} > :after"
            f" ORDER BY {identity} LIMIT :limit",
            {**params, "query": within[-1]},
        )
        return [row[0] for row in rows]

    async def _current_counts(self, reader: Reader) -> Counts:
        """The counts of the version of the rows that `reader` sees; drops the counts of any
        other version."""
        [(version,)] = await reader.all(self._sql.version.format(version=VERSION[self._engine]))
        if version != self._counts_version or len(self._counts) >= CACHED_TOTALS:
            self._counts, self._counts_version = {}, version
        return self._counts

    async def _count(
        self, reader: Reader, counts: Counts, query: str, further: str | None, params: Params
    ) -> int:
        """How many rows match a query, up to one above the limit; counted once per version of
        the rows."""
        key = _counted(query, further, params)
        if key not in counts:
            values = {**params, "query": query}
            if self._in_blocks:
                counts[key] = await self._count_blocks(reader, key, further, values)
            else:
                count = counting(self._matches(further), self._count_limit)
                counts[key] = (await reader.all(count, values))[0][0]
        return counts[key]

    async def _count_blocks(
        self, reader: Reader, key: object, further: str | None, params: Params
    ) -> int:
        """As `_count`, starting from the last total; `params` include the query."""
        source, where = self._source(further)
        blocks = self._blocks[source]
        last, total = self._last_totals.get(key), None
        if last is not None and last.number > _RARE:
            check, known = blocks.check(where, last)
            (row,) = await reader.all(check, {**params, **known})
            total = blocks.checked(row, last)
        if total is None:
            (row,) = await reader.all(blocks.count(where), params)
            total = blocks.counted(row, last)
        remember(self._last_totals, key, total, min(CACHED_TOTALS, CACHED_BLOCKS // total.weight))
        return total.number

    def _source(self, further: str | None) -> tuple[str, str]:
        """The tables in which rows match the parameter `query`, and the condition for it."""
        match = self._sql.match[self._engine]
        if further is None:
            return self._words_table, match
        return self._sql.joined[self._engine], f"{match} AND {further}"

    def _matches(self, further: str | None) -> str:
        """The FROM and WHERE of the rows that match the parameter `query`, without FROM."""
        source, where = self._source(further)
        return f"{source} WHERE {where}"

    def _select(self, further: str | None, *, rare: bool) -> str:
        identity = self._sql.id[self._engine]
        hits = f"SELECT {identity} AS id FROM {self._matches(further)} AND {identity} < :below"
        if rare and self._engine == "postgres":
            hits = f"WITH hits AS MATERIALIZED ({hits}) SELECT id FROM hits"
            identity = "id"
        return (
            f"SELECT {self._listed.of(self._table)} FROM"
            f" ({hits} ORDER BY {identity} DESC LIMIT :limit OFFSET :offset) AS page"
            f" JOIN {self._table} ON {self._table}.id = page.id ORDER BY page.id DESC"
        )

    def _sorted(self, further: str | None, order: Order) -> str:
        table, by = self._table, order.clause(f"{self._table}.")
        return (
            f"SELECT {self._listed.of(table)} FROM (SELECT {table}.id AS id"
            f" FROM {self._matches(further or 'TRUE')} ORDER BY {by} LIMIT :limit OFFSET :offset)"
            f" AS page JOIN {table} ON {table}.id = page.id ORDER BY {by}"
        )

    def _tiers(
        self, words: list[str], status: str | None
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The engine's queries for rows of this status, or of any, one per tier: all words in
        the name, the same with the last as a prefix, and anywhere. First as they are, each included
        in the next, then without overlap."""
        marks = self._marks.values() if status is None else self._marks[status]
        exact = self._every(words, marks, named=True, prefix=False)
        prefix = self._every(words, marks, named=True, prefix=True)
        anywhere = self._every(words, marks, named=False, prefix=True)
        within = exact, prefix, anywhere
        if self._engine == "sqlite":
            return within, (exact, f"({prefix}) NOT ({exact})", f"({anywhere}) NOT ({prefix})")
        return within, (exact, f"({prefix}) & !({exact})", f"({anywhere}) & !({prefix})")

    def _every(self, words: list[str], marks: Iterable[str], *, named: bool, prefix: bool) -> str:
        """The engine's query for rows that have every word, in their name if `named`, and the
        last as a prefix if `prefix`."""
        sqlite = self._engine == "sqlite"
        quote, star = ('"', "*") if sqlite else ("'", ":*")
        before = "=" if named and not sqlite else ""
        either, both = (" OR ", " AND ") if sqlite else (" | ", " & ")
        *whole, last = words
        ends = [*((word, "") for word in whole), (last, star if prefix else "")]
        terms = (
            f"({either.join(f'{quote}{before}{mark}{word}{quote}{end}' for mark in marks)})"
            for word, end in ends
        )
        query = both.join(terms)
        return f"{{name}} : ({query})" if named and sqlite else query
