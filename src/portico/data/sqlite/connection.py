"""Connections to a SQLite file, and the meaning of their errors."""

import logging
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

import apsw

from portico.core.errors import DatabaseUnusable, Unavailable
from portico.core.text import case_key
from portico.data.disk import exists, resolved

OLDEST_SAFE = (3, 51, 3)
"""SQLite 3.7.0 to 3.51.2 can corrupt a WAL database that two connections write and checkpoint."""

BUSY_SECONDS = 5.0
"""How long a statement waits for a lock that another process holds."""

LOG_BYTES = 4_000_000
"""The size to which the write-ahead log is truncated when it starts over, which it does every 1,000
pages of 4 KiB. Old content beyond it would otherwise stay until the log grew as long again."""

SHARED_BYTES = 32 * 1024
"""By how much the file of the connections' shared memory grows at a time."""

CASE_KEY = "case_key"
"""The SQL function for `core.text.case_key`."""

_PUT_BACK = "put the file back, or, if it is lost, restore a backup into a new directory."

log = logging.getLogger(__name__)


def sqlite_version() -> tuple[int, ...]:
    """The version of the SQLite library, such as (3, 51, 3)."""
    return tuple(int(part) for part in apsw.sqlite_lib_version().split(".")[:3])


def connect(path: Path, *, cache_kib: int = 8192, create: bool = False) -> apsw.Connection:
    """A connection with the settings that every connection of Portico needs. If the file is missing
    or empty, it is created if `create`, or else `apsw.CantOpenError` is raised."""
    if not create and is_empty(path):
        raise apsw.CantOpenError("there is nothing in it")  # SQLite would begin a database there
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
    connection = apsw.Connection(str(path), flags=flags)
    connection.set_busy_timeout(int(BUSY_SECONDS * 1000))
    # Otherwise SQLite plans a statement with a join again for every new value: 20 µs instead of 2.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.create_scalar_function(CASE_KEY, _case_key, 1, deterministic=True)
    _keep_log(connection)
    connection.execute(
        "PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;"
        # Not FAST, which keeps the content of whole pages that become free.
        f"PRAGMA secure_delete=ON; PRAGMA journal_size_limit={LOG_BYTES};"
        f"PRAGMA temp_store=MEMORY; PRAGMA cache_size=-{cache_kib}"
    ).fetchall()  # apsw stops at the first row unless all are fetched
    return connection


def _keep_log(connection: apsw.Connection) -> None:
    """Has a write-ahead log kept. While another process begins the same file SQLite refuses this at
    once, without regard to the busy timeout."""
    end = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL").fetchall()
        except apsw.BusyError:
            if time.monotonic() >= end:
                raise
            time.sleep(0.01)
        else:
            return


def _case_key(*values: Any) -> str:
    return case_key(values[0])


def is_empty(path: Path) -> bool:
    """Whether a file is missing or empty."""
    with suppress(FileNotFoundError):
        return path.stat().st_size == 0
    return True


class OpenedFile:
    """Checks that an opened database file is still at its path, together with its log. Whatever is
    written to a file that was moved or deleted is lost, and SQLite does not notice.

    If another file took its place, SQLite would apply the log there to that file and corrupt it. So
    the log is moved aside, and moved back once the file is put back."""

    def __init__(self, path: Path) -> None:
        """`path` is the database file. It stays open, as do SQLite's other files beside it."""
        self.path = path
        self._opened = {file: file.stat() for file in files_of(path)}
        self._aside = {file: _aside(file, path) for file in self._opened if file != path}
        self._missing: Path | None = None
        self._checking = Lock()

    def require(self) -> None:
        """Raises `Unavailable` if the file is missing."""
        if not self.check():
            raise Unavailable(
                "The database's file is gone; nothing was changed.", retry_after=30, why="gone"
            )

    def connect(self) -> apsw.Connection:
        """Opens another connection to this same file. Raises `Unavailable`."""
        self.require()
        return connect(self.path)

    def check(self) -> bool:
        """Whether all files are there, as far as that can be determined; logs once if not. Takes
        some microseconds."""
        with self._checking:
            return self._check()

    def _check(self) -> bool:
        try:
            missing = self._first_missing()
            aside = self._move_aside() if missing == self.path else []
            if missing in self._aside:
                self._move_back()
                missing = self._first_missing()
        except OSError:  # does not show where the file is
            return self._missing is None
        if aside or missing not in (None, self._missing):
            log.error(
                "%s was removed, moved or replaced while it was open: nothing is written until it"
                " is put back. If another file is to take its place, or if it was a log and is"
                " lost, restart the server.%s",
                missing,
                f" The files beside it were moved to {' and '.join(aside)}." if aside else "",
            )
        self._missing = missing
        return missing is None

    def _first_missing(self) -> Path | None:
        return next((file for file in self._opened if not self._is_at(file, file)), None)

    def _is_at(self, file: Path, at: Path) -> bool:
        """Whether the opened `file` is now `at` this path. Raises `OSError` if that is unknown."""
        try:
            return os.path.samestat(at.stat(), self._opened[file])
        except (FileNotFoundError, NotADirectoryError):
            return False

    def _move_aside(self) -> list[str]:
        """If another file took this one's place, moves this one's log and shared memory aside.
        Returns their new paths."""
        if not exists(self.path) or self._is_at(self.path, self.path):
            return []
        beside = [file for file in self._aside if self._is_at(file, file)]
        moved = [str(self._aside[file]) for file in beside if _renamed(file, self._aside[file])]
        if self._is_at(self.path, self.path):  # it was put back meanwhile
            self._move_back()
            return []
        return moved

    def _move_back(self) -> None:
        """Moves back the files that were moved aside, unless others are in their place."""
        for file, aside in self._aside.items():
            if self._is_at(file, aside) and not exists(file):
                _renamed(aside, file)


