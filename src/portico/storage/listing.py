"""Pages of a list with an exact total, on either engine and at any depth.

The total comes from `list_counts` in the same statement, hence the same snapshot, as the rows.
Where a filter has no kept total, a counted one is cached against the list's version.
"""

from typing import Generic, TypeVar

import msgspec

from portico.storage.database import Database, Params, Reader, Row

T = TypeVar("T")

DEEP = 1_000
"""Rows to skip from which a page is read in a thread."""

CACHED_TOTALS = 1_000


class Page(msgspec.Struct, Generic[T], frozen=True):
    """`rows` of one page and the `total` of all pages."""

    rows: list[T]
    total: int


class Order(msgspec.Struct, frozen=True):
    """A sort by one column, ties broken by id in the same direction."""

    column: str
    descending: bool

    def clause(self, *, backwards: bool = False) -> str:
        """The ORDER BY terms, or their mirror image."""
        way = "DESC" if self.descending != backwards else "ASC"
        return f"{self.column} {way}" if self.column == "id" else f"{self.column} {way}, id {way}"


_KEPT = (
    "SELECT CAST(coalesce(sum({total}), 0) AS BIGINT) AS total,"
    " CAST(coalesce(sum(version), 0) AS BIGINT) AS version FROM list_counts WHERE list = '{table}'"
)

_PAGE = """
SELECT counts.total, counts.version, {columns}
FROM ({counts}) AS counts
LEFT JOIN (
    SELECT id FROM {table} WHERE {where} ORDER BY {order} LIMIT {limit} OFFSET {offset}
) AS page ON TRUE
LEFT JOIN {table} AS item ON item.id = page.id
ORDER BY {item_order}"""

# The mirror image of a page in the far half of a list, so that no page skips more than half of it.
_FAR_LIMIT = (
    "(SELECT CASE WHEN total <= :offset THEN 0 WHEN total - :offset < :limit"
    " THEN total - :offset ELSE :limit END FROM ({counts}) AS c)"
)
_FAR_OFFSET = (
    "(SELECT CASE WHEN total - :offset < :limit THEN 0"
    " ELSE total - :offset - :limit END FROM ({counts}) AS c)"
)


class Listing:
    """The pages of one table."""

    def __init__(self, db: Database, table: str, columns: str) -> None:
        """`columns` are the table's own names, separated by commas."""
        self._db = db
        self._table = table
        self._columns = ", ".join(f"item.{name.strip()}" for name in columns.split(","))
        self._totals: dict[object, tuple[int, int]] = {}
        self._last_total: dict[object, int] = {}
        self._statements: dict[object, str] = {}

    async def page(
        self,
        where: str,
        params: Params,
        *,
        order: Order,
        offset: int,
        limit: int,
        kept: str | None,
    ) -> Page[Row]:
        """One page of the rows for which `where` holds.

        `where` is SQL from a fixed set, its values in `params`. `kept` is the condition on
        `list_counts.key` whose sum is the total (`TRUE` for the whole table), or None where no
        total is kept for this filter.
        """
        filters = (where, *params.items())
        bounds = {**params, "limit": limit, "offset": offset}
        far = offset > DEEP and offset > self._last_total.get(filters, 0) // 2
        reader: Reader = self._db if kept and offset <= DEEP else self._db.slow
        if kept:
            rows = await reader.all(self._statement(where, order, kept, far=far), bounds)
            return self._result(filters, rows)
        rows = await reader.all(self._statement(where, order, "TRUE", far=False), bounds)
        known = self._totals.get(filters)
        if known is not None and known[0] == rows[0][1]:
            return Page(_items(rows), known[1])
        rows = await reader.all(self._statement(where, order, None, far=False), bounds)
        if len(self._totals) >= CACHED_TOTALS:
            self._totals.clear()
        self._totals[filters] = (rows[0][1], rows[0][0])
        return Page(_items(rows), rows[0][0])

    def _result(self, filters: object, rows: list[Row]) -> Page[Row]:
        if len(self._last_total) >= CACHED_TOTALS:
            self._last_total.clear()
        self._last_total[filters] = rows[0][0]
        return Page(_items(rows), rows[0][0])

    def _statement(self, where: str, order: Order, kept: str | None, *, far: bool) -> str:
        key = (where, order, kept, far)
        statement = self._statements.get(key)
        if statement is None:
            statement = self._statements[key] = self._build(where, order, kept, far=far)
        return statement

    def _build(self, where: str, order: Order, kept: str | None, *, far: bool) -> str:
        total = f"CASE WHEN {kept} THEN total END" if kept else "0"
        counts = _KEPT.format(total=total, table=self._table)
        if kept is None:
            counted = f"(SELECT count(*) FROM {self._table} WHERE {where}) AS total"
            counts = f"SELECT {counted}, k.version FROM ({counts}) AS k"
        item = Order(f"item.{order.column}", order.descending)
        return _PAGE.format(
            columns=self._columns,
            counts=counts,
            table=self._table,
            where=where,
            order=order.clause(backwards=far),
            limit=_FAR_LIMIT.format(counts=counts) if far else ":limit",
            offset=_FAR_OFFSET.format(counts=counts) if far else ":offset",
            item_order=item.clause().replace(", id", ", item.id"),
        )


def _items(rows: list[Row]) -> list[Row]:
    """The items behind total and version; an empty page is one row whose id is NULL."""
    return [row[2:] for row in rows] if rows[0][2] is not None else []
