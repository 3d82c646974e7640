"""Pages of a list with an exact total, on either engine and at any depth.

The total comes from `list_counts`, read in the same statement as the rows and so in the same
snapshot. For filters without a kept total see `data.filtered_totals`.
"""

from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from portico.core.ids import MAX_ID
from portico.data.database import Engine, Params, Reader, Reads, Row, integer
from portico.data.filtered_totals import (
    BLOCK,
    BlockTotals,
    CountedTotals,
    Total,
    kept_total,
)
from portico.data.table import Table

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

FARTHEST = 2**53
"""The most rows to skip: no list is longer, and both engines compute with it safely."""

NEWEST = MAX_ID
"""Above the id of every row: pages read ids below it."""

DEEP = 1_000
"""A page after more rows than this, or in an order without an index, is read in a thread."""

RECENT = 20_000
"""If more rows than this match a filter, a page is first looked for among this many newest ids."""

MANY = 5
"""If a filter matches more than one row in this many, SQLite reads all rows in their order: sorting
a match costs ten times as much as skipping another row."""

CACHED_TOTALS = 1_000
CACHED_BLOCKS = 200_000
"""How many totals of filters are cached, and how many totals of their blocks (about 100 bytes
each)."""

Keyset = tuple[str | int, ...]
"""The row after which a page begins (keyset pagination): its values of the sort columns, the id
last."""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """`rows` of one page, the `total` of all pages, and where the `next` page begins, if any.

    If the total is not `exact`, there are more rows than that.
    """

    rows: list[T]
    total: int
    next: Keyset | None = None
    exact: bool = True


class Order(msgspec.Struct, frozen=True):
    """A sort by one column, then by id likewise. `indexed`: whether an index of the whole table has
    this order. `nulls`: whether the column has some, which are below every value."""

    column: str
    descending: bool
    indexed: bool = True
    nulls: bool = False

    @property
    def newest_first(self) -> bool:
        """Whether it is by id, highest first: the order in which blocks of ids are read."""
        return self.column == "id" and self.descending

    def clause(self, table: str = "") -> str:
        """The ORDER BY terms; `table` is put before every column."""
        way = "DESC" if self.descending else "ASC"
        if self.column == "id":
            return f"{table}id {way}"
        nulls = f" NULLS {'LAST' if self.descending else 'FIRST'}" if self.nulls else ""
        return f"{table}{self.column} {way}{nulls}, {table}id {way}"

    def behind(self, table: str, where: str, engine: Engine) -> tuple[str, str]:
        """The source of the rows after the keyset of `bounds`, and the condition on them."""
        way = "<" if self.descending else ">"
        if self.column == "id":
            return table, f"{where} AND id {way} :after_id"
        if engine == "postgres":
            return table, f"{where} AND ({self.column}, id) {way} (:after_value, :after_id)"
        # With a row comparison SQLite would search by the column only, and pass all rows with an
        # equal value. It merges these two SELECTs without sorting, since both are in this order.
        rows = f"SELECT {self.column}, id FROM {table} WHERE {where} AND {self.column}"
        both = f"{rows} = :after_value AND id {way} :after_id UNION ALL {rows} {way} :after_value"
        return f"({both} ORDER BY {self.clause()} LIMIT :limit)", "TRUE"

    def bounds(self, keyset: Keyset) -> Params:
        """The parameters of `behind`."""
        if self.column == "id":
            return {"after_id": keyset[0]}
        return {"after_value": keyset[0], "after_id": keyset[1]}


# Near the start of a list.
_NEAR = """
SELECT (SELECT total FROM ({counts}) AS counts), {columns}
FROM {table} AS item WHERE {where} ORDER BY {item_order} LIMIT :limit OFFSET :offset"""

# Anywhere: rows are skipped in the index only, and the counts come even with an empty page.
_PAGE = """
SELECT counts.total, counts.version, {columns}
FROM ({counts}) AS counts
LEFT JOIN (
    SELECT id FROM {source} WHERE {where} ORDER BY {walk} LIMIT :limit OFFSET {offset}
) AS page ON TRUE
LEFT JOIN {table} AS item ON item.id = page.id
ORDER BY {item_order}"""

