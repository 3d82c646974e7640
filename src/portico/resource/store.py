"""The records of one kind in one environment: rows, lists and references to them."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from portico.change import Change
from portico.core.times import DAY
from portico.data.database import (
    LOCKED,
    NOTHING,
    Database,
    Engine,
    Params,
    Rank,
    Transaction,
    keep_unwritten,
)
from portico.data.listing import Keyset, Listing, Order, Page
from portico.data.search import query_words
from portico.resource.compiled import Compiled
from portico.resource.fields import Field
from portico.resource.search import WordSearch

_SHARED: dict[Engine, str] = {"sqlite": "", "postgres": " FOR SHARE"}
"""Appended to a SELECT: its rows can then be neither changed nor deleted by another transaction."""

_OVERRIDING: dict[Engine, str] = {"sqlite": "", "postgres": " OVERRIDING SYSTEM VALUE"}


# Steps from one value to the next in the index, without reading every row.
_KNOWN = """
WITH RECURSIVE known (value, nth) AS (
    SELECT min({name}), 1 FROM {table}
    UNION ALL
    SELECT (SELECT min({name}) FROM {table} WHERE {name} > known.value), nth + 1
    FROM known WHERE value IS NOT NULL AND nth < :most
)
SELECT value FROM known WHERE value IS NOT NULL"""


class Records:
    """The records of a kind."""

    rank = Rank.REST

    def __init__(self, db: Database, kind: Compiled, count_limit: int | None) -> None:
        """`count_limit` is the most records to count for a filter; None counts all."""
        self._db = db
        self.kind = kind
        self._table = table = kind.table
        self._listing = Listing(db.replica, kind.listing, in_blocks=True, count_limit=count_limit)
        self._search = WordSearch(kind.indexed, db.replica, kind.listing, count_limit)
        self._by_id_locked = table.by_id + LOCKED[db.engine]
        columns = ("id", *table.written)
        self._insert = (
            f"INSERT INTO {table.name} ({', '.join(columns)}){_OVERRIDING[db.engine]}"
            f" VALUES ({', '.join(f':{name}' for name in columns)})"
        )
        self._orders = {
            (name, way): Order(place, descending=way == "desc", indexed=False)
            for name, place in kind.orders.items()
            for way in ("asc", "desc")
        }

    async def get(self, row_id: int, tx: Transaction | None = None) -> Any:
        """The row with this id, or None. With `tx` it is locked until the transaction ends."""
        if tx is None:
            row = await self._db.row(self._table, row_id)
        else:
            row = await tx.one(self._by_id_locked, {"id": row_id})
        return self._table.read(row) if row else None

    async def listed(self, query: Any, offset: int, behind: Keyset | None) -> Page[Any]:
        """One page of a list, as its query says."""
        where, params = self.kind.condition(query)
        if self.kind.searched and query.search and (words := query_words(query.search)):
            further = None if where == "TRUE" else where
            return await self._search.page(
                words, None, further, params, offset=offset, limit=query.limit, behind=behind
            )
        return await self._listing.page(
            where,
            params,
            order=self._orders[query.sort, query.order],
            offset=offset,
            limit=query.limit,
            behind=behind,
            kept="TRUE" if where == "TRUE" else None,
        )

    async def insert(self, tx: Transaction, row: Any) -> Any:
        """Stores a new row, ignoring its id; returns it with the assigned one. Raises
        `UniqueViolation`, perhaps not before the commit."""
        tx.invalidate(*self.kind.depended(row))
        [new] = await tx.next_ids(self._table.name, 1)
        stored = msgspec.structs.replace(row, id=new)
        await tx.conclude(self._insert, self._table.values(stored))
        if self.kind.searched:
            await self._search.add(tx, stored)
        return stored

    async def update(self, tx: Transaction, before: Any, after: Any) -> None:
        """Stores a row again. `before` is what is stored. Raises as `insert`."""
        tx.invalidate(*self.kind.depended(before), *self.kind.depended(after))
        await tx.conclude(self._table.update, self._table.values(after))
        if self.kind.searched and self.kind.texts(before) != self.kind.texts(after):
            await self._search.replace(tx, after)

    async def seen(self, change: Change, row_id: int) -> Any:
        """The row with this id, or None, as a rule reads it: locked until the change ends."""
        return await change.lock(self, row_id)

    async def delete(self, tx: Transaction, row: Any) -> None:
        """Deletes a row."""
        tx.invalidate(*self.kind.depended(row))
        if self.kind.searched:
            await self._search.remove(tx, row.id)
        await tx.run(self._table.delete, {"id": row.id})

    async def taken(self, row: Any, tx: Transaction | None = None) -> Field | None:
        """The unique field whose value another row has, if any."""
        reader = tx or self._db
        for field in self.kind.unique:
            name = self.kind.column(field.name)
            value = getattr(row, name)
            found = value is not None and await reader.one(
                f"SELECT id FROM {self._table.name} WHERE {name} = :value AND id <> :id",
                {"value": value, "id": row.id},
            )
            if found:
                return field
        return None

    async def delete_all(self, tx: Transaction) -> None:
        """Deletes every row."""
        tx.invalidate_all()
        if self.kind.searched:
            await self._search.remove_all(tx)
        await tx.run(f"DELETE FROM {self._table.name}", NOTHING)

    async def lock_all(self, tx: Transaction) -> None:
        """Prevents others from writing records until `tx` ends. Raises `Unavailable`."""
        await keep_unwritten(tx, self._db.engine, self._table.name)

    async def fill(self, tx: Transaction, now: int) -> int:
        """Stores the samples of the kind, a day apart, the last one of yesterday; returns how
        many."""
        samples = self.kind.samples()
        for age, values in zip(range(len(samples), 0, -1), samples, strict=True):
            await self.insert(tx, self.kind.new(values, now - age * DAY))
        return len(samples)

    async def known(self, field: Field, most: int) -> Sequence[str]:
        """The first different values of a field by which lists are filtered, by code point."""
        rows = await self._db.replica.all(
            _KNOWN.format(table=self._table.name, name=self.kind.column(field.name)), {"most": most}
        )
        return [row[0] for row in rows]

    async def referring(
        self, tx: Transaction, field: Field, to_id: int, limit: int
    ) -> Sequence[Any]:
        """The first rows whose reference `field` leads to this id, locked."""
        name, locked = self.kind.column(field.name), LOCKED[self._db.engine]
        rows = await tx.all(
            f"SELECT {self._table.columns} FROM {self._table.name}"
            f" WHERE {name} = :to ORDER BY id LIMIT :limit{locked}",
            {"to": to_id, "limit": limit},
        )
        return self._table.read_all(rows)

    async def batches(
        self, where: str = "TRUE", params: Params = NOTHING, *, newest_first: bool = False
    ) -> AsyncIterator[Any]:
        """The rows of a list, oldest or newest first, in batches."""
        slow = self._db.replica.slow
        async for batch in self._table.batches(slow, where, params, newest_first=newest_first):
            yield batch

    async def matching(self, query: Any) -> AsyncIterator[Any]:
        """The rows of a list, as its query says, oldest first, in batches."""
        where, params = self.kind.condition(query)
        words = query_words(query.search) if self.kind.searched else []
        if not words:
            async for batch in self.batches(where, params):
                yield batch
            return
        after, further = 0, None if where == "TRUE" else where
        while ids := await self._search.ids_after(
            words, None, further, {**params, "after": after, "limit": _AT_ONCE}
        ):
            found = [await self.get(row_id) for row_id in ids]
            yield [row for row in found if row is not None]
            after = ids[-1]


_AT_ONCE = 500
"""How many ids of a search are looked up at a time."""


async def exists(tx: Transaction, engine: Engine, table: str, row_id: int) -> bool:
    """Whether a table has a row with this id, which then stays until the transaction ends."""
    sql = f"SELECT id FROM {table} WHERE id = :id{_SHARED[engine]}"
    return await tx.one(sql, {"id": row_id}) is not None
