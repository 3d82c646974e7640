"""Detects that one of the two databases is lost while the other exists. Nothing then creates a new
one in its place.

An interrupted first start is told apart by its order: it creates both SQLite files, the tables of
live, those of the sandbox, and then the first account.
"""

from portico.core.errors import Unavailable
from portico.data.database import Database
from portico.data.migrate import HAS_LEDGER
from portico.data.sqlite.connection import is_empty, require_no_leftover_log
from portico.data.sqlite.files import FileError, has_ledger
from portico.engines import LIVE, SANDBOX, database, database_file, database_schema
from portico.settings import Settings

_ANYBODY = "SELECT 1 FROM users LIMIT 1"
_NEW_START = {
    LIVE: "start anew with another data directory or database",
    SANDBOX: "let portico sandbox reset create a new one, without the old keys and clients",
}


def require_files(settings: Settings) -> None:
    """Raises `Unavailable` if one SQLite file is missing or empty and the other has tables."""
    if settings.database_url is not None:
        return
    for environment, other in ((LIVE, SANDBOX), (SANDBOX, LIVE)):
        file = database_file(settings, environment)
        if is_empty(file) and _has_file_with_tables(settings, other):
            require_no_leftover_log(file)
            raise _lost(settings, environment)


def is_prepared(settings: Settings) -> bool:
    """Whether there is an installation, even with a database lost. On PostgreSQL always true, since
    only a connection could tell."""
    both = (LIVE, SANDBOX)
    return bool(settings.database_url) or any(_has_file_with_tables(settings, one) for one in both)


def _has_file_with_tables(settings: Settings, environment: str) -> bool:
    """Whether the SQLite file has Portico's tables; an unreadable one counts as having them."""
    file = database_file(settings, environment)
    try:
        return not is_empty(file) and has_ledger(file)
    except FileError:
        return True


def advice_to_move(settings: Settings) -> str:
    """What to do if an empty PostgreSQL database would leave an installation on SQLite behind;
    empty text if there is none."""
    if settings.database_url is None or not _has_file_with_tables(settings, LIVE):
        return ""
    return (
        f"The data directory holds an installation on SQLite, {database_file(settings, LIVE)}, and"
        " the PostgreSQL database is empty. To move it there, back it up without database_url and"
        " restore the backup with database_url and a new data directory. To start anew instead, use"
        " a new data directory too."
    )


async def require_both(settings: Settings, live: Database, sandbox: Database) -> None:
    """Raises `Unavailable` if one of the two has lost its tables, or if both are empty PostgreSQL
    schemas and would leave an installation on SQLite behind."""
    live_is_used = await is_used(live)
    # Each check precedes that of what is created earlier: another host may be creating them now.
    if not await has_tables(sandbox):
        if live_is_used:
            raise _lost(settings, SANDBOX)
        if left_behind := advice_to_move(settings):
            raise Unavailable(left_behind)
    elif not await has_tables(live):
        raise _lost(settings, LIVE)


async def is_used(db: Database) -> bool:
    """Whether there is an account. If there is one in live, the sandbox had its tables before."""
    return await has_tables(db) and await db.one(_ANYBODY) is not None


async def has_tables(db: Database) -> bool:
    """Whether a migration was applied."""
    return bool(await db.all(HAS_LEDGER[db.engine]))


def _lost(settings: Settings, environment: str) -> Unavailable:
    place = (
        f"the schema {database_schema(environment)}"
        if settings.database_url
        else database_file(settings, environment)
    )
    advice = advice_if_lost(environment)
    return Unavailable(
        f"The {environment} database, {place}, is lost, and the other is there; nothing was"
        f" changed. {advice[0].upper()}{advice[1:]}."
    )


def advice_if_lost(environment: str) -> str:
    """What to do if this environment's database is lost and the other exists."""
    return f"put it back, restore a backup into a new place, or {_NEW_START[environment]}"


async def is_lost(settings: Settings, environment: str) -> bool:
    """Whether an empty database was lost, because the other one exists. Raises `Unavailable`."""
    other = SANDBOX if environment == LIVE else LIVE
    if settings.database_url is None:
        there = _has_file_with_tables(settings, other)
        if not there or is_empty(database_file(settings, environment)):
            return there
    db = database(settings, other)
    await db.open()
    try:
        return await (is_used(db) if other == LIVE else has_tables(db))
    finally:
        await db.close()
