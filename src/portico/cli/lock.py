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
def only_server(data: Path, port: int) -> Iterator[None]:
    """Holds the data directory for a server on `port`; the system lets go of it if this process
    dies.

    Raises `CommandError` where another server has it.
    """
    lock = os.open(data / NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not _taken(lock):
            if time.monotonic() > deadline:
                raise CommandError(
                    f"Another server, process {_held(lock).process}, uses the data directory"
                    f" {data}. Stop it first; --workers serves with more processes, --data serves"
                    " other data."
                )
            time.sleep(WAIT_SECONDS / 20)
        os.ftruncate(lock, 0)
        with needing_room(data / NAME):
            os.pwrite(lock, f"{os.getpid()} {port}".encode(), 0)
        yield
    finally:
        os.close(lock)


class Holder(NamedTuple):
    """The server that uses a data directory."""

    process: int
    port: int


def holder(data: Path) -> Holder | None:
    """The server that uses the data directory, if one does."""
    try:
        lock = os.open(data / NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        return None if _taken(lock) else _held(lock)
    finally:
        os.close(lock)


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _held(lock: int) -> Holder:
    process, _, port = os.pread(lock, 40, 0).partition(b" ")
    return Holder(int(process or 0), int(port or 0))
