"""Products: rows, lists and exports.

`Products` is at the end. The constants above it are its SQL; where the engines differ, they are
dictionaries by engine.
"""

from collections.abc import (
    AsyncIterator,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from itertools import chain
from typing import Any, get_type_hints

import msgspec

from portico.core.audit import Actor
from portico.core.text import case_key
from portico.data.database import (
    IN_ID_LIST,
    LOCKED,
    Database,
    Engine,
    Params,
    Rank,
    Signal,
    Transaction,
    id_list,
)
from portico.data.listing import BY_ID, Keyset, Order, Page
from portico.data.queue import Queue
from portico.data.search import query_words
from portico.data.table import DELETE_BATCH, LOADED_BOOLEAN, Table, json_form
from portico.features.catalogue.products import PRODUCTS as KIND
from portico.features.catalogue.products import ProductFilter, filter_of
from portico.features.catalogue.rules import (
    STATUSES,
    WAITING,
    Product,
    Upload,
)
from portico.resource.fields import Field
from portico.resource.file_rows import Rejected
from portico.resource.store import Records

PRODUCTS: Table[Product] = KIND.table
"""A whole product."""

EXPORT_BATCH = 1_000
EXPORT_BYTES = 256 * 1024
"""How many ids an export looks up at a time, and about how many bytes of products it reads at a
time."""

_NEWEST_FIRST = {
    indexed: Order("id", descending=True, indexed=indexed) for indexed in (False, True)
}

_TYPES = {
    name: "BIGINT" if kind is int else "TEXT" for name, kind in get_type_hints(Product).items()
}
_CHANGING = [name for name in PRODUCTS.names if name not in ("id", "created_at")]
# One statement for all rows, so that triggers run once; with executemany they would run per row.
_INSERT_ARRAYS = f"""
INSERT INTO products ({PRODUCTS.columns}) OVERRIDING SYSTEM VALUE SELECT * FROM unnest({
    ", ".join(f"CAST(:{name} AS {_TYPES[name]}[])" for name in PRODUCTS.names)
})"""
_UPDATE_ARRAYS = f"""
UPDATE products SET {", ".join(f"{name} = new.{name}" for name in _CHANGING)}
FROM (SELECT * FROM unnest({
    ", ".join(f"CAST(:{name} AS {_TYPES[name]}[])" for name in PRODUCTS.names)
}) AS given ({PRODUCTS.columns})) AS new WHERE products.id = new.id"""
_SEVERAL = {
    engine: f"SELECT {PRODUCTS.columns} FROM products WHERE id {among_them} ORDER BY id"
    for engine, among_them in IN_ID_LIST.items()
}
# SQLite has `octet_length` only since 3.43.
_BYTES: dict[Engine, str] = {
    "sqlite": "length(CAST({name} AS BLOB))",
    "postgres": "octet_length({name})",
}
_SIZE = {
    engine: " + ".join(size.format(name=name) for name in ("description", "images", "metadata"))
    for engine, size in _BYTES.items()
}
_SIZES = {
    engine: f"SELECT id, {_SIZE[engine]} FROM products WHERE id {among_them}"
    for engine, among_them in IN_ID_LIST.items()
}
_LAST_OF_BATCH = f"""
SELECT max(id) FROM
    (SELECT id FROM products WHERE id > :after ORDER BY id LIMIT {DELETE_BATCH}) AS batch"""
_DELETE_BATCH = "DELETE FROM products WHERE id > :after AND id <= :last"
# Steps from one category to the next in the index, without reading every product.
_CATEGORIES = f"""
WITH RECURSIVE known (status, category, nth) AS (
    SELECT status, (SELECT min(category) FROM products WHERE products.status = every.status), 1
    FROM ({" UNION ALL ".join(f"SELECT '{status}' AS status" for status in STATUSES)}) AS every
    UNION ALL
    SELECT status, (
        SELECT min(category) FROM products
        WHERE products.status = known.status AND products.category > known.category
    ), nth + 1 FROM known WHERE category IS NOT NULL AND nth < :most
)
SELECT DISTINCT category FROM known WHERE category IS NOT NULL ORDER BY category LIMIT :most"""


EVERY = ProductFilter(None)


class Products(Records):
    """The products of one environment."""

    def __init__(self, db: Database, count_limit: int | None = None) -> None:
        """`count_limit` is the most products to count for a filter or a search; None counts all."""
        super().__init__(db, KIND, count_limit)

    async def listed(self, query: Any, offset: int, behind: Keyset | None) -> Page[Product]:
        words = query_words(query.search) if query.search else []
        return await self.page(
            filter_of(query), words=words, offset=offset, limit=query.limit, behind=behind
        )

    async def several(
        self, ids: Collection[int], tx: Transaction | None = None
    ) -> dict[int, Product]:
        """The products with these ids that exist, by id. With `tx` they are locked until the
        transaction ends. For thousands at a time."""
        if not ids:
            return {}
        engine = self._db.engine
        params = id_list(engine, ids)
        if tx is None:
            rows = await self._db.slow.all(_SEVERAL[engine], params)
        else:
            rows = await tx.all(_SEVERAL[engine] + LOCKED[engine], params)
        return {product.id: product for product in PRODUCTS.read_all(rows)}

    async def sizes(self, ids: Collection[int]) -> dict[int, int]:
        """The approximate size in bytes of each product with these ids that exists, by id. Does not
        load the products into memory."""
        if not ids:
            return {}
        engine = self._db.engine
        rows = await self._db.replica.slow.all(_SIZES[engine], id_list(engine, ids))
        return {row[0]: row[1] for row in rows}

    async def page(
        self,
        chosen: ProductFilter,
        *,
        words: list[str],
        offset: int,
        limit: int,
        behind: Keyset | None = None,
    ) -> Page[Product]:
        """One page, newest first, or most relevant first if `words` (`data.search`) are given.
        It begins `behind` a keyset if given, else after `offset` rows.

        Its products have no images and metadata.
        """
        where, params = chosen.sql()
        if words:
            # Every indexed word contains the status, so a filter by status reads no products.
            further = None if chosen.by_status_alone else where
            return await self._search.page(
                words, chosen.status, further, params, offset=offset, limit=limit, behind=behind
            )
        every = "TRUE" if chosen.status is None else "key = :status"
        kept = every if chosen.by_status_alone else None
        order = _NEWEST_FIRST[chosen.is_indexed]
        return await self._listing.page(
            where, params, order=order, offset=offset, limit=limit, behind=behind, kept=kept
        )

    async def known(self, _field: Field, most: int) -> Sequence[str]:
        """All categories in case-insensitive order; if there are more than `most`, the first ones
        in the engine's own order."""
        rows = await self._db.replica.all(_CATEGORIES, {"most": most})
        return sorted((row[0] for row in rows), key=lambda name: (case_key(name), name))

    async def batches(  # type: ignore[override]  # its lists are by filters of its own
        self, chosen: ProductFilter = EVERY, words: Sequence[str] = ()
    ) -> AsyncIterator[list[Product]]:
        """The products of a list, oldest first, in batches of about `EXPORT_BYTES`."""
        after = 0
        while ids := await self._ids_after(after, chosen, list(words)):
            sizes = await self.sizes(ids)
            for some in _split(ids, sizes):
                if batch := await self._still(some, chosen):
                    yield batch
            after = ids[-1]

    async def matching(self, query: Any) -> AsyncIterator[list[Product]]:
        async for batch in self.batches(filter_of(query), query_words(query.search)):
            yield batch

    async def _ids_after(self, after: int, chosen: ProductFilter, words: list[str]) -> list[int]:
        """The next `EXPORT_BATCH` ids of a list after this one, ascending."""
        where, params = chosen.sql()
        params = {**params, "after": after, "limit": EXPORT_BATCH}
        if words:
            further = None if chosen.by_status_alone else where
            return await self._search.ids_after(words, chosen.status, further, params)
        by_id = "" if chosen.by_status_alone else BY_ID[self._db.engine]
        rows = await self._db.replica.slow.all(
            f"SELECT id FROM products{by_id} WHERE {where} AND id > :after"
            " ORDER BY id LIMIT :limit",
            params,
        )
        return [row[0] for row in rows]

    async def _still(self, ids: Sequence[int], chosen: ProductFilter) -> list[Product]:
        """The products with these ids that are still in the list, ordered by id."""
        where, params = chosen.sql()
        engine = self._db.engine
        rows = await self._db.replica.slow.all(
            f"SELECT {PRODUCTS.columns} FROM products{BY_ID[engine]}"
            f" WHERE id {IN_ID_LIST[engine]} AND {where} ORDER BY id",
            {**params, **id_list(engine, ids)},
        )
        return PRODUCTS.read_all(rows)

    async def insert_many(self, tx: Transaction, products: Sequence[Product]) -> Sequence[int]:
        """Stores new products in this order, ignoring their ids; returns the assigned ids. For
        thousands at a time."""
        self._depend(tx, products)
        ids = await tx.next_ids("products", len(products))
        rows = (
            PRODUCTS.values(product) | {"id": new}
            for new, product in zip(ids, products, strict=True)
        )
        if self._db.engine == "sqlite":
            await tx.run_many(self._insert, rows)
        else:
            await tx.run(_INSERT_ARRAYS, _arrays([*rows]))
        await self._search.add_many(tx, ids, products)
        return ids

    async def update_many(self, tx: Transaction, pairs: Sequence[tuple[Product, Product]]) -> None:
        """As `update`, for pairs of `before` and `after`. For thousands at a time."""
        self._depend(tx, chain.from_iterable(pairs))
        rows = (PRODUCTS.values(after) for _, after in pairs)
        if self._db.engine == "sqlite":
            await tx.run_many(PRODUCTS.update, rows)
        else:
            await tx.run(_UPDATE_ARRAYS, _arrays([*rows]))
        reworded = [after for before, after in pairs if KIND.texts(after) != KIND.texts(before)]
        ids = [product.id for product in reworded]
        await self._search.remove_many(tx, ids)
        await self._search.add_many(tx, ids, reworded)

    def _depend(self, tx: Transaction, products: Iterable[Product]) -> None:
        """Declares a change of all lists that can show one of these products."""
        tx.invalidate(*{part for product in products for part in KIND.depended(product)})

    async def delete_all(self, tx: Transaction) -> None:
        """Deletes every product."""
        tx.invalidate_all()
        await self._search.remove_all(tx)
        after = 0
        while last := (await tx.all(_LAST_OF_BATCH, {"after": after}))[0][0]:
            await tx.run(_DELETE_BATCH, {"after": after, "last": last})
            after = last


def _split(ids: Sequence[int], sizes: Mapping[int, int]) -> Iterator[list[int]]:
    """Splits ids into lists whose products take at most `EXPORT_BYTES`, or have only one product
    that is larger."""
    part: list[int] = []
    size = 0
    for product_id in ids:
        size += sizes.get(product_id, 0)
        if part and size > EXPORT_BYTES:
            yield part
            part, size = [], sizes.get(product_id, 0)
        part.append(product_id)
    yield part


def _arrays(rows: Sequence[Params]) -> Params:
    """The values of rows by column: the array parameters of PostgreSQL's statements for many
    rows."""
    return {name: [row[name] for row in rows] for name in PRODUCTS.names}


UPLOADS = Table(
    "uploads",
    Upload,
    forms={"actor": json_form(Actor), "updates": LOADED_BOOLEAN},
    fixed=("token", "account_id", "actor", "name", "updates", "size"),
)

_LATEST = f"""
SELECT {UPLOADS.columns} FROM uploads WHERE account_id = :account_id
ORDER BY CASE WHEN state IN ({", ".join(f"'{state}'" for state in WAITING)}) THEN 0 ELSE 1 END,
    id DESC
LIMIT :limit"""
_ALL = f"SELECT {UPLOADS.columns} FROM uploads ORDER BY id"
_UNDER_WAY = "state IN ('checking', 'storing')"
_OTHER = f"SELECT 1 FROM uploads WHERE {_UNDER_WAY} AND seen_at > :since AND id <> :id LIMIT 1"
_MOVE = f"{UPLOADS.update} AND state = :state_before AND line = :line_before RETURNING id"
_REPORT = "SELECT rejected FROM uploads WHERE id = :id"
_TELL = "UPDATE uploads SET rejected = :rejected WHERE id = :id"

_REJECTED = json_form(list[Rejected])


class Uploads:
    """The uploaded files of one environment."""

    rank = Rank.REST

    def __init__(self, db: Database) -> None:
        self._db = db
        self.queue = Queue(db, UPLOADS, due="seen_at", pending=_UNDER_WAY, channel="id = :id_{n}")
        """Each file is a channel. A claim ends `SILENT` after the time of `seen_at`."""
        self.signal = Signal()
        """Rings when a file waits to be checked or stored."""

    async def get(self, upload_id: int, tx: Transaction | None = None) -> Upload | None:
        """The file with this id, if any. With `tx` it is locked until the transaction ends."""
        return await UPLOADS.get(self._db, upload_id, tx)

    async def latest(self, account_id: int, limit: int) -> list[Upload]:
        """The latest files of an account: waiting ones first, then newest first."""
        values = {"account_id": account_id, "limit": limit}
        return UPLOADS.read_all(await self._db.all(_LATEST, values))

    async def all(self) -> list[Upload]:
        """Every file, oldest first. There are few, since each is removed after a day."""
        return UPLOADS.read_all(await self._db.all(_ALL))

    async def other_at_work(self, upload_id: int, since: int) -> bool:
        """Whether another file is being processed, with progress since then."""
        return await self._db.one(_OTHER, {"id": upload_id, "since": since}) is not None

    async def add(self, tx: Transaction, upload: Upload) -> Upload:
        """Stores a new file, ignoring its `id`; returns it with the assigned id."""
        return await UPLOADS.add(tx, upload)

    async def move(self, tx: Transaction, before: Upload, after: Upload) -> bool:
        """Stores a file's progress; False if it is no longer as in `before`, since another process
        has taken it over."""
        values = UPLOADS.values(after)
        known = {"state_before": before.state, "line_before": before.line}
        return await tx.one(_MOVE, {**values, **known}) is not None

    async def rejected(self, upload_id: int) -> list[Rejected]:
        """The rejected rows that are reported."""
        row = await self._db.one(_REPORT, {"id": upload_id})
        return msgspec.json.decode(row[0], type=list[Rejected]) if row else []

    async def report(self, tx: Transaction, upload_id: int, rejected: list[Rejected]) -> None:
        """Stores the rejected rows to report."""
        await tx.run(_TELL, {"id": upload_id, "rejected": _REJECTED.store(rejected)})

    async def delete(self, tx: Transaction, upload_id: int) -> None:
        """Deletes the row of a file."""
        await tx.run(UPLOADS.delete, {"id": upload_id})
