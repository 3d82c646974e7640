"""The tables of kinds: made, and kept as the files declare them.

Beside them, `kinds` stores what each table was made for, and which files the database was last
migrated to. An installation without kinds has none of it.
"""

from collections.abc import Iterator, Sequence

import msgspec

from portico.data.database import AdvisoryLock, Database, Engine, Reader, Transaction, alone
from portico.data.filtered_totals import BLOCK
from portico.resource.compiled import Compiled, Kinds, column
from portico.resource.fields import Field

_LEDGER: dict[Engine, str] = {
    "sqlite": "CREATE TABLE IF NOT EXISTS kinds"
    " (name TEXT PRIMARY KEY, declared TEXT NOT NULL) STRICT",
    "postgres": "CREATE TABLE IF NOT EXISTS kinds"
    ' (name TEXT COLLATE "C" PRIMARY KEY, declared TEXT COLLATE "C" NOT NULL)',
}
_TABLES: dict[Engine, str] = {
    "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'table'"
    " AND (name = 'kinds' OR name LIKE 'kind\\_%' ESCAPE '\\')",
    "postgres": "SELECT relname FROM pg_class WHERE relkind = 'r'"
    " AND relnamespace = to_regnamespace(current_schema())"
    " AND (relname = 'kinds' OR relname LIKE 'kind\\_%')",
}
_STORE = """
INSERT INTO kinds (name, declared) VALUES (:name, :declared)
ON CONFLICT (name) DO UPDATE SET declared = excluded.declared"""
_READ = "SELECT name, declared FROM kinds ORDER BY name"

FILES = ""
"""The name of the row that stands for the files as a whole."""


class StoredField(msgspec.Struct, frozen=True):
    """What a column was made for."""

    sort: str
    optional: bool = False
    unique: bool = False
    search: bool = False


class StoredKind(msgspec.Struct, frozen=True):
    """What a table was made for."""

    one: str
    fields: dict[str, StoredField]
    indexes: list[str] = []


_decode = msgspec.json.Decoder(StoredKind).decode


def stored_kind(kind: Compiled) -> StoredKind:
    """What is stored of a declaration."""
    fields = {
        field.name: StoredField(field.sort, field.optional, field.unique, field.search)
        for field in kind.fields
    }
    return StoredKind(kind.one, fields, [name for name, _ in indexes(kind)])


async def stored(reader: Reader, engine: Engine) -> tuple[dict[str, StoredKind], str]:
    """The kinds that the database has tables for, by `many`, and the digest of the files that it
    was last migrated to."""
    names = {row[0] for row in await reader.all(_TABLES[engine])}
    if "kinds" not in names:
        return {}, ""
    rows: dict[str, str] = dict(map(tuple, await reader.all(_READ)))
    digest = rows.pop(FILES, "")
    return {name: _decode(text) for name, text in rows.items()}, digest


async def is_behind(db: Database, kinds: Kinds) -> bool:
    """Whether the tables are not as these files declare them."""
    return (await stored(db, db.engine))[1] != kinds.digest


async def keep(db: Database, kinds: Kinds) -> None:
    """Makes the tables as declared. Raises `Unavailable`, and `MigrationError` for a change that
    the stored records forbid."""
    async with db.transaction() as tx:
        await tx.one(alone(AdvisoryLock.MIGRATION)[db.engine])
        await _keep(db.engine, tx, kinds)


async def _keep(engine: Engine, tx: Transaction, kinds: Kinds) -> None:
    names = {row[0] for row in await tx.all(_TABLES[engine])}
    await tx.script(_LEDGER[engine])
    for kind in kinds:
        if kind.table_name not in names:
            await tx.script(";\n".join(created(kind, engine)))
        declared = msgspec.json.encode(stored_kind(kind)).decode()
        await tx.run(_STORE, {"name": kind.many, "declared": declared})
    await tx.run(_STORE, {"name": FILES, "declared": kinds.digest})


def indexes(kind: Compiled) -> Iterator[tuple[str, str]]:
    """The indexes of a kind's table: their names, and what they are on."""
    table = kind.table_name
    for field in kind.unique:
        yield f"{table}_u_{field.name}", f"UNIQUE INDEX {{}} ON {table} ({column(field.name)})"
    filtered = dict.fromkeys([*kind.kind.filters, *(field.name for field in kind.references)])
    for name in filtered:
        yield f"{table}_f_{name}", f"INDEX {{}} ON {table} ({column(name)}, id)"
    for name, place in kind.orders.items():
        if place not in ("id", *(column(one) for one in filtered)):
            yield f"{table}_s_{name}", f"INDEX {{}} ON {table} ({place}, id)"


