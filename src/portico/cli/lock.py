"""One server for each data directory: the counters of a second one would be its own."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from portico.cli.output import CommandError

WAIT_SECONDS = 1.0
"""How long a server that just ended may take to leave the directory."""

NAME = "server.lock"


@contextmanager
def only_server(data: Path) -> Iterator[None]:
    """Holds the data directory; the system lets go of it if this process dies.

    Raises `CommandError` where another server has it.
    """
    lock = os.open(data / NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not _taken(lock):
            if time.monotonic() > deadline:
                raise CommandError(
                    f"Another server, process {_process(lock)}, uses the data directory {data}."
                    " Stop it first; --workers serves with more processes, --data serves other"
                    " data."
                )
            time.sleep(WAIT_SECONDS / 20)
        os.ftruncate(lock, 0)
        os.pwrite(lock, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(lock)


def holder(data: Path) -> int | None:
    """The process of the server that uses the data directory, if one does."""
    try:
        lock = os.open(data / NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        return None if _taken(lock) else _process(lock)
    finally:
        os.close(lock)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _process(lock: int) -> int:
    return int(os.pread(lock, 20, 0) or 0)
