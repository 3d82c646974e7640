"""SQLite database files as a whole: a copy of one that is in use, and whether one is sound."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from portico.storage.migrate import LEDGER_COLUMNS, applied_of

BUSY_MILLISECONDS = 5000
_STEPS = 1000
"""Of SQLite's virtual machine, between two looks for signals: some microseconds."""


class FileError(Exception):
    """A database file cannot be read or written; the message names it."""


def copy(source: Path, target: Path) -> None:
    """Copies the last committed state of `source`, which others may go on writing, to a new file:
    one file, without rows that were deleted. Raises `FileError`."""
    try:
        reader = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            reader.set_busy_timeout(BUSY_MILLISECONDS)
            # Lets Python in, and with it a signal that ends this.
            reader.set_progress_handler(lambda: False, _STEPS)
            # A copy of the pages would take along what lies on those that are free.
            reader.execute("VACUUM INTO ?", (str(target),)).fetchall()
        finally:
            reader.close()
    except apsw.FullError as error:
        raise FileError(f"{source} cannot be copied: the disk is full") from error
    except apsw.Error as error:
        raise FileError(f"{source} cannot be copied: {error}") from error


def faults(path: Path) -> list[str]:
    """What `PRAGMA quick_check` finds wrong; empty for a sound file. Reads every page.

    Raises `FileError` where the file cannot be read at all.
    """
    try:
        with reading(path) as connection:
            found = [str(row[0]) for row in connection.execute("PRAGMA quick_check(10)")]
    except FileError as error:
        if isinstance(error.__cause__, apsw.NotADBError | apsw.CorruptError):
            return [str(error.__cause__)]
        raise
    return [] if found == ["ok"] else found


def has_ledger(path: Path) -> bool:
    """Whether there is a table of what was applied to a database. Raises `FileError`."""
    with reading(path) as connection:
        return bool(connection.execute(LEDGER_COLUMNS["sqlite"]).fetchall())


def ledger(path: Path) -> list[tuple[Any, ...]]:
    """What was applied to a database, as `migrate.due` takes it; empty where it is no Portico's.

    Raises `FileError`.
    """
    with reading(path) as connection:
        applied = applied_of(connection.execute(LEDGER_COLUMNS["sqlite"]).fetchall())
        return connection.execute(applied).fetchall() if applied else []


@contextmanager
def reading(path: Path) -> Iterator[apsw.Connection]:
    """A connection to a file. What it raises becomes `FileError`."""
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            yield connection
        finally:
            connection.close()
    except apsw.Error as error:
        raise FileError(f"{path} cannot be read: {error}") from error
