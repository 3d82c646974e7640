"""Migrations: numbered SQL files, forward only, checksummed, in one transaction under a lock."""

import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from portico.domain.times import Clock
from portico.storage.database import Database, Engine, Reader


class MigrationError(Exception):
    """The database and this program do not fit; the message says what to do."""


class Migration(msgspec.Struct, frozen=True):
    """One numbered file."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the file's text, in hexadecimal."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


# Several workers may start at once. SQLite's write transaction is exclusive by itself.
_LOCK = {"sqlite": "SELECT 1", "postgres": "SELECT pg_advisory_xact_lock(7041776)"}
_LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    number BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at BIGINT NOT NULL
)"""
_HAS_LEDGER = {
    "sqlite": "SELECT 1 FROM sqlite_schema WHERE name = 'schema_migrations'",
    "postgres": "SELECT 1 FROM pg_tables"
    " WHERE schemaname = current_schema() AND tablename = 'schema_migrations'",
}
APPLIED = "SELECT number, name, checksum FROM schema_migrations ORDER BY number"
"""What the ledger says was applied: rows as `due` takes them."""

_RECORD = "INSERT INTO schema_migrations VALUES (:number, :name, :checksum, :now)"


@cache
def shipped(engine: Engine) -> Sequence[Migration]:
    """The migrations that this program carries, in order."""
    folder = files("portico.storage") / "migrations" / engine
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(
        Migration(int(name[:4]), name[5:-4], (folder / name).read_text("utf-8")) for name in names
    )


async def pending(db: Database) -> list[Migration]:
    """The migrations that `migrate` would apply. Raises `MigrationError` as `migrate` does."""
    return await _pending(db, db.engine, shipped(db.engine))


async def migrate(
    db: Database, clock: Clock, carried: Sequence[Migration] | None = None
) -> list[Migration]:
    """Brings the database up to this program and returns what it applied.

    `carried` are another program's migrations, in place of this one's. Raises `MigrationError`
    when the database is newer than the program, or when a migration that was applied is not the
    one that the program carries.
    """
    await db.prepare()
    async with db.transaction() as tx:
        await tx.one(_LOCK[db.engine])
        pending = await _pending(tx, db.engine, shipped(db.engine) if carried is None else carried)
        if pending:
            await tx.script(_LEDGER)
        for migration in pending:
            await tx.script(migration.sql)
            await tx.run(
                _RECORD,
                {
                    "number": migration.number,
                    "name": migration.name,
                    "checksum": migration.checksum,
                    "now": clock(),
                },
            )
    return pending


async def _pending(reader: Reader, engine: Engine, carried: Sequence[Migration]) -> list[Migration]:
    applied = await reader.all(APPLIED) if await reader.one(_HAS_LEDGER[engine]) else []
    return due(applied, carried)


def due(applied: Iterable[Sequence[Any]], carried: Sequence[Migration]) -> list[Migration]:
    """Those of the migrations `carried` that the rows `applied` of a ledger do not name.

    Raises `MigrationError` for a row that none of them is.
    """
    known = {migration.number: migration for migration in carried}
    done = set()
    for number, name, checksum in applied:
        if number not in known:
            raise MigrationError(
                f"The database has migration {number} ({name}), which this program does not know: "
                "it was written by a newer Portico. Start that version, or restore a backup."
            )
        if known[number].checksum != checksum:
            raise MigrationError(
                f"Migration {number} ({name}) was applied with another text than this program "
                "carries. Start the version that applied it, or restore a backup."
            )
        done.add(number)
    return [migration for number, migration in known.items() if number not in done]