# For lists whose blocks are counted: the block of ids in which a page by id begins, and how many
# rows come before the block. So no page skips the rows of more than one block.
_START = """
SELECT block, passed FROM (
    SELECT block, CAST(sum(sum(total)) OVER (ORDER BY block DESC) - sum(total) AS BIGINT) AS passed
    FROM list_blocks WHERE list = '{table}' AND {kept} GROUP BY block
) AS blocks WHERE passed <= :offset ORDER BY block LIMIT 1"""
_IN_BLOCK = f"""
WITH start AS MATERIALIZED ({_START}) {_PAGE}"""
_BLOCK_WHERE = f"{{where}} AND id < (SELECT (block + 1) * {BLOCK} FROM start)"
_BLOCK_OFFSET = "coalesce(:offset - (SELECT passed FROM start), 0)"

BY_ID = {"sqlite": " NOT INDEXED", "postgres": ""}
"""After a table's name: reads it by id. By a filter's index SQLite would sort all that match."""

_RECENT_WHERE = "{where} AND id > (SELECT max(id) FROM {table}) - {recent}"
_SOON_WHERE = "{where} AND id > CAST(:after_id AS BIGINT) - {recent}"


def followed(rows: list[R], total: int) -> Page[R]:
    """A page of a list by id, with a next page."""
    last: Any = rows[-1]
    return Page(rows, total, (last.id,))


async def page_by_id(
    db: Reads,
    table: Table[R],
    statements: tuple[str, str],
    params: Params,
    *,
    offset: int,
    limit: int,
    behind: Keyset | None,
) -> Page[R]:
    """A page of a list by id, highest first. It begins `behind` a keyset if given, else at
    `offset`. `statements` count the list and read up to `:limit` rows below the id `:below`."""
    below = behind[0] if behind else NEWEST
    bounds = {"below": below, "limit": limit + 1, "offset": min(offset, FARTHEST)}
    count, page = statements

    async def read(reader: Reader) -> Page[R]:
        total = await integer(reader, count, params)
        rows = table.read_all(await reader.all(page, {**params, **bounds}))
        return followed(rows[:limit], total) if len(rows) > limit else Page(rows, total)

    return await db.snapshot(read)


