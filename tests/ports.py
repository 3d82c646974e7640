"""Ports of the loopback address, each given to one test alone."""

import fcntl
import os
import secrets
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

_given: set[int] = set()
"""Those that this process has given already."""


def free_port(among: range, *also: int) -> int:
    """A port that nobody listens on, nor on those that are `also` as far above it. It is given to
    nobody else while this process lives, nor by another process of this user, whichever run of the
    tests that belongs to."""
    while True:
        port = secrets.choice(among)
        if _is_reserved(port) and all(_is_free(port + above) for above in (0, *also)):
            return port


def _is_reserved(port: int) -> bool:
    """Whether it is ours from now on: by a lock on one byte, which ends with the process."""
    if port in _given:
        return False
    with suppress(BlockingIOError):
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        _given.add(port)
        return True
    return False


@cache
def _locks() -> int:
    """The file that all processes lock: never closed, for that would end all locks of this one."""
    # Not in TMPDIR, which each run has for itself: all of them share the ports.
    file = Path("/tmp", f"portico-test-ports-{os.getuid()}")  # noqa: S108 - it holds nothing
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _is_free(port: int) -> bool:
    with socket.socket() as candidate, suppress(OSError):
        candidate.bind(("127.0.0.1", port))
        return True
    return False
