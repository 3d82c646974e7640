"""Hands out ports of the loopback address, each to one test only."""

import fcntl
import os
import secrets
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

_given: set[int] = set()
"""The ports that this process has handed out."""


def free_port(among: range, *also: int) -> int:
    """A free port `among` these, for which the ports at the distances `also` above it are free too.
    It is not handed out again while this process lives, nor by another process of this user, even
    one of another test run."""
    while True:
        port = secrets.choice(among)
        if _is_reserved(port) and all(_is_free(port + above) for above in (0, *also)):
            return port


def _is_reserved(port: int) -> bool:
    """Reserves a port by a lock on one byte of a file, which ends with the process. Returns False
    if it is reserved already."""
    if port in _given:
        return False
    with suppress(BlockingIOError):
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        _given.add(port)
        return True
    return False


@cache
def _locks() -> int:
    """The file that all processes lock. It is never closed, since that would release all locks."""
    # Not in TMPDIR, which differs from run to run, while all runs share the ports.
    file = Path("/tmp", f"portico-test-ports-{os.getuid()}")  # noqa: S108 - it holds nothing
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_free(port: int) -> bool:
    with socket.socket() as candidate, suppress(OSError):
        candidate.bind(("127.0.0.1", port))
        return True
    return False
