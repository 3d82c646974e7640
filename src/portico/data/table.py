"""A table by its record: its columns, their order, and the statements that follow from them.

A record is a struct whose fields are the columns. A `Table` declares the rest: which values are
stored in another form, and which columns are written but never read. All other statements are
literal SQL next to the method that runs them, and take their columns from here.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from itertools import starmap
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from portico.core.ids import MAX_ID
from portico.core.oauth import spelled
from portico.data.database import (
    LOCKED,
    NOTHING,
    Database,
    Dependency,
    Engine,
    Params,
    Reader,
    Row,
    Transaction,
)

AT_ONCE = 500
"""How many rows of a whole table are read at a time: records are made on the event loop, in one or
two milliseconds."""

R = TypeVar("R", bound=msgspec.Struct)
Read = Callable[[Row], R]
ReadAll = Callable[[Iterable[Row]], list[R]]


class ColumnForm(NamedTuple):
    """How a column stores a value for which an engine has no type."""

    store: Callable[[Any], object]
    load: Callable[[Any], Any] | None = None
    """None if the stored form is used as it is."""


BOOLEAN = ColumnForm(int)
"""Read as 0 or 1 from SQLite, which saves a call per row in what every request reads."""
LOADED_BOOLEAN = ColumnForm(int, bool)
SCOPES = ColumnForm(spelled, lambda text: frozenset(text.split()))
WORDS = ColumnForm(" ".join, lambda text: tuple(text.split()))


def json_form(shape: Any) -> ColumnForm:
    """A value of this shape as JSON text."""
    decoder = msgspec.json.Decoder(shape)
    return ColumnForm(lambda value: msgspec.json.encode(value).decode(), decoder.decode)


class Table(Generic[R]):
    """A table whose rows are records of one kind.

    `read` makes a record from a row of `columns`, `read_all` a list of records from many.
    """

    def __init__(
        self,
        name: str,
        record: type[R],
        *,
        forms: Mapping[str, ColumnForm] | None = None,
        keys: Mapping[str, Callable[[R], object]] | None = None,
        secrets: Collection[str] = (),
        fixed: Collection[str] = (),
        unread: Collection[str] = (),
    ) -> None:
        """`forms` are the columns that store another form of their value. Two kinds of columns are
        written besides the record's own: `keys`, computed from the record, and `secrets`, passed
        with it, such as digests. `fixed` columns are never updated, and neither is `id`, which the
        database assigns. `unread` are fields at the record's end, with a default, that are left
        out.
        """
        self.name = name
        self.names = tuple(field for field in record.__struct_fields__ if field not in unread)
        self.columns = ", ".join(self.names)
        self._forms = forms or {}
        self._keys = keys or {}
        written = [column for column in (*self.names, *self._keys) if column != "id"]
        changing = [f"{column} = :{column}" for column in written if column not in fixed]
        self.written = (*written, *secrets)
        """Every column that an insertion sets."""
        self.insert = (
            f"INSERT INTO {name} ({', '.join(self.written)}) VALUES"
            f" ({', '.join(f':{column}' for column in self.written)}) RETURNING {self.columns}"
        )
        """Stores the `values` of a record and its secrets; returns the row with its id."""
        self.update = f"UPDATE {name} SET {', '.join(changing)} WHERE id = :id"
        """Stores the `values` of a record again, except for fixed columns."""
        self.by_id = f"SELECT {self.columns} FROM {name} WHERE id = :id"
        self.by_ids = f"SELECT {self.columns} FROM {name} WHERE id = ANY($1)"
        """For `Database.row`."""
        self.delete = f"DELETE FROM {name} WHERE id = :id"
        loads = [
            (self.names.index(column), form.load)
            for column, form in self._forms.items()
            if form.load
        ]
        self.read, self.read_all = _readers(record, loads)

    def dependency(self, *row_id: int) -> Dependency:
        """A row, or the table if no id is given, as a part that has its own version."""
        return (self.name, *row_id)

    def of(self, alias: str) -> str:
        """The columns of the table, under this alias."""
        return ", ".join(f"{alias}.{name}" for name in self.names)

    async def get(self, db: Database, row_id: int, tx: Transaction | None = None) -> R | None:
        """The record with this id, if any. With `tx` its row is locked until the transaction
        ends."""
        return await self.one(db, self.by_id, {"id": row_id}, tx)

    async def one(
        self, db: Database, sql: str, params: Params, tx: Transaction | None = None
    ) -> R | None:
        """The record that a statement finds, if any. With `tx` its row is locked until the
        transaction ends."""
        if tx is None:
            row = await db.one(sql, params)
        else:
            row = await tx.one(sql + LOCKED[db.engine], params)
        return self.read(row) if row else None

    async def batches(
        self,
        reader: Reader,
        where: str,
        params: Params = NOTHING,
        *,
        user_id: int | None = None,
        newest_first: bool = False,
    ) -> AsyncIterator[list[R]]:
        """Every record for which `where` holds, or those of one user, by id, in batches. Each is a
        short read of its own, so what is written meanwhile may be missing."""
        way, order, last = ("<", " DESC", MAX_ID) if newest_first else (">", "", 0)
        if user_id is not None:
            where, params = f"{where} AND user_id = :user_id", {**params, "user_id": user_id}
        sql = (
            f"SELECT {self.columns} FROM {self.name}"
            f" WHERE id {way} :last AND {where} ORDER BY id{order} LIMIT {AT_ONCE}"
        )
        while rows := await reader.all(sql, {**params, "last": last}):
            yield self.read_all(rows)
            last = rows[-1][self.names.index("id")]

    async def add(self, tx: Transaction, record: R, **secrets: object) -> R:
        """Inserts a record, ignoring its `id`; returns it with the assigned id. Raises
        `UniqueViolation`."""
        row = await tx.one(self.insert, {**self.values(record), **secrets})
        return self.read(row)  # type: ignore[arg-type]  # INSERT … RETURNING always has a row

    def values(self, record: R) -> dict[str, object]:
        """The stored values of a record by column."""
        values: dict[str, object] = {name: getattr(record, name) for name in self.names}
        for name, form in self._forms.items():
            values[name] = form.store(values[name])
        for name, key in self._keys.items():
            values[name] = key(record)
        return values


def move_forward(table: str, column: str, earlier: str) -> dict[Engine, str]:
    """The statement that sets a row's time to `:at` if the condition `earlier` holds. On PostgreSQL
    it skips locked rows: a transaction that holds one may be waiting for another that this one
    holds."""
    update, own = f"UPDATE {table} SET {column} = :at", f"WHERE id = :id AND {earlier}"
    unlocked = f"SELECT id FROM {table} {own} FOR UPDATE SKIP LOCKED"
    return {"sqlite": f"{update} {own}", "postgres": f"{update} WHERE id = ({unlocked})"}


def cuts(*tables: Table[Any]) -> Iterator[slice]:
    """The slice of each table's columns in a row that has the columns of all tables in order."""
    start = 0
    for table in tables:
        end = start + len(table.names)
        yield slice(start, end)
        start = end


