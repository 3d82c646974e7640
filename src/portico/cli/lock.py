"""One server for each data directory: the counters of a second one would be its own."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from portico.cli.output import CommandError, needing_room

WAIT_SECONDS = 1.0
"""How long a server that just ended may take to leave the directory."""

NAME = "server.lock"


@contextmanager
def only_server(data: Path, host: str, port: int) -> Iterator[None]:
    """Holds the data directory for a server on `host` and `port`; the system lets go of it if this
    process dies.

    Raises `CommandError` where another server has it.
    """
    lock = os.open(data / NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not _taken(lock, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise CommandError(
                    f"Another server, process {_held(lock).process}, uses the data directory"
                    f" {data}. Stop it first; --workers serves with more processes, --data serves"
                    " other data."
                )
            time.sleep(WAIT_SECONDS / 20)
        os.ftruncate(lock, 0)
        with needing_room(data / NAME):
            os.pwrite(lock, f"{os.getpid()} {port} {host}".encode(), 0)
        yield
        os.ftruncate(lock, 0)
    finally:
        os.close(lock)


class Holder(NamedTuple):
    """The server that uses a data directory."""

    process: int
    port: int
    """0 as it begins."""
    host: str
    """Empty as it begins, and of a server of an earlier release."""


def holder(data: Path) -> Holder | None:
    """The server that uses the data directory, if one does."""
    try:
        lock = os.open(data / NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        # Shared, so that of two who ask none takes the other for a server.
        return None if _taken(lock, fcntl.LOCK_SH) else _held(lock)
    except OSError:  # of a file system that has no locks
        return None
    finally:
        os.close(lock)


def listening(data: Path) -> dict[str, str | int]:
    """The settings `host` and `port` of the server that uses the data directory, where they are
    known: its flags may have given them, which no command sees."""
    held = holder(data)
    return {"host": held.host, "port": held.port} if held and held.port and held.host else {}


def _taken(lock: int, how: int) -> bool:
    try:
        fcntl.flock(lock, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _held(lock: int) -> Holder:
    process, port, host = [*os.pread(lock, 100, 0).decode().split(" "), "", ""][:3]
    return Holder(int(process or 0), int(port or 0), host)