def files_of(path: Path) -> list[Path]:
    """The existing files of a database: its own, and SQLite's log and shared memory beside it."""
    # The log first: the shared memory can be rebuilt from it.
    files = [path, *(_beside(path, kind) for kind in ("wal", "shm"))]
    return [file for file in files if exists(file)]


def _beside(path: Path, kind: str) -> Path:
    """The path of SQLite's file of this kind, which is beside the target of a symbolic link."""
    real = resolved(path)
    return real.with_name(f"{real.name}-{kind}")


def _aside(file: Path, database: Path) -> Path:
    """Where a file beside a database is moved to if another database takes its place. The name has
    the inode of the database, to which it belongs. Raises `FileNotFoundError` without a database.
    """
    return file.with_name(f"{file.name}.lost-{database.stat().st_ino}")


def _renamed(file: Path, name: Path) -> bool:
    """Renames a file, if possible; returns whether it was."""
    with suppress(OSError):
        file.rename(name)
        return True
    return False


def opened(path: Path, *, create: bool) -> tuple[apsw.Connection, apsw.Connection]:
    """A connection to read and one to write, which does not wait for locks. A missing file is
    created if `create`. Raises `Unavailable`."""
    if sqlite_version() < OLDEST_SAFE:
        raise Unavailable(
            f"SQLite {apsw.sqlite_lib_version()} can corrupt a database in WAL mode; "
            "install apsw 3.51.3 or newer."
        )
    if create:
        require_no_leftover_log(path)
    _require_no_log_aside(path)
    try:
        reader = connect(path, cache_kib=32768, create=create)
        writer = connect(path)
        writer.set_busy_timeout(0)
    except apsw.Error as error:
        raise _unopened(path, error) from error
    return reader, writer


def require_no_leftover_log(path: Path) -> None:
    """Raises `Unavailable` if the file is missing but its log is not. SQLite would empty the log,
    and the last writes would be lost even if the file were put back."""
    rest = _beside(path, "wal")
    if is_empty(path) and not is_empty(rest):
        raise Unavailable(
            f"There is no {path}, but there is its log, {rest}, with the last writes: {_PUT_BACK}"
        )


def _require_no_log_aside(path: Path) -> None:
    """Raises `Unavailable` if the file's log was moved aside and not moved back."""
    log = _beside(path, "wal")
    with suppress(FileNotFoundError):
        aside = _aside(log, path)
        if exists(aside) and is_empty(log):
            raise Unavailable(
                f"The last writes to {path} are in {aside}, moved there when another file took its"
                f" place: rename that to {log.name}, or remove it if it is not wanted."
            )


def is_read_only(path: Path) -> bool:
    """Whether a file's file system is read-only. Even to read, SQLite then lacks what it keeps
    beside the file."""
    return bool(os.statvfs(path.parent).f_flag & os.ST_RDONLY)


READ_ONLY = (
    "its file system is read-only: make it writable (the kernel's log says why it is not), or copy"
    " the data directory to another one"
)


def _unopened(path: Path, error: apsw.Error) -> Unavailable:
    """Why a file cannot be opened. If the disk is too full for the connections' shared memory,
    SQLite reports an I/O error, as for a broken disk."""
    if isinstance(error, apsw.CantOpenError) and is_empty(path):
        found = f"{path} is empty" if exists(path) else f"There is no {path}"
        return Unavailable(f"{found}: {_PUT_BACK}")
    reason = str(error)
    if isinstance(error, apsw.CantOpenError) and is_read_only(path):
        reason = READ_ONLY
    if isinstance(error, apsw.FullError) or (
        isinstance(error, apsw.IOError) and shutil.disk_usage(path.parent).free < SHARED_BYTES
    ):
        reason = "the disk is full: make room"
    return Unavailable(f"{path} cannot be opened: {reason}.")


def translated(error: apsw.Error, path: Path) -> Exception:
    """The error of the `Database` interface for one of `OUTAGES`."""
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return DatabaseUnusable(f"{path} is damaged: {error}.")
    if isinstance(error, apsw.SQLError):
        if str(error).startswith("no such table: "):
            return DatabaseUnusable(f"{path} is incomplete: {error}.")
        return apsw.SQLError(str(error))  # the statement is wrong, not the file
    if isinstance(error, apsw.FullError):
        return Unavailable(
            "The server's disk is full; nothing was changed.", retry_after=30, why="full"
        )
    if isinstance(error, apsw.ReadOnlyError):
        return Unavailable(
            "The database accepts no writes; nothing was changed.", retry_after=2, why="read_only"
        )
    return Unavailable("The database is busy or unreachable; nothing was changed.", retry_after=2)


OUTAGES = (
    apsw.BusyError,
    apsw.LockedError,
    apsw.FullError,
    apsw.IOError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.NoMemError,
    apsw.InterruptError,
    apsw.ProtocolError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.SQLError,
)
