"""Migrations: numbered SQL files, forward only, checksummed, one process at a time.

A new database gets all of them in one transaction. A database that may be in use gets each in its
own transaction, which holds its locks only briefly and waits for them at most a second, since later
transactions wait behind it.

A file's header may have these lines:

    -- compatible from: 1     a process whose newest migration is 1 or later may run beside it
    -- in batches             one statement, RETURNING a row for each that it changes; it is run
                              again, each time in its own transaction, until it changes none
    -- concurrently           PostgreSQL: each statement runs alone, outside of any transaction
"""

import asyncio
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

import msgspec

from portico.core.errors import Unavailable
from portico.core.times import Clock
from portico.data.database import (
    AdvisoryLock,
    Contended,
    Database,
    Engine,
    Reader,
    Transaction,
    UniqueViolation,
)

LOCK_ATTEMPTS = 120
"""How often a migration is tried that does not get a lock within a second."""

LOCK_PAUSE_SECONDS = 4.0
"""Between two attempts, for the transactions that waited behind the last one."""

PAUSE_SECONDS = 0.05
"""Between two batches, for other writers, and between two checks of another process's progress."""

_COMPATIBLE = re.compile(r"^-- compatible from: ([0-9]+)$", re.MULTILINE)
_IN_BATCHES = re.compile(r"^-- in batches$", re.MULTILINE)
_CONCURRENTLY = re.compile(r"^-- concurrently$", re.MULTILINE)


class MigrationError(Exception):
    """The database does not fit this program; the message says what to do."""


class GrowthError(MigrationError):
    """Stored records forbid what the files of kinds declare; the message says what to do."""


class Migration(msgspec.Struct, frozen=True):
    """One migration file."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the file's text, in hexadecimal."""
        return sha256(self.sql.encode()).hexdigest()

    @property
    def compatible_from(self) -> int | None:
        """The migration that a process must have at least to run beside this one; None if it must
        have this one itself."""
        found = _COMPATIBLE.search(self.sql)
        return int(found[1]) if found else None


# Does not wait for the lock: a waiting statement holds a snapshot, and building an index
# concurrently waits for the end of all snapshots. An operator's statement timeout for requests does
# not apply to a large table. SQLite's write transaction is exclusive by itself.
_ALONE = {
    "sqlite": "SELECT true",
    "postgres": f"SELECT pg_try_advisory_xact_lock({AdvisoryLock.MIGRATION})"
    " FROM set_config('lock_timeout', '1s', true) AS a, set_config('statement_timeout', '0', true)"
    " AS b",
}
_LEDGER = """
CREATE TABLE IF NOT EXISTS schema_migrations (
    number BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at BIGINT NOT NULL,
    compatible_from BIGINT
)"""
HAS_LEDGER = {
    "sqlite": "SELECT 1 FROM sqlite_schema WHERE name = 'schema_migrations'",
    # current_schema() leaves out what this account may not use.
    "postgres": "SELECT 1 WHERE"
    " to_regclass(current_setting('search_path') || '.schema_migrations') IS NOT NULL",
}
"""One row if any migration was applied."""

APPLIED = "SELECT number, name, checksum, compatible_from FROM schema_migrations ORDER BY number"
"""The applied migrations, as `due` takes them."""

_RECORD = """
INSERT INTO schema_migrations (number, name, checksum, applied_at, compatible_from)
VALUES (:number, :name, :checksum, :now, :compatible_from)"""


@cache
def shipped(engine: Engine) -> Sequence[Migration]:
    """The migrations that this program has, in order."""
    folder = files("portico.data") / "migrations" / engine
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return tuple(
        Migration(int(name[:4]), name[5:-4], (folder / name).read_text("utf-8")) for name in names
    )


async def pending(db: Database) -> list[Migration]:
    """The migrations that `migrate` would apply. Raises `MigrationError` as `migrate` does."""
    return await _pending(db, db.engine, shipped(db.engine))