def created(kind: Compiled, engine: Engine) -> Iterator[str]:
    """The statements that make a kind's table, with its indexes and totals."""
    columns = [
        _ID[engine],
        *(_column(field, engine) for field in kind.fields),
        *(f"{name} {_key_type(kind, name, engine)} NOT NULL" for name in kind.keys),
        f"created_at {_type('BIGINT', engine)} NOT NULL",
        f"updated_at {_type('BIGINT', engine)} NOT NULL",
    ]
    strict = " STRICT" if engine == "sqlite" else ""
    yield f"CREATE TABLE {kind.table_name} ({', '.join(columns)}){strict}"
    for name, on in indexes(kind):
        yield f"CREATE {on.format(name)}"
    yield from _counting(kind.table_name, engine)


_ID: dict[Engine, str] = {
    "sqlite": "id INTEGER PRIMARY KEY AUTOINCREMENT",
    "postgres": "id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
}


def _type(name: str, engine: Engine) -> str:
    if name == "TEXT":
        return 'TEXT COLLATE "C"' if engine == "postgres" else "TEXT"
    return "INTEGER" if engine == "sqlite" else name


def _key_type(kind: Compiled, name: str, engine: Engine) -> str:
    return _type(kind.by_name[name.removeprefix("s_")].column, engine)


def _column(field: Field, engine: Engine) -> str:
    null = "" if field.optional else " NOT NULL"
    return f"{column(field.name)} {_type(field.column, engine)}{null}"


def _counting(table: str, engine: Engine) -> Sequence[str]:
    """The triggers that keep the table's totals (docs/decisions/0004)."""
    return _counted_by_sqlite(table) if engine == "sqlite" else _counted_by_postgres(table)


def _counted_by_sqlite(table: str) -> Sequence[str]:
    counted = f"WHERE list = '{table}' AND key = '' AND shard = 0"
    block = f"{counted} AND block = old.id / {BLOCK}"
    return (
        f"""CREATE TRIGGER {table}_inserted AFTER INSERT ON {table} BEGIN
    INSERT INTO list_counts (list, key, shard, total, version) VALUES ('{table}', '', 0, 1, 1)
    ON CONFLICT DO UPDATE SET total = total + 1, version = version + 1;
    INSERT INTO list_blocks (list, key, block, shard, total)
    VALUES ('{table}', '', new.id / {BLOCK}, 0, 1)
    ON CONFLICT DO UPDATE SET total = total + 1;
END""",
        f"""CREATE TRIGGER {table}_updated AFTER UPDATE ON {table} BEGIN
    UPDATE list_counts SET version = version + 1 {counted};
END""",
        f"""CREATE TRIGGER {table}_deleted AFTER DELETE ON {table} BEGIN
    UPDATE list_counts SET total = total - 1, version = version + 1 {counted};
    UPDATE list_blocks SET total = total - 1 {block};
    DELETE FROM list_blocks {block} AND total = 0;
END""",
    )


def _counted_by_postgres(table: str) -> Sequence[str]:
    shard = "pg_backend_pid() % 16"
    counted = "list_counts AS c (list, key, shard, total, version)"
    count = f"INSERT INTO {counted} SELECT '{table}', '', {shard}"
    to_count = (
        "ON CONFLICT (list, key, shard)"
        " DO UPDATE SET total = c.total + excluded.total, version = c.version + 1"
    )
    blocks = "list_blocks AS b (list, key, block, shard, total)"
    block = f"INSERT INTO {blocks} SELECT '{table}', '', id / {BLOCK}, {shard}"
    to_block = (
        f"GROUP BY id / {BLOCK} ORDER BY id / {BLOCK} ON CONFLICT (list, key, block, shard)"
        " DO UPDATE SET total = b.total + excluded.total"
    )
    return (
        f"CREATE STATISTICS {table}_by_block ON (id / {BLOCK}) FROM {table}",
        f"""CREATE FUNCTION {table}_counted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        {count}, count(*), 1 FROM added HAVING count(*) > 0 {to_count};
        {block}, count(*) FROM added {to_block};
    ELSIF TG_OP = 'UPDATE' THEN
        {count}, 0, 1 FROM added HAVING count(*) > 0 {to_count};
        {block}, 0 FROM added {to_block};
    ELSE
        {count}, -count(*), 1 FROM removed HAVING count(*) > 0 {to_count};
        {block}, -count(*) FROM removed {to_block};
    END IF;
    RETURN NULL;
END $$""",
        *(
            f"CREATE TRIGGER {table}_{deed} AFTER {event} ON {table} REFERENCING {rows}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {table}_counted()"
            for deed, event, rows in (
                ("inserted", "INSERT", "NEW TABLE AS added"),
                ("updated", "UPDATE", "NEW TABLE AS added"),
                ("deleted", "DELETE", "OLD TABLE AS removed"),
            )
        ),
    )