def _readers(
    record: type[R], loads: list[tuple[int, Callable[[Any], Any]]]
) -> tuple[Read[R], ReadAll[R]]:
    """The functions that make records from rows; the fast ones if no column must be loaded."""
    if not loads:
        return lambda row: record(*row), lambda rows: list(starmap(record, rows))

    def read(row: Row) -> R:
        values = [*row]
        for place, load in loads:
            values[place] = load(values[place])
        return record(*values)

    return read, lambda rows: list(map(read, rows))


BATCH = 200
"""Rows removed at a time: 1.5 ms on SQLite's event loop for the widest rows."""

_IS_DUE = "EXISTS (SELECT 1 FROM {table} WHERE {age} < :{table})"
# PostgreSQL: a row that another transaction has locked is in use, or is removed the next time.
_FORGET: dict[Engine, str] = {
    "sqlite": """
DELETE FROM {table} WHERE ({key}) IN (
    SELECT {key} FROM {table} WHERE {age} >= :after AND {age} < :before
    ORDER BY {age} LIMIT :limit)
RETURNING {age}""",
    "postgres": """
DELETE FROM {table} WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM {table} WHERE {age} >= :after AND {age} < :before
    ORDER BY {age} LIMIT :limit FOR UPDATE SKIP LOCKED))
RETURNING {age}""",
}


class Aging(Enum):
    """The tables whose rows are removed by age: name, column of the age, which has an index, and
    the primary key on SQLite if it is not the rowid."""

    SESSIONS = ("sessions", "expires_at")
    # Before the grants: removing a grant removes its tokens too, and so few are left.
    TOKENS = ("tokens", "refresh_expires_at")
    CODES = ("authorization_codes", "expires_at", "code_hash")
    DEVICE_CODES = ("device_codes", "expires_at", "code_hash")
    GRANTS = ("grants", "expires_at")
    CHALLENGES = ("challenges", "expires_at", "token_hash")
    USED_CHALLENGES = ("used_challenges", "expires_at", "challenge_hash")
    PENDING_SIGN_INS = ("pending_sign_ins", "expires_at", "token_hash")
    PROVIDER_VISITS = ("provider_visits", "expires_at", "token_hash")
    EMAIL_TOKENS = ("email_tokens", "expires_at", "token_hash")
    INVITATIONS = ("invitations", "expires_at")
    SHOWN_ONCE = ("shown_once", "expires_at", "token_hash")
    KNOWN_ADDRESSES = ("known_addresses", "last_at", "user_id, address")
    KNOWN_DEVICES = ("known_devices", "last_at", "user_id, token_hash")
    IDEMPOTENCY_KEYS = ("idempotency_keys", "created_at")
    REQUEST_HOURS = ("request_hours", "hour", "user_id, hour, route, status, key_id")
    REQUEST_DAYS = ("request_days", "day", "user_id, day, route, status, key_id")
    FAILED_REQUESTS = ("failed_requests", "at", "user_id, at, request_id")
    RATE_COUNTERS = ("rate_counters", "day", "caller")
    FLUSHES = ("flushes", "at", "writer")
    UPLOADS = ("uploads", "created_at")
    LEASES = ("leases", "until", "name")

    def __init__(self, table: str, age: str, key: str = "rowid") -> None:
        self.terms = {"table": table, "age": age, "key": key}

    def forgetting(self, engine: Engine) -> str:
        """The statement that removes the `:limit` oldest of the rows older than `:before` whose age
        is `:after` or later, and returns their ages."""
        return _FORGET[engine].format(**self.terms)


