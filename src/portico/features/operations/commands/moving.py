"""Copies a whole SQLite database into PostgreSQL, for an installation that has outgrown its
machine. Both engines have the same tables with the same columns."""

from collections.abc import Callable, Iterator, Mapping
from graphlib import TopologicalSorter
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import asyncpg

from portico.core.events import PING
from portico.data.database import Database, Engine, Row, Transaction
from portico.data.sqlite.files import FileError, reading
from portico.features.catalogue.products import PRODUCTS as KIND
from portico.features.catalogue.storage import PRODUCTS
from portico.features.events.audit import AuditRanges
from portico.resource.search import WordSearch

AT_ONCE = 500
"""How many rows one statement stores; some of them are large."""

MADE = {
    "schema_migrations",
    "list_counts",
    "list_blocks",
    "notices",
    "product_words",
    "leases",
}
"""Tables that are not copied: the target fills them itself, or does not need their rows. So it does
with the words of kinds."""

_COLUMNS = """
SELECT table_name, column_name, data_type FROM information_schema.columns
WHERE table_schema = current_schema() AND table_name NOT IN (
    SELECT relname FROM pg_class
    WHERE relispartition AND relnamespace = to_regnamespace(current_schema()))
ORDER BY table_name, ordinal_position"""
_REFERENCES = """
SELECT a.relname, b.relname FROM pg_constraint
JOIN pg_class AS a ON a.oid = conrelid JOIN pg_class AS b ON b.oid = confrelid
WHERE contype = 'f' AND connamespace = to_regnamespace(current_schema()) AND a.oid != b.oid"""
# Tables whose ids are not assigned by PostgreSQL, such as events, have no sequence.
_SET = """
SELECT setval(sequence, :seq) FROM pg_get_serial_sequence(
    format('%I.%I', current_schema(), CAST(:table AS TEXT)), 'id') AS sequence
WHERE sequence IS NOT NULL"""

Columns = Mapping[str, str]
"""The columns of a table, each with its PostgreSQL type."""


async def move(source: Path, target: Database, moved: Callable[[int], None]) -> None:
    """Copies all rows of `source` to `target`, which has the same migrations, the tables of the
    same kinds and no rows, and continues its ids. Calls `moved` with the number of rows after each
    step, for products once more as their words are indexed, which takes a third of the time.

    Raises `FileError` and `Unavailable`; rows stored before that stay.
    """
    tables = await _tables(target)
    with reading(source) as connection:
        await _make_hidden(connection, target, tables)
        for table in await _in_order(target, tables):
            columns = _shared(connection, table, tables[table])
            async with target.transaction() as tx:
                if table == "kinds":  # says what the source hides, too
                    await tx.script("DELETE FROM kinds")
                for rows in _batches(connection, table, columns):
                    await _store(tx, table, columns, rows)
                    moved(len(rows))
                await _go_on(connection, tx, table)
        await _index(connection, target, moved)


def size(source: Path) -> int:
    """About how many rows `move` copies and indexes. Raises `FileError`."""
    with reading(source) as connection:
        tables = [row[0] for row in connection.execute(_SQLITE_TABLES) if row[0] not in MADE]
        indexed = [table for table in tables if table == PRODUCTS.name]
        return sum(
            _first(connection, f"SELECT count(*) FROM {_quoted(table)}")
            for table in tables + indexed
        )


def _quoted(name: str) -> str:
    """A quoted name. The names come from the file, so they must not be run as SQL."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


_SQLITE_TABLES = """
SELECT name FROM pragma_table_list
WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%'"""
_KINDS = f"{_SQLITE_TABLES} AND name LIKE 'kind!_%' ESCAPE '!'"


async def _tables(target: Database) -> dict[str, dict[str, str]]:
    tables: dict[str, dict[str, str]] = {}
    for table, column, kind in await target.all(_COLUMNS):
        if table not in MADE and not table.endswith("__words"):
            tables.setdefault(table, {})[column] = kind
    return tables


async def _make_hidden(
    connection: apsw.Connection, target: Database, tables: dict[str, dict[str, str]]
) -> None:
    """Makes the columns of fields that no file declares any more, and are kept. Raises `FileError`
    for a kind that no file declares."""
    for (table,) in list(connection.execute(_KINDS)):
        if table not in tables:
            raise FileError(
                f"it holds {table.removeprefix('kind_').replace('_', '-')}, which no file of kinds"
                " declares here: give the file (PORTICO_KINDS), or drop it there first"
            )
        for row in list(connection.execute(f"PRAGMA table_info({_quoted(table)})")):
            if row[1] not in tables[table]:
                tables[table][row[1]] = kind = "text" if row[2] == "TEXT" else "bigint"
                async with target.transaction() as tx:
                    await tx.script(f"ALTER TABLE {table} ADD COLUMN {_quoted(row[1])} {kind}")


async def _in_order(target: Database, tables: Mapping[str, Columns]) -> list[str]:
    """The tables, each after those to which its rows refer."""
    needed: dict[str, set[str]] = {table: set() for table in tables}
    for table, other in await target.all(_REFERENCES):
        if table in needed:
            needed[table].add(other)
    return list(TopologicalSorter(needed).static_order())


