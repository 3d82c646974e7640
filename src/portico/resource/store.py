"""The records of one kind in one environment: rows, lists and references to them."""

from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from portico.change import Change
from portico.core.errors import Conflict
from portico.core.times import DAY
from portico.data.database import (
    IN_ID_LIST,
    LOCKED,
    NOTHING,
    Database,
    Engine,
    Params,
    Rank,
    Transaction,
    id_list,
    keep_unwritten,
)
from portico.data.listing import BY_ID, Keyset, Listing, Order, Page
from portico.data.search import query_words
from portico.data.table import DELETE_BATCH
from portico.resource.compiled import Compiled
from portico.resource.fields import Field, JsonField, TextField
from portico.resource.search import WordSearch

_SHARED: dict[Engine, str] = {"sqlite": "", "postgres": " FOR SHARE"}
"""Appended to a SELECT: its rows can then be neither changed nor deleted by another transaction."""

_OVERRIDING: dict[Engine, str] = {"sqlite": "", "postgres": " OVERRIDING SYSTEM VALUE"}

# SQLite has `octet_length` only since 3.43.
_BYTES: dict[Engine, str] = {
    "sqlite": "coalesce(length(CAST({name} AS BLOB)), 0)",
    "postgres": "coalesce(octet_length({name}), 0)",
}

EXPORT_BATCH = 1_000
EXPORT_BYTES = 256 * 1024
"""How many ids an export looks up at a time, and about how many bytes of records it reads at a
time."""

_LARGE = 1_000
"""Texts that may have more characters count for the size of a record."""

NO_TABLES: Mapping[str, str] = {}