_FIRST = """
SELECT id, {age} FROM {table} WHERE id > :after ORDER BY id LIMIT :limit"""


async def last_expired(
    reader: Reader, table: str, age: str, before: int, *, after: int = 0, limit: int = BATCH
) -> int:
    """The id up to which all rows of a table after the id `after` are older than `before`, or 0;
    looks at `limit` rows at most. For tables whose ids are in the order of age, which need no index
    by age."""
    up_to = 0
    values = {"after": after, "limit": limit}
    for row in await reader.all(_FIRST.format(table=table, age=age), values):
        if row[1] >= before:
            break
        up_to = row[0]
    return up_to


class Expiry:
    """Removes old rows of one environment."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def due(self, bounds: Mapping[Aging, int]) -> list[Aging]:
        """The kinds that have rows older than their bound, which is in the unit of their column."""
        each = ", ".join(_IS_DUE.format(**kind.terms) for kind in bounds)
        values = {kind.terms["table"]: before for kind, before in bounds.items()}
        row = await self._db.one(f"SELECT {each}", values) or ()
        return [kind for kind, is_due in zip(bounds, row, strict=True) if is_due]

    async def forget(self, tx: Transaction, kind: Aging, before: int, after: int = 0) -> int | None:
        """Removes a batch of the rows older than `before`. Returns with which `after` to remove the
        next one, or None if there are no more."""
        values = {"after": after, "before": before, "limit": BATCH}
        ages = [row[0] for row in await tx.all(kind.forgetting(self._db.engine), values)]
        return max(ages) if len(ages) == BATCH else None


DELETE_BATCH = 20_000
"""The most rows that one statement of PostgreSQL writes."""

ROWS_AT_ONCE: dict[Engine, int] = {"sqlite": BATCH, "postgres": DELETE_BATCH}


async def in_batches(
    tx: Transaction, engine: Engine, sql: str, params: Params, *, most: int = DELETE_BATCH
) -> AsyncIterator[list[int]]:
    """Runs a statement that writes up to `:limit` rows above the id `:after`, the lowest ids first,
    and returns their ids, until none is left. Yields the ids of each batch. `most` is the most rows
    of a batch, for rows with which many others go."""
    limit, after = min(ROWS_AT_ONCE[engine], most), 0
    while True:
        rows = await tx.all(sql, {**params, "after": after, "limit": limit})
        ids = [row[0] for row in rows]
        yield ids
        if len(ids) < limit:
            return
        after = max(ids)
        await asyncio.sleep(0)


async def delete_in_batches(
    tx: Transaction, engine: Engine, table: str, key: str, where: str, params: Params
) -> None:
    """Deletes the rows of a table for which a condition holds, by the columns of its primary
    key."""
    limit = ROWS_AT_ONCE[engine]
    sql = f"""
DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} WHERE {where} LIMIT :limit)
RETURNING 1"""
    while True:
        if len(await tx.all(sql, {**params, "limit": limit})) < limit:
            return
        await asyncio.sleep(0)


_TOKENS = """
SELECT t.id, g.id FROM grants AS g JOIN tokens AS t ON t.grant_id = g.id
WHERE g.{column} = :owner AND g.id >= :from ORDER BY g.id LIMIT 1000"""


async def delete_grants(tx: Transaction, engine: Engine, column: str, owner: int) -> None:
    """Deletes the grants of one user or client, whose id is in `column`, with their tokens."""
    if engine == "sqlite":  # one grant may have very many tokens
        begin = 0
        tokens = _TOKENS.format(column=column)
        while rows := await tx.all(tokens, {"owner": owner, "from": begin}):
            await tx.run_many("DELETE FROM tokens WHERE id = :id", [{"id": row[0]} for row in rows])
            begin = rows[-1][1]
    await delete_in_batches(tx, engine, "grants", "id", f"{column} = :owner", {"owner": owner})