def _shared(connection: apsw.Connection, table: str, columns: Columns) -> Columns:
    """The columns that both engines have: only PostgreSQL has `events.seq`."""
    known = {row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')}
    return {name: kind for name, kind in columns.items() if name in known}


def _batches(connection: apsw.Connection, table: str, columns: Columns) -> Iterator[list[Row]]:
    """The rows of a table, by `id` if it has one, so that events keep their order."""
    order = ' ORDER BY "id"' if "id" in columns else ""
    names = ", ".join(f'"{name}"' for name in columns)
    rows = connection.execute(f'SELECT {names} FROM "{table}"{order}')
    while batch := list(islice(rows, AT_ONCE)):
        yield batch


async def _store(tx: Transaction, table: str, columns: Columns, rows: list[Row]) -> None:
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join(f"CAST(:{name} AS {kind}[])" for name, kind in columns.items())
    sql = f'INSERT INTO "{table}" ({names}) OVERRIDING SYSTEM VALUE SELECT * FROM unnest({values})'
    try:
        await tx.run(sql, dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
    except asyncpg.PostgresError as error:
        reason = str(error).partition("\n")[0]
        raise FileError(f"PostgreSQL rejects a row of {table}: {reason}") from error


async def _go_on(connection: apsw.Connection, tx: Transaction, table: str) -> None:
    """Continues the ids of a table after those that SQLite has assigned."""
    given = _first(connection, "SELECT seq FROM sqlite_sequence WHERE name = ?", table)
    if given:
        await tx.all(_SET, {"table": table, "seq": int(given)})


async def _index(
    connection: apsw.Connection, target: Database, indexed: Callable[[int], None]
) -> None:
    """Indexes the words of all products, which each engine stores in its own form."""
    search = WordSearch(KIND.indexed, target, KIND.listing, None)
    names = ", ".join(f'"{name}"' for name in PRODUCTS.names)
    rows = connection.execute(f"SELECT {names} FROM products ORDER BY id")
    while batch := list(islice(rows, AT_ONCE)):
        products = PRODUCTS.read_all(batch)
        async with target.transaction() as tx:
            await search.add_many(tx, [product.id for product in products], products)
        indexed(len(products))


def _first(connection: apsw.Connection, sql: str, *values: object) -> Any:
    row = connection.execute(sql, values).fetchone()
    return row[0] if row else None


LEFT_OUT = 1_000_000_000
"""How many ids of each table are skipped: more than are ever assigned between a backup and the loss
of the database."""

# `sqlite_sequence` has a row only for tables into which a row was ever inserted.
_LIFT: dict[Engine, tuple[str, ...]] = {
    "sqlite": (
        """
INSERT INTO sqlite_sequence (name, seq)
SELECT name, 0 FROM sqlite_master WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'
    AND name NOT IN (SELECT name FROM sqlite_sequence)""",
        f"UPDATE sqlite_sequence SET seq = seq + {LEFT_OUT}",
    ),
    "postgres": (
        f"""
SELECT setval(format('%I.%I', schemaname, sequencename)::regclass,
    coalesce(last_value, 0) + {LEFT_OUT})
FROM pg_sequences WHERE schemaname = current_schema()""",
    ),
}
_ID: dict[Engine, str] = {
    "sqlite": "SELECT seq + 1 FROM sqlite_sequence WHERE name = 'events'",
    "postgres": f"""
SELECT coalesce(greatest((SELECT max(id) FROM events), (SELECT up_to FROM events_removed)), 0)
    + {LEFT_OUT}""",
}
# Event ids continue from the newest event. No webhook has the id 0, so this one is not delivered.
_MARK = f"""
INSERT INTO events (id, type, at, data)
VALUES (({{id}}), '{PING}', :at, '{{{{"webhook_id":0}}}}')"""


_LOCK: dict[Engine, str] = {
    "sqlite": "",  # which lets one write at a time
    "postgres": "LOCK TABLE events IN SHARE ROW EXCLUSIVE MODE",
}
_MARKED = "SELECT 1 FROM events LIMIT 1"


async def skip_ids(db: Database, now: int, *, unmarked: bool = False) -> None:
    """Skips `LEFT_OUT` ids of every table with generated ids, and of events. Otherwise an id that
    was assigned after the backup, and is known outside, would be assigned again. Also creates the
    audit log's ranges for its next ids.

    For a database that no other process uses. With `unmarked`, does nothing if there is an event,
    so that only one of several processes that call this acts.
    """
    async with db.transaction() as tx:
        await tx.script(_LOCK[db.engine])
        if unmarked and await tx.one(_MARKED):
            return
        for statement in _LIFT[db.engine]:
            await tx.all(statement)
        await tx.run(_MARK.format(id=_ID[db.engine]), {"at": now})
        ranges = AuditRanges(db)
        for number in await ranges.missing():
            await ranges.make(tx, number)