class Listing(Generic[R]):
    """The pages of one table."""

    def __init__(
        self,
        db: Reads,
        table: Table[R],
        *,
        in_blocks: bool = False,
        count_limit: int | None = None,
        id_ordered: Collection[str] = (),
    ) -> None:
        """`in_blocks`: whether `list_blocks` counts the table. `count_limit` is the most rows to
        count for a filter without a kept total; pages by offset end there too. `id_ordered` are the
        conditions for which an index goes on with the id."""
        self._db = db
        self._table = table
        self._in_blocks = in_blocks
        self._id_ordered = id_ordered
        self._count_limit = count_limit
        self._totals = (
            BlockTotals(table.name)
            if in_blocks and db.engine == "postgres" and count_limit is None
            else CountedTotals(table.name, db.engine, count_limit)
        )
        self._many = RECENT if count_limit is None else min(RECENT, count_limit)
        self._counted: dict[object, Total] = {}

    async def page(
        self,
        where: str,
        params: Params,
        *,
        order: Order,
        offset: int,
        limit: int,
        behind: Keyset | None = None,
        kept: str | None,
    ) -> Page[R]:
        """One page of the rows for which `where` holds. It begins `behind` a keyset if given, which
        is fast at any depth, else after `offset` rows.

        `where` is SQL from a fixed set, its values in `params`. `kept` is the condition on
        `list_counts.key` whose sum is the total (`TRUE` for the whole table), or None if no total
        is kept for this filter.
        """
        if behind is not None:
            return await self._page_behind(where, params, order, behind, limit, kept)
        if kept is None:
            skipped = min(offset, self._count_limit or FARTHEST)
            bounds = {**params, "limit": limit + 1, "offset": skipped}
            page = await self._filtered(where, params, order, bounds)
            if not page.exact and offset >= page.total:
                return msgspec.structs.replace(page, rows=[])
            return self._cut(page, limit, order)
        bounds = {**params, "limit": limit, "offset": min(offset, FARTHEST)}
        page = await self._whole(where, order, bounds, kept, offset)
        if not page.rows or offset + len(page.rows) >= page.total:
            return page
        return self._followed(page.rows, page.total, order)

    async def _page_behind(
        self, where: str, params: Params, order: Order, keyset: Keyset, limit: int, kept: str | None
    ) -> Page[R]:
        bounds = {**params, **order.bounds(keyset), "limit": limit + 1, "offset": 0}
        if kept is None:
            page = await self._filtered(where, params, order, bounds, behind=True)
        else:
            counts = self._kept(kept)
            sql = self._anywhere(where, order, counts, behind=True)
            rows = await self._db.all(sql, bounds)
            page = Page(self._items(rows), rows[0][0])
        return self._cut(page, limit, order)

    def _cut(self, page: Page[R], limit: int, order: Order) -> Page[R]:
        """Removes the row after the page, if one was read, and sets where the next page begins."""
        if len(page.rows) <= limit:
            return page
        cut = self._followed(page.rows[:limit], page.total, order)
        return msgspec.structs.replace(cut, exact=page.exact)

    def _followed(self, rows: list[R], total: int, order: Order) -> Page[R]:
        if order.column == "id":
            return followed(rows, total)
        last: Mapping[str, Any] = self._table.values(rows[-1])
        return Page(rows, total, (last[order.column], last["id"]))

    async def _whole(
        self, where: str, order: Order, bounds: Params, kept: str, offset: int
    ) -> Page[R]:
        counts = self._kept(kept)
        if offset <= DEEP and order.indexed:
            rows = await self._db.all(self._near(where, order, counts), bounds)
            if rows:
                return Page(self._table.read_all(row[1:] for row in rows), rows[0][0])
        if self._in_blocks and order.newest_first:
            rows = await self._db.slow.all(self._in_block(where, order, kept), bounds)
            return Page(self._items(rows), rows[0][0])
        rows = await self._db.slow.all(self._anywhere(where, order, counts), bounds)
        return Page(self._items(rows), rows[0][0])

    async def _filtered(
        self, where: str, params: Params, order: Order, bounds: Params, *, behind: bool = False
    ) -> Page[R]:
        filters = (where, *params.items())
        totals, last = self._totals, self._counted.get(filters)
        if last is None:
            last = totals.counted((await self._db.slow.all(totals.count(where), params))[0], None)
        check, values = totals.check(where, last)
        bounds = {**bounds, **values}
        rows = await self._fitting(where, order, check, bounds, last.number, behind=behind)
        total = totals.checked(rows[0], last)
        if total is None:
            # Reads the rows again, with the count in the same statement and so the same snapshot.
            check = totals.count(where)
            rows = await self._fitting(where, order, check, bounds, last.number, behind=behind)
            total = totals.counted(rows[0], last)
        most = CACHED_BLOCKS // total.weight
        remember(self._counted, filters, total, min(CACHED_TOTALS, most))
        if self._count_limit is None or total.number <= self._count_limit:
            return Page(self._items(rows), total.number)
        return Page(self._items(rows), self._count_limit, exact=False)

    async def _fitting(
        self, where: str, order: Order, counts: str, bounds: Params, total: int, *, behind: bool
    ) -> list[Row]:
        """The rows of a page; `total` is how many rows match, or did when last counted."""
        in_order = False
        if self._in_blocks and total > self._many:
            if order.newest_first:
                recent = self._recent(where, order, counts, behind=behind)
                rows = await self._db.slow.all(recent, bounds)
                if len(rows) == bounds["limit"] and rows[0][2] is not None:
                    return rows
            id_ordered = order.newest_first and where in self._id_ordered
            if self._db.engine == "sqlite" and not id_ordered:
                every = (await self._db.all(self._kept("TRUE")))[0]
                in_order = total * MANY > every[0]
        anywhere = self._anywhere(where, order, counts, in_order=in_order, behind=behind)
        return await self._db.slow.all(anywhere, bounds)

    @lru_cache(maxsize=64)  # noqa: B019 - a listing lives as long as the process
    def _near(self, where: str, order: Order, counts: str) -> str:
        return self._page(_NEAR, order, counts=counts, where=where)

    @lru_cache(maxsize=256)  # noqa: B019 - a listing lives as long as the process
    def _anywhere(
        self,
        where: str,
        order: Order,
        counts: str,
        *,
        in_order: bool = False,
        behind: bool = False,
    ) -> str:
        source = self._table.name
        if in_order and order.column == "id":
            source += BY_ID[self._db.engine]
        elif in_order:
            where = f"({where}) IS TRUE"  # leaves no index but that of the order
        if behind:
            source, where = order.behind(source, where, self._db.engine)
        return self._page(
            _PAGE,
            order,
            counts=counts,
            source=source,
            where=where,
        )

    @lru_cache(maxsize=256)  # noqa: B019 - a listing lives as long as the process
    def _recent(self, where: str, order: Order, counts: str, *, behind: bool) -> str:
        near, table = _RECENT_WHERE, self._table.name
        source = table + BY_ID[self._db.engine]
        if behind:
            near = _SOON_WHERE
            source, where = order.behind(source, where, self._db.engine)
        return self._page(
            _PAGE,
            order,
            counts=counts,
            source=source,
            where=near.format(where=where, table=table, recent=RECENT),
        )

    @lru_cache(maxsize=64)  # noqa: B019 - a listing lives as long as the process
    def _in_block(self, where: str, order: Order, kept: str) -> str:
        return self._page(
            _IN_BLOCK,
            order,
            kept=kept,
            counts=self._kept(kept),
            source=self._table.name,
            where=_BLOCK_WHERE.format(where=where),
            offset=_BLOCK_OFFSET,
        )

    def _page(self, template: str, order: Order, **terms: str) -> str:
        usual = {"walk": order.clause(), "offset": ":offset"}
        return template.format(
            columns=self._table.of("item"),
            table=self._table.name,
            item_order=order.clause("item."),
            **{**usual, **terms},
        )

    @lru_cache(maxsize=64)  # noqa: B019 - a listing lives as long as the process
    def _kept(self, kept: str) -> str:
        return kept_total(self._table.name, kept, self._db.engine)

    def _items(self, rows: list[Row]) -> list[R]:
        """The items after total and version; an empty page is one row whose id is NULL."""
        return self._table.read_all(row[2:] for row in rows if row[2] is not None)


def remember(known: dict[object, T], filters: object, fact: T, most: int = CACHED_TOTALS) -> None:
    """Caches a fact about one list; drops all facts if there are too many."""
    if filters not in known and len(known) >= most:
        known.clear()
    known[filters] = fact


def counted_page(rows: list[Row], read: Callable[[Row], T]) -> Page[T]:
    """A page of rows whose first column is the total; the total is 0 past the last page."""
    return Page([read(row[1:]) for row in rows], rows[0][0] if rows else 0)


def page_of_matches(matching: str, page: str, order: str, *, is_slow: bool) -> str:
    """The SELECT of a page of rows with the total in the first column. `matching` is the SELECT of
    the matching ids and of what they are ordered by. `page` is the end of a SELECT, from its
    columns on, of the rows whose ids are in the table `page`.

    The matches are found twice, or once with their ids kept if finding them `is_slow`. The window
    function `count(*) OVER ()` would keep whole rows.
    """
    kept = "MATERIALIZED" if is_slow else "NOT MATERIALIZED"
    return f"""
WITH matching AS {kept} ({matching}),
page AS (SELECT id FROM matching ORDER BY {order} LIMIT :limit OFFSET :offset)
SELECT (SELECT count(*) FROM matching) AS total, {page}"""
