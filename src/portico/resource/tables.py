"""The tables of kinds: made, and kept as the files declare them.

Beside them, `kinds` stores what each table was made for, and which files the database was last
migrated to. An installation without kinds has none of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial
from hashlib import md5
from typing import TypeVar

import msgspec

from portico.core.errors import Unavailable
from portico.core.times import DAY, MINUTE
from portico.data.database import (
    LOCKED,
    AdvisoryLock,
    Contended,
    Database,
    Engine,
    Params,
    Reader,
    Transaction,
)
from portico.data.filtered_totals import BLOCK
from portico.data.migrate import GrowthError
from portico.resource.compiled import LOWEST, Compiled, Kinds, column, table_of
from portico.resource.fields import Field, default_of
from portico.resource.search import WordSearch

T = TypeVar("T")

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

OTHER_FILES = "other files than the database's"

BATCH = 2_000
"""How many rows are filled or indexed in one transaction."""

ROLLOUT = DAY
"""How long hosts with former files may serve on while others have new ones."""

CLOCKS = MINUTE
"""How far the clocks of hosts are apart at most."""

TRIES = 600
PAUSE_SECONDS = 0.2
"""How often, and after which pause, a start tries again while another transaction holds a lock."""

_ALONE: dict[Engine, str] = {
    "sqlite": "SELECT true",
    # Never waits inside a transaction: an index that is built concurrently waits for its end.
    "postgres": f"SELECT pg_try_advisory_xact_lock({AdvisoryLock.MIGRATION})"
    " FROM set_config('lock_timeout', '1s', true) AS a, set_config('statement_timeout', '0', true)"
    " AS b",
}


class StoredField(msgspec.Struct, frozen=True):
    """What a column was made for. A field that is gone from the files is hidden, and kept."""

    sort: str
    hidden: bool = False


class StoredKind(msgspec.Struct, frozen=True):
    """What a table was made for."""

    fields: dict[str, StoredField]
    searched: list[str]
    hidden: bool = False
    keys: list[str] = []
    grown_at: int = 0
    """When search or an order was added, in epoch milliseconds. From then on, hosts with former
    files store records without what that needs."""


_decode = msgspec.json.Decoder(StoredKind).decode


def stored_kind(kind: Compiled, now: int, before: StoredKind | None = None) -> StoredKind:
    """What is stored of a declaration, after what was stored before."""
    searched, keys = [field.name for field in kind.searched], [*kind.keys]
    grown_at = now
    if before is None:  # no other host knows the kind
        grown_at = 0
    elif searched == before.searched and before.keys == keys:
        grown_at = before.grown_at
    fields = {field.name: StoredField(field.sort) for field in kind.fields}
    renamed = {field.was for field in kind.fields if field.was}
    gone = {
        name: StoredField(field.sort, hidden=True)
        for name, field in (before.fields if before else {}).items()
        if name not in fields and name not in renamed
    }
    return StoredKind(fields | gone, searched, keys=keys, grown_at=grown_at)


async def stored(reader: Reader, engine: Engine) -> tuple[dict[str, StoredKind], str]:
    """The kinds that the database has tables for, by `many`, and the digest of the files that it
    was last migrated to."""
    names = {row[0] for row in await reader.all(_TABLES[engine])}
    if "kinds" not in names:
        return {}, ""
    rows: dict[str, str] = {str(row[0]): str(row[1]) for row in await reader.all(_READ)}
    digest = rows.pop(FILES, "")
    return {name: _decode(text) for name, text in rows.items()}, digest


async def require_none(db: Database) -> None:
    """For a host without files. Raises `Unavailable` if others have files."""
    known, _ = await stored(db, db.engine)
    if not all(kind.hidden for kind in known.values()):
        raise Unavailable("The database has kinds, and this host has no files.", why=OTHER_FILES)


async def is_behind(db: Database, kinds: Kinds) -> bool:
    """Whether the tables are not as these files declare them."""
    return (await stored(db, db.engine))[1] != kinds.digest


async def keep(
    db: Database,
    kinds: Kinds,
    now: int,
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Makes the tables as declared, without blocking writers for long: what grows with the rows is
    done in batches, and on PostgreSQL indexes are built concurrently.

    Raises `Unavailable`, and `MigrationError` for a change that stored records forbid.
    """
    await _alone(db, wait, lambda tx: _keep(db, tx, kinds, now))
    for kind in kinds:
        await _fill(db, kind, wait)
    async with db.transaction() as tx:
        await tx.run(_STORE, {"name": FILES, "declared": kinds.digest})