_NTH = "SELECT id FROM {table} ORDER BY id LIMIT 1 OFFSET :before"

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
        self._listing = Listing(
            db.replica,
            kind.listing,
            in_blocks=True,
            count_limit=count_limit,
            id_ordered=kind.id_ordered,
        )
        self._search = WordSearch(kind.indexed, db.replica, kind.listing, count_limit)
        self._by_id_locked = table.by_id + LOCKED[db.engine]
        columns = ("id", *table.written)
        self._insert = (
            f"INSERT INTO {table.name} ({', '.join(columns)}){_OVERRIDING[db.engine]}"
            f" VALUES ({', '.join(f':{name}' for name in columns)})"
        )
        types = _types(kind)
        self._names = columns
        # One statement for all rows, so that triggers run once; with executemany they would run
        # per row.
        arrays = ", ".join(f"CAST(:{name} AS {types[name]}[])" for name in columns)
        self._insert_arrays = (
            f"INSERT INTO {table.name} ({', '.join(columns)}) OVERRIDING SYSTEM VALUE"
            f" SELECT * FROM unnest({arrays})"
        )
        changing = [name for name in columns if name not in ("id", "created_at")]
        self._update_arrays = (
            f"UPDATE {table.name} SET {', '.join(f'{name} = new.{name}' for name in changing)}"
            f" FROM (SELECT * FROM unnest({arrays}) AS given ({', '.join(columns)})) AS new"
            f" WHERE {table.name}.id = new.id"
        )
        self._several = (
            f"SELECT {table.columns} FROM {table.name} WHERE id {IN_ID_LIST[db.engine]} ORDER BY id"
        )
        large = [kind.column(field.name) for field in kind.fields if _is_large(field)]
        size = " + ".join(["1", *(_BYTES[db.engine].format(name=name) for name in large)])
        self._sizes = f"SELECT id, {size} FROM {table.name} WHERE id {IN_ID_LIST[db.engine]}"
        every = {field.name: kind.column(field.name) for field in kind.fields if field.sortable}
        self._orders = {
            (name, way): Order(
                place,
                descending=way == "desc",
                indexed=name in kind.orders,
                nulls=name not in kind.orders and kind.by_name[name].optional,
            )
            for name, place in (every | kind.orders).items()
            for way in ("asc", "desc")
        }

    async def get(self, row_id: int, tx: Transaction | None = None) -> Any:
        """The row with this id, or None. With `tx` it is locked until the transaction ends."""
        if tx is None:
            row = await self._db.row(self._table, row_id)
        else:
            row = await tx.one(self._by_id_locked, {"id": row_id})
        return self._table.read(row) if row else None

    async def listed(
        self,
        query: Any,
        offset: int,
        behind: Keyset | None,
        sort: tuple[str, str] | None = None,
    ) -> Page[Any]:
        """One page of a list, as its query says. With `sort`, a field and `asc` or `desc`, it is in
        that order instead, for which there may be no index."""
        where, params = self.kind.condition(query)
        if self.kind.searched and query.search and (words := query_words(query.search)):
            return await self._search.page(
                words,
                self.kind.mark(query),
                self._further(where),
                params,
                offset=offset,
                limit=query.limit,
                behind=behind,
                order=self._orders[sort] if sort else None,
            )
        return await self._listing.page(
            where,
            params,
            order=self._orders[sort or self.kind.sorted_by(query)],
            offset=offset,
            limit=query.limit,
            behind=behind,
            kept=self.kind.kept.get(where),
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

    def _further(self, where: str) -> str | None:
        """The condition of a search besides its words and their mark, if any."""
        return None if where in self.kind.kept else where

    async def several(self, ids: Collection[int], tx: Transaction | None = None) -> dict[int, Any]:
        """The rows with these ids that exist, by id. With `tx` they are locked until the
        transaction ends. For thousands at a time."""
        if not ids:
            return {}
        params = id_list(self._db.engine, ids)
        if tx is None:
            rows = await self._db.slow.all(self._several, params)
        else:
            rows = await tx.all(self._several + LOCKED[self._db.engine], params)
        return {row.id: row for row in self._table.read_all(rows)}

    async def sizes(self, ids: Collection[int]) -> dict[int, int]:
        """The approximate size in bytes of each row with these ids that exists, by id. Does not
        load the rows into memory."""
        if not ids:
            return {}
        rows = await self._db.replica.slow.all(self._sizes, id_list(self._db.engine, ids))
        return {row[0]: row[1] for row in rows}

    async def insert_many(self, tx: Transaction, rows: Sequence[Any]) -> Sequence[int]:
        """Stores new rows, ignoring their ids; returns the assigned ones, ascending. For thousands
        at a time. Raises as `insert`."""
        tx.invalidate(*{part for row in rows for part in self.kind.depended(row)})
        ids = await tx.next_ids(self._table.name, len(rows))
        values = (self._table.values(row) | {"id": new} for new, row in zip(ids, rows, strict=True))
        if self._db.engine == "sqlite":
            await tx.run_many(self._insert, values)
        else:
            await tx.run(self._insert_arrays, self._arrays([*values]))
        if self.kind.searched:
            await self._search.add_many(tx, ids, rows)
        return ids

    async def update_many(self, tx: Transaction, pairs: Sequence[tuple[Any, Any]]) -> None:
        """As `update`, for pairs of `before` and `after`. For thousands at a time."""
        tx.invalidate(*{part for pair in pairs for row in pair for part in self.kind.depended(row)})
        values = (self._table.values(after) for _, after in pairs)
        if self._db.engine == "sqlite":
            await tx.run_many(self._table.update, values)
        else:
            await tx.run(self._update_arrays, self._arrays([*values]))
        if self.kind.searched:
            texts = self.kind.texts
            reworded = [after for before, after in pairs if texts(after) != texts(before)]
            ids = [row.id for row in reworded]
            await self._search.remove_many(tx, ids)
            await self._search.add_many(tx, ids, reworded)

    def _arrays(self, rows: Sequence[Params]) -> Params:
        """The values of rows by column: the array parameters of PostgreSQL's statements for many
        rows."""
        return {name: [row[name] for row in rows] for name in self._names}

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
        table, after = self._table.name, 0
        batch = f"SELECT id FROM {table} WHERE id > :after ORDER BY id LIMIT {DELETE_BATCH}"
        last = f"SELECT max(id) FROM ({batch}) AS batch"
        while through := (await tx.all(last, {"after": after}))[0][0]:
            delete = f"DELETE FROM {table} WHERE id > :after AND id <= :last"
            await tx.run(delete, {"after": after, "last": through})
            after = through

    async def lock_all(self, tx: Transaction) -> None:
        """Prevents others from writing records until `tx` ends. Raises `Unavailable`."""
        await keep_unwritten(tx, self._db.engine, self._table.name)

    async def fill(self, tx: Transaction, now: int, tables: Mapping[str, str] = NO_TABLES) -> int:
        """Stores the samples of the kind, a day apart, the last one of yesterday; returns how
        many. A sample refers to the n-th record of a kind, whose table is in `tables`: ids are
        others after each reset. Raises `Conflict` if there are fewer."""
        samples = self.kind.sample_lines
        for age, (_, line) in zip(range(len(samples), 0, -1), samples, strict=True):
            values = self.kind.sample(line)
            for field in self.kind.references:
                if place := values.get(field.name):
                    found = await tx.one(_NTH.format(table=tables[field.to]), {"before": place - 1})
                    if found is None:
                        raise Conflict(
                            f"A sample of {self.kind.many} refers to number {place} of the"
                            f" {field.to}, and there are fewer; nothing was changed."
                        )
                    values[field.name] = found[0]
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

    def newest(self) -> AsyncIterator[list[Any]]:
        """Every row, newest first, in batches."""
        return self._table.batches(self._db.replica.slow, "TRUE", newest_first=True)

    def batches(self) -> AsyncIterator[list[Any]]:
        """Every row, oldest first, in batches of about `EXPORT_BYTES`."""
        return self._in_batches("TRUE", NOTHING, [], None)

    def matching(self, query: Any) -> AsyncIterator[list[Any]]:
        """The rows of a list, as its query says, oldest first, in batches."""
        where, params = self.kind.condition(query)
        words = query_words(query.search) if self.kind.searched else []
        return self._in_batches(where, params, words, self.kind.mark(query))

    async def _in_batches(
        self, where: str, params: Params, words: list[str], mark: str | None
    ) -> AsyncIterator[list[Any]]:
        table, engine, slow = self._table, self._db.engine, self._db.replica.slow
        further = self._further(where)
        by_id = "" if further is None else BY_ID[engine]
        ids_after = (
            f"SELECT id FROM {table.name}{by_id} WHERE {where} AND id > :after"
            " ORDER BY id LIMIT :limit"
        )
        still = (
            f"SELECT {table.columns} FROM {table.name}{BY_ID[engine]}"
            f" WHERE id {IN_ID_LIST[engine]} AND {where} ORDER BY id"
        )
        after = 0
        while True:
            values = {**params, "after": after, "limit": EXPORT_BATCH}
            if words:
                ids = await self._search.ids_after(words, mark, further, values)
            else:
                ids = [row[0] for row in await slow.all(ids_after, values)]
            if not ids:
                return
            for some in _split(ids, await self.sizes(ids)):
                rows = await slow.all(still, {**params, **id_list(engine, some)})
                if rows:
                    yield table.read_all(rows)
            after = ids[-1]


def _types(kind: Compiled) -> dict[str, str]:
    """The types of a kind's columns on PostgreSQL."""
    types = {kind.column(field.name): field.column for field in kind.fields}
    keys = {name: kind.by_name[name.removeprefix("s_")].column for name in kind.keys}
    return types | keys | dict.fromkeys(("id", "created_at", "updated_at"), "BIGINT")


def _is_large(field: Field) -> bool:
    return isinstance(field, JsonField) or (isinstance(field, TextField) and field.high > _LARGE)


def _split(ids: Sequence[int], sizes: Mapping[int, int]) -> Iterator[list[int]]:
    """Splits ids into lists whose rows take at most `EXPORT_BYTES`, or have only one row that is
    larger."""
    part: list[int] = []
    size = 0
    for row_id in ids:
        size += sizes.get(row_id, 0)
        if part and size > EXPORT_BYTES:
            yield part
            part, size = [], sizes.get(row_id, 0)
        part.append(row_id)
    yield part


async def exists(tx: Transaction, engine: Engine, table: str, row_id: int) -> bool:
    """Whether a table has a row with this id, which then stays until the transaction ends."""
    sql = f"SELECT id FROM {table} WHERE id = :id{_SHARED[engine]}"
    return await tx.one(sql, {"id": row_id}) is not None