async def migrate(
    db: Database,
    clock: Clock,
    carried: Sequence[Migration] | None = None,
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> list[Migration]:
    """Applies all pending migrations to the database and returns them.

    `carried` are migrations to use in place of this program's; `wait` sleeps for this many seconds.
    Raises `MigrationError` if the database is newer than the program and not compatible with it, or
    if an applied migration differs from the program's; and `Unavailable`, also if others hold a
    lock for ten minutes.
    """
    await db.prepare()
    try:
        return await advance(db, clock, carried, wait)
    except Unavailable as error:
        reason = error.message.removesuffix("; nothing was changed.")
        if reason == error.message:
            raise
        # That half of the message is true only of the transaction that failed.
        stays = "migrations that were applied stay, and the next run continues."
        raise Unavailable(f"{reason}; {stays}", error.retry_after, error.why) from error


async def advance(
    db: Database,
    clock: Clock,
    carried: Sequence[Migration] | None = None,
    wait: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> list[Migration]:
    """As `migrate`, without `Database.prepare`: for a restore, which has created the schema itself
    and lets no other process create any."""
    carried = shipped(db.engine) if carried is None else carried
    applied: list[Migration] = []
    refused = 0
    while await _pending(db, db.engine, carried):
        try:
            done = await _step(db, clock, carried)
        except (Contended, Unavailable) as error:
            refused += 1
            is_locked = isinstance(error, Contended) or error.why == "locked"
            if not is_locked or refused == LOCK_ATTEMPTS:
                raise
            await wait(LOCK_PAUSE_SECONDS)
            continue
        applied += done
        if not done:
            await wait(PAUSE_SECONDS)
    return applied


async def make(db: Database, schema: str) -> None:
    """Creates a PostgreSQL schema, replacing what an earlier restore that was killed has left. For
    a restore, during which `Database.prepare` creates none."""
    async with db.transaction() as tx:
        await tx.script(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
        await tx.script(f'CREATE SCHEMA "{schema}"')


async def rename(db: Database, schemas: Mapping[str, str]) -> None:
    """Renames PostgreSQL schemas, all in one transaction."""
    async with db.transaction() as tx:
        for before, after in schemas.items():
            await tx.script(f'ALTER SCHEMA "{before}" RENAME TO "{after}"')


async def drop(db: Database, schemas: Sequence[str]) -> None:
    """Drops all these PostgreSQL schemas with their content, or none of them. Also drops them if
    another transaction, whose client is gone, is just committing their creation."""
    try:
        await _drop(db, schemas)
    except UniqueViolation:  # it has committed by now
        await _drop(db, schemas)


async def _drop(db: Database, schemas: Sequence[str]) -> None:
    async with db.transaction() as tx:
        for schema in schemas:
            # CREATE waits for a transaction that is creating it; DROP alone would not see it.
            await tx.script(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
            await tx.script(f'DROP SCHEMA "{schema}" CASCADE')


async def _step(db: Database, clock: Clock, carried: Sequence[Migration]) -> list[Migration]:
    """Applies all migrations to a new database, or the next one to any other. Returns those that
    are finished: none after a batch, or while another process migrates."""
    async with db.transaction() as tx:
        alone = await tx.one(_ALONE[db.engine])
        due = await _pending(tx, db.engine, carried) if alone and alone[0] else []
        if not due:
            return []
        is_new = len(due) == len(carried)
        await tx.script(_LEDGER)
        due = due if is_new else due[:1]
        for migration in due:
            if not await _apply(db, tx, migration, is_new=is_new):
                return []
            await tx.run(
                _RECORD,
                {
                    "number": migration.number,
                    "name": migration.name,
                    "checksum": migration.checksum,
                    "now": clock(),
                    "compatible_from": migration.compatible_from,
                },
            )
    return due


async def _apply(db: Database, tx: Transaction, migration: Migration, *, is_new: bool) -> bool:
    """Applies a migration, or only a batch of it if the database is not new; False if there may be
    more batches."""
    sql = migration.sql
    if _IN_BATCHES.search(sql):
        while await tx.all(sql):
            if not is_new:
                return False
    elif not _CONCURRENTLY.search(sql):
        await tx.script(sql)
    elif is_new:
        await tx.script(sql.replace(" CONCURRENTLY", ""))
    else:
        for statement in filter(str.strip, sql.split(";")):
            await db.apart(tx, statement)
    return True


async def _pending(reader: Reader, engine: Engine, carried: Sequence[Migration]) -> list[Migration]:
    is_new = await reader.one(HAS_LEDGER[engine]) is None
    return due([] if is_new else await reader.all(APPLIED), carried)


def due(applied: Iterable[Sequence[Any]], carried: Sequence[Migration]) -> list[Migration]:
    """The migrations of `carried` that are not in the rows `applied` of a ledger.

    Raises `MigrationError` for a row that is not in `carried`, unless it is declared compatible.
    """
    known = {migration.number: migration for migration in carried}
    newest = max(known, default=0)
    done = set()
    for number, name, checksum, compatible_from in applied:
        if number not in known:
            if compatible_from is not None and newest >= compatible_from:
                continue
            raise MigrationError(
                f"The database has migration {number} ({name}), which this version lacks: "
                "it was written by a newer Portico, beside which this one cannot run. "
                "Start the newer version, or restore a backup."
            )
        if known[number].checksum != checksum:
            raise MigrationError(
                f"Migration {number} ({name}) was applied with another text than this version's: "
                "another checkout of Portico made this database. "
                "Go on with that one, or begin with an empty database."
            )
        done.add(number)
    return [migration for number, migration in known.items() if number not in done]


# The lock belongs to a transaction, not to a session, so that it also works through a pooler, which
# would lend the session, and the lock with it, to others. Between two statements the transaction
# has no snapshot, so nothing waits for its end.
_CLAIM = f"""
SELECT pg_try_advisory_xact_lock({AdvisoryLock.RESTORE}), pg_backend_pid()
FROM set_config('idle_in_transaction_session_timeout', '0', true)"""
_HOLDS = f"""
SELECT 1 FROM pg_locks JOIN pg_database ON pg_database.oid = database
WHERE locktype = 'advisory' AND objid = {AdvisoryLock.RESTORE} AND pid = :pid
    AND datname = current_database()"""

Empty = Callable[[], Coroutine[Any, Any, None]]
"""Removes the schemas created under a claim. Raises `Unavailable` if the claim was lost."""


@asynccontextmanager
async def claim(db: Database, schemas: Sequence[str]) -> AsyncIterator[Empty]:
    """Prevents other restores, and `Database.prepare`, from creating `schemas`; yields a function
    that removes those created meanwhile. Raises `Unavailable` if another process has the lock."""
    # After an interrupted restore, the content of the schemas does not tell whether this restore
    # created them: a process that waited for it might have. So no other process may create any.
    async with db.transaction() as tx:
        is_ours, pid = (await tx.all(_CLAIM))[0]
        if not is_ours:
            raise Unavailable(
                "Another restore into this database, or a first start, is under way: wait until it"
                " has ended."
            )

        async def empty() -> None:
            if await db.one(_HOLDS, {"pid": pid}) is None:
                raise Unavailable("The connection that holds this restore's lock was lost.")
            await drop(db, schemas)

        yield empty
