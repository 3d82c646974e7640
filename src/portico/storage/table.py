"""A table by its record: its columns, their order, and the statements that follow from them.

A record is a struct whose fields are the columns. A `Table` declares the rest: which values are
stored in another form, and which columns are written but never read. All other statements are
literal SQL next to the method that runs them, and take their columns from here.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping
from itertools import starmap
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from portico.domain.ids import MAX_ID
from portico.domain.oauth import spelled
from portico.storage.database import (
    LOCKED,
    NOTHING,
    Database,
    Engine,
    Params,
    Reader,
    Row,
    Transaction,
)
from portico.storage.parts import Part

AT_ONCE = 500
"""How many rows of a whole table are read at a time: records are made on the event loop, in one or
two milliseconds."""

R = TypeVar("R", bound=msgspec.Struct)
Read = Callable[[Row], R]
ReadAll = Callable[[Iterable[Row]], list[R]]


class Form(NamedTuple):
    """How a column stores a value for which an engine has no type."""

    store: Callable[[Any], object]
    load: Callable[[Any], Any] | None = None
    """None if the stored form is used as it is."""


BOOLEAN = Form(int)
"""Read as 0 or 1 from SQLite, which saves a call per row in what every request reads."""
LOADED_BOOLEAN = Form(int, bool)
SCOPES = Form(spelled, lambda text: frozenset(text.split()))
WORDS = Form(" ".join, lambda text: tuple(text.split()))


def json_form(shape: Any) -> Form:
    """A value of this shape as JSON text."""
    decoder = msgspec.json.Decoder(shape)
    return Form(lambda value: msgspec.json.encode(value).decode(), decoder.decode)


class Table(Generic[R]):
    """A table whose rows are records of one kind.

    `read` makes a record from a row of `columns`, `read_all` a list of records from many.
    """

    def __init__(
        self,
        name: str,
        record: type[R],
        *,
        forms: Mapping[str, Form] | None = None,
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

    def part(self, *row_id: int) -> Part:
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