async def follow_up(
    db: Database,
    kinds: Kinds,
    now: int,
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Indexes again what hosts with former files have stored meanwhile, where search or an order
    was added lately: the last of them to get new files does so when none is left."""
    known, _ = await stored(db, db.engine)
    for kind in kinds:
        since = known[kind.many].grown_at
        if since > now - ROLLOUT:
            await _fill(db, kind, wait, since - CLOCKS)


async def _alone(
    db: Database,
    wait: Callable[[float], Awaitable[None]],
    work: Callable[[Transaction], Awaitable[T]],
) -> T:
    """Does some work in a transaction, while no other process makes tables or indexes."""
    refused = 0
    while True:
        try:
            async with db.transaction() as tx:
                alone = await tx.one(_ALONE[db.engine])
                if alone and alone[0]:
                    return await work(tx)
        except (Contended, Unavailable) as error:
            refused += 1
            locked = isinstance(error, Contended) or error.why == "locked"
            if not locked or refused == TRIES:
                raise
        await wait(PAUSE_SECONDS)


async def _keep(db: Database, tx: Transaction, kinds: Kinds, now: int) -> None:
    """Makes tables and columns, and checks what stored records forbid, in one transaction."""
    engine = db.engine
    names = {row[0] for row in await tx.all(_TABLES[engine])}
    await tx.script(_LEDGER[engine])
    known, _ = await stored(tx, engine)
    for kind in kinds:  # before any table is locked, since it reads all records
        if kind.table_name in names:
            await _check(tx, engine, kind, known.get(kind.many))
    for kind in kinds:
        before = known.pop(kind.many, None)
        if kind.table_name not in names:
            await tx.script(";\n".join(created(kind, engine)))
        else:
            await _grow(db, tx, kind, before)
        names = {row[0] for row in await tx.all(_TABLES[engine])}
        if kind.searched and f"{kind.table_name}__words" not in names:
            await tx.script(_words(kind.table_name, engine))
        await _store(tx, kind.many, stored_kind(kind, now, before))
    for name, before in known.items():
        await _store(tx, name, msgspec.structs.replace(before, hidden=True))


async def _store(tx: Transaction, name: str, kind: StoredKind) -> None:
    declared = msgspec.json.encode(kind).decode()
    await tx.run(_STORE, {"name": name, "declared": declared})


async def _check(
    tx: Transaction, engine: Engine, kind: Compiled, before: StoredKind | None
) -> None:
    """Raises `GrowthError` for what stored records forbid."""
    table = kind.table_name
    columns = {row[0] for row in await tx.all(_COLUMNS[engine], {"table": table})}
    known = before.fields if before else {}
    for field in kind.fields:
        name = _stored_in(kind, field, columns)
        same = known.get(field.name) or known.get(field.was or "")
        if same is not None and same.sort != field.sort and name in columns:
            raise GrowthError(
                f"{kind.many}.{field.name} is stored as {same.sort} and declared as {field.sort}:"
                " give the new field another name"
            )
        if name not in columns:
            some = await tx.all(f"SELECT id FROM {table} LIMIT 2")
            if field.required and some:
                raise GrowthError(
                    f"{kind.many}.{field.name} is new and required, and there are {kind.many}:"
                    " give it a default, or optional=True"
                )
            value = kind.defaults[field.name]
            if field.unique and value is not None and len(some) > 1:
                raise GrowthError(_not_unique(kind, field, value))
        elif field.unique:
            await _require_unique(tx, kind, field, name)


def _stored_in(kind: Compiled, field: Field, columns: Collection[str]) -> str:
    """The column that a field has now: that of its former name until it is renamed."""
    own, was = column(field.name), f"f_{field.was}"
    renamed = own not in columns and was in columns and field.was not in kind.by_name
    return was if renamed else own


async def _grow(db: Database, tx: Transaction, kind: Compiled, before: StoredKind | None) -> None:
    """Makes a table that exists as declared, but for what takes long."""
    table, engine = kind.table_name, db.engine
    columns = {row[0] for row in await tx.all(_COLUMNS[engine], {"table": table})}
    for field in kind.fields:
        own, name = column(field.name), _stored_in(kind, field, columns)
        if name not in columns:
            await tx.script(f"ALTER TABLE {table} ADD COLUMN {_column(field, engine)}")
            continue
        if name != own:
            await tx.script(f"ALTER TABLE {table} RENAME COLUMN {name} TO {own}")
            columns.add(own)
        if not field.optional:
            await _without_null(tx, kind, field)
    for name in kind.keys:
        if name not in columns:
            await tx.script(f"ALTER TABLE {table} ADD COLUMN {_key_column(kind, name, engine)}")
    wanted = {name for name, _ in indexes(kind)}
    for (name,) in await tx.all(_INDEXES[engine], {"table": table}):
        if name.startswith(f"{table}__") and name not in wanted:
            await tx.script(f"DROP INDEX {name}")
    if before is not None and before.searched != [field.name for field in kind.searched]:
        await tx.script(f"DROP TABLE IF EXISTS {table}__words")


async def _without_null(tx: Transaction, kind: Compiled, field: Field) -> None:
    """Gives a field that is no longer optional its default where it is null."""
    name, table = column(field.name), kind.table_name
    if not await tx.one(f"SELECT id FROM {table} WHERE {name} IS NULL LIMIT 1"):
        return
    if field.required:
        raise GrowthError(
            f"{kind.many}.{field.name} is no longer optional, and there are {kind.many} without it:"
            " give it a default"
        )
    value = kind.defaults[field.name]
    await tx.run(f"UPDATE {table} SET {name} = :value WHERE {name} IS NULL", {"value": value})


async def _require_unique(tx: Transaction, kind: Compiled, field: Field, name: str) -> None:
    rows = await tx.all(
        f"SELECT {name} FROM {kind.table_name} WHERE {name} IS NOT NULL"
        f" GROUP BY {name} HAVING count(*) > 1 ORDER BY {name} LIMIT 10"
    )
    if rows:
        raise GrowthError(_not_unique(kind, field, *(row[0] for row in rows)))


def _not_unique(kind: Compiled, field: Field, *values: object) -> str:
    return f"{kind.many}.{field.name} is not unique: several have {', '.join(map(str, values))}"


async def _fill(
    db: Database,
    kind: Compiled,
    wait: Callable[[float], Awaitable[None]],
    since: int | None = None,
) -> None:
    """Builds indexes, and fills in batches what was added to rows that exist. Those that changed
    from `since` on are indexed anew."""
    for name, on in indexes(kind):
        await _alone(db, wait, partial(_build, db, kind.table_name, name, on))
    last: int | None = 0
    while last is not None and (kind.keys or kind.searched):
        last = await _alone(db, wait, partial(_fill_some, db, kind, last, since))


async def _build(db: Database, table: str, name: str, on: str, tx: Transaction) -> None:
    """Builds an index unless there is one; what a process that was killed has left is no index."""
    if (name,) in {tuple(row) for row in await tx.all(_INDEXES[db.engine], {"table": table})}:
        return
    if db.engine == "sqlite":
        await tx.script(f"CREATE {on.format(name)}")
        return
    await db.apart(tx, f"DROP INDEX CONCURRENTLY IF EXISTS {name}")
    await db.apart(tx, f"CREATE {on.replace('INDEX', 'INDEX CONCURRENTLY', 1).format(name)}")


async def _fill_some(
    db: Database, kind: Compiled, after: int, since: int | None, tx: Transaction
) -> int | None:
    """Fills a batch of rows; returns the id of the last, None if there are no more."""
    table = kind.table_name
    found = await tx.one(
        f"SELECT max(id) FROM (SELECT id FROM {table} WHERE id > :after ORDER BY id LIMIT {BATCH})"
        " AS batch",
        {"after": after},
    )
    last: int | None = found[0] if found else None
    if last is None:
        return None
    rows: Params = {"after": after, "last": last}
    where = "WHERE id > :after AND id <= :last"
    if values := {name: _key_value(kind, name) for name in kind.keys}:
        filled = ", ".join(f"{name} = {value}" for name, value in values.items())
        behind = " OR ".join(f"{name} <> {value}" for name, value in values.items())
        await tx.run(f"UPDATE {table} SET {filled} {where} AND ({behind})", rows)
    if kind.searched:
        words = f"{table}__words"
        key = "rowid" if db.engine == "sqlite" else "id"
        behind = f"NOT EXISTS (SELECT 1 FROM {words} WHERE {words}.{key} = {table}.id)"
        if since is not None:
            behind, rows = f"(updated_at >= :since OR {behind})", {**rows, "since": since}
        due = kind.table.read_all(
            await tx.all(
                f"SELECT {kind.table.columns} FROM {table} {where} AND {behind}"
                f" ORDER BY id{LOCKED[db.engine]}",
                rows,
            )
        )
        ids = [row.id for row in due]
        search = WordSearch(kind.indexed, db, kind.listing, None)
        await search.remove_many(tx, ids)
        await search.add_many(tx, ids, due)
    return last


def _key_value(kind: Compiled, name: str) -> str:
    """The SQL of the value of a key."""
    field = kind.by_name[name.removeprefix("s_")]
    if field.column == "TEXT":
        return f"coalesce('x' || {column(field.name)}, '')"
    return f"coalesce({column(field.name)}, ({LOWEST}))"


async def drop(tx: Transaction, engine: Engine, name: str) -> bool:
    """Removes a hidden kind (`orders`) or field (`orders.note`) for good. Returns whether there was
    one."""
    many, _, field = name.partition(".")
    known, _ = await stored(tx, engine)
    kind = known.get(many)
    if kind is None or (field and field not in kind.fields):
        return False
    table = table_of(many)
    if field:
        await tx.script(f"ALTER TABLE {table} DROP COLUMN f_{field}")
        columns = {row[0] for row in await tx.all(_COLUMNS[engine], {"table": table})}
        if f"s_{field}" in columns:
            await tx.script(f"ALTER TABLE {table} DROP COLUMN s_{field}")
        left = {other: one for other, one in kind.fields.items() if other != field}
        await _store(tx, many, msgspec.structs.replace(kind, fields=left))
        return True
    await tx.script(f"DROP TABLE IF EXISTS {table}__words")
    await tx.script(f"DROP TABLE IF EXISTS {table}")
    if engine == "postgres":
        await tx.script(f"DROP FUNCTION IF EXISTS {table}__counted()")
    for kept in ("list_counts", "list_blocks"):
        await tx.run(f"DELETE FROM {kept} WHERE list = :table", {"table": table})
    await tx.run("DELETE FROM kinds WHERE name = :name", {"name": many})
    return True


_COLUMNS: dict[Engine, str] = {
    "sqlite": "SELECT name FROM pragma_table_info(:table)",
    "postgres": "SELECT attname FROM pg_attribute WHERE attnum > 0 AND NOT attisdropped"
    " AND attrelid = to_regclass(current_schema() || '.' || :table)",
}
_INDEXES: dict[Engine, str] = {
    "sqlite": "SELECT name FROM sqlite_schema WHERE type = 'index' AND tbl_name = :table"
    " AND sql IS NOT NULL",
    "postgres": "SELECT c.relname FROM pg_index JOIN pg_class AS c ON c.oid = indexrelid"
    " WHERE indrelid = to_regclass(current_schema() || '.' || :table) AND NOT indisprimary"
    " AND indisvalid",
}


def indexes(kind: Compiled) -> Iterator[tuple[str, str]]:
    """The indexes of a kind's table: their names, and what they are on."""
    table = kind.table_name
    for field in kind.unique:
        yield _named(table, "u", field.name), f"UNIQUE INDEX {{}} ON {table} ({column(field.name)})"
    filtered = dict.fromkeys([*kind.kind.filters, *(field.name for field in kind.references)])
    for name in filtered:
        yield _named(table, "f", name), f"INDEX {{}} ON {table} ({column(name)}, id)"
    for name, place in kind.orders.items():
        if place not in ("id", *(column(one) for one in filtered)):
            yield _named(table, "s", name), f"INDEX {{}} ON {table} ({place}, id)"


def _named(table: str, what: str, name: str) -> str:
    """The name of an index. PostgreSQL cuts longer ones."""
    whole = f"{table}__{what}_{name}"
    return whole if len(whole) <= 63 else f"{table}__{what}_{md5(name.encode()).hexdigest()[:8]}"  # noqa: S324 - no secret


def created(kind: Compiled, engine: Engine) -> Iterator[str]:
    """The statements that make a kind's table, with its indexes and totals."""
    columns = [
        _ID[engine],
        *(_column(field, engine) for field in kind.fields),
        *(_key_column(kind, name, engine) for name in kind.keys),
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


def _key_column(kind: Compiled, name: str, engine: Engine) -> str:
    sort = kind.by_name[name.removeprefix("s_")].column
    lowest = "''" if sort == "TEXT" else f"({LOWEST})"
    return f"{name} {_type(sort, engine)} NOT NULL DEFAULT {lowest}"


def _column(field: Field, engine: Engine) -> str:
    """A column. It may be null, since a field that is hidden later is not written; the default is
    for hosts that do not have the field yet."""
    value = default_of(field)
    if value is None and not field.optional:
        value = "" if field.column == "TEXT" else 0
    literal = (
        "NULL"
        if value is None
        else f"'{value.replace(_QUOTE, 2 * _QUOTE)}'"
        if isinstance(value, str)
        else str(value)
    )
    return f"{column(field.name)} {_type(field.column, engine)} DEFAULT {literal}"


_QUOTE = "'"


def _words(table: str, engine: Engine) -> str:
    """The table of the words that are searched."""
    if engine == "sqlite":
        return f"""CREATE VIRTUAL TABLE {table}__words USING fts5 (
    name, description, content = '', contentless_delete = 1, detail = 'column',
    tokenize = "unicode61 remove_diacritics 0 tokenchars '_'"
)"""
    return (
        f"CREATE TABLE {table}__words (id BIGINT PRIMARY KEY REFERENCES {table} (id)"
        f" ON DELETE CASCADE, words TSVECTOR NOT NULL);\n"
        f"CREATE INDEX {table}__words_by_word ON {table}__words USING gin (words)"
    )


def _counting(table: str, engine: Engine) -> Sequence[str]:
    """The triggers that keep the table's totals (docs/decisions/0004)."""
    return _counted_by_sqlite(table) if engine == "sqlite" else _counted_by_postgres(table)


def _counted_by_sqlite(table: str) -> Sequence[str]:
    counted = f"WHERE list = '{table}' AND key = '' AND shard = 0"
    block = f"{counted} AND block = old.id / {BLOCK}"
    return (
        f"""CREATE TRIGGER {table}__inserted AFTER INSERT ON {table} BEGIN
    INSERT INTO list_counts (list, key, shard, total, version) VALUES ('{table}', '', 0, 1, 1)
    ON CONFLICT DO UPDATE SET total = total + 1, version = version + 1;
    INSERT INTO list_blocks (list, key, block, shard, total)
    VALUES ('{table}', '', new.id / {BLOCK}, 0, 1)
    ON CONFLICT DO UPDATE SET total = total + 1;
END""",
        f"""CREATE TRIGGER {table}__updated AFTER UPDATE ON {table} BEGIN
    UPDATE list_counts SET version = version + 1 {counted};
END""",
        f"""CREATE TRIGGER {table}__deleted AFTER DELETE ON {table} BEGIN
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
        f"CREATE STATISTICS {table}__by_block ON (id / {BLOCK}) FROM {table}",
        f"""CREATE FUNCTION {table}__counted() RETURNS trigger LANGUAGE plpgsql AS $$
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
            f"CREATE TRIGGER {table}__{deed} AFTER {event} ON {table} REFERENCING {rows}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {table}__counted()"
            for deed, event, rows in (
                ("inserted", "INSERT", "NEW TABLE AS added"),
                ("updated", "UPDATE", "NEW TABLE AS added"),
                ("deleted", "DELETE", "OLD TABLE AS removed"),
            )
        ),
    )
