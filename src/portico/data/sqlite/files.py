"""Whole SQLite database files: copying one that is in use, and checking one for damage."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from portico.data.migrate import APPLIED, HAS_LEDGER
from portico.data.sqlite.connection import BUSY_SECONDS

_BUSY_MILLISECONDS = int(BUSY_SECONDS * 1000)
_STEPS = 1000
"""Instructions of SQLite's virtual machine between two checks for signals: some microseconds."""


class FileError(Exception):
    """A database file cannot be read or written; the message names it."""


def copy(source: Path, target: Path, copied: Callable[[int], object]) -> None:
    """Copies the last committed state of `source`, to which others may go on writing, to one new
    file, without deleted rows. Calls `copied` with the bytes that each step has added to it. Raises
    `FileError`."""
    seen = 0

    def look() -> bool:  # also lets Python run, and so handle a signal that ends this process
        nonlocal seen
        with suppress(FileNotFoundError):
            size = target.stat().st_size
            copied(size - seen)
            seen = size
        return False

    try:
        reader = apsw.Connection(str(source), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            reader.set_busy_timeout(_BUSY_MILLISECONDS)
            reader.set_progress_handler(look, _STEPS)
            # A copy of the pages would include the deleted rows on free pages.
            reader.execute("VACUUM INTO ?", (str(target),)).fetchall()
            look()
        except apsw.IOError as error:
            reason = os.strerror(reader.system_errno)
            raise FileError(f"{source} cannot be copied: {error} ({reason})") from error
        finally:
            reader.close()
    except apsw.FullError as error:
        raise FileError(f"{source} cannot be copied: the disk is full") from error
    except apsw.Error as error:
        raise FileError(f"{source} cannot be copied: {error}") from error


def faults(path: Path) -> list[str]:
    """The errors that `PRAGMA quick_check` finds; empty for an intact file. Reads every page.

    Raises `FileError` if the file cannot be read at all.
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
    """Whether a database has a table of applied migrations. Raises `FileError`."""
    with reading(path) as connection:
        return bool(connection.execute(HAS_LEDGER["sqlite"]).fetchall())


def ledger(path: Path) -> list[tuple[Any, ...]]:
    """The migrations applied to a database, as `migrate.due` takes them; empty if it is not a
    Portico database. Raises `FileError`."""
    with reading(path) as connection:
        known = connection.execute(HAS_LEDGER["sqlite"]).fetchall()
        return connection.execute(APPLIED).fetchall() if known else []


@contextmanager
def reading(path: Path) -> Iterator[apsw.Connection]:
    """A connection to a file. Raises `FileError` in place of apsw's errors."""
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.set_busy_timeout(_BUSY_MILLISECONDS)
            connection.set_progress_handler(lambda: False, _STEPS)  # lets signals be handled
            yield connection
        finally:
            connection.close()
    except apsw.Error as error:
        raise FileError(f"{path} cannot be read: {error}") from error
