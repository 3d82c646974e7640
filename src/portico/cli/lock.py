"""Only one server may use a data directory, since a second one would keep separate rate counters,
and only one may listen on a port."""

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from portico.cli.output import CommandError, needing_room

WAIT_SECONDS = 1.0
"""How long to wait for a server that just ended to release the directory."""

NAME = "server.lock"


@contextmanager
def only_server(data: Path, host: str, port: int) -> Iterator[None]:
    """Locks the data directory for a server on `host` and `port`. The system releases the lock if
    this process dies.

    Raises `CommandError` if another server has locked it.
    """
    lock = os.open(data / NAME, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        deadline = time.monotonic() + WAIT_SECONDS
        while not _taken(lock, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise CommandError(
                    f"Another server, process {_held(lock).process}, uses the data directory"
                    f" {data}. Stop it first. To run more processes use --workers; to serve other"
                    " data use --data."
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
    """0 while it starts."""
    host: str
    """Empty while it starts, and for a server of an earlier release."""


def holder(data: Path) -> Holder | None:
    """The server that uses the data directory, or None."""
    try:
        lock = os.open(data / NAME, os.O_RDONLY)
    except OSError:
        return None
    try:
        # A shared lock, so that two processes that ask do not take each other for a server.
        return None if _taken(lock, fcntl.LOCK_SH) else _held(lock)
    except OSError:  # a file system without locks
        return None
    finally:
        os.close(lock)


def is_elsewhere(data: Path) -> bool:
    """Whether the server that uses the data directory runs in another container. Linux lists the
    locks of all processes but those of other containers."""
    try:
        seen = Path("/proc/locks").read_text("ascii")
        number = (data / NAME).stat().st_ino
    except OSError:
        return False
    return f":{number} " not in seen


def listening(data: Path) -> dict[str, str | int]:
    """The settings `host` and `port` of the server that uses the data directory, if they are known.
    They may come from its flags, which other commands do not see."""
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


PORT_SECONDS = 1.0
"""How long to wait for a server that just ended to release its port."""

ANOTHER_PORT = "stop it, or choose another port"
_ELSEWHERE = "choose another host or port"
_PRIVILEGED = (
    "choose a port from 1024 on, or name CAP_NET_BIND_SERVICE in the service's AmbientCapabilities"
    " and CapabilityBoundingSet"
)


class PortFault(NamedTuple):
    """Why a server cannot listen on a port, and what to do about it."""

    message: str
    advice: str
    is_used: bool


def port_fault(host: str, port: int) -> PortFault | None:
    """Why a server cannot listen on a port, or None."""
    deadline = time.monotonic() + PORT_SECONDS
    where = f"{host} port {port}"
    while (error := _refusal(host, port)) is not None:
        if error.errno != errno.EADDRINUSE:
            message = f"{where} cannot be used: {error.strerror}"
            advice = _PRIVILEGED if error.errno == errno.EACCES else _ELSEWHERE
            return PortFault(message, advice, is_used=False)
        if time.monotonic() > deadline:
            message = f"{where} is in use by another program"
            return PortFault(message, ANOTHER_PORT, is_used=True)
        time.sleep(PORT_SECONDS / 20)
    return None


def _refusal(host: str, port: int) -> OSError | None:
    """The error of binding a port now, or None. Servers bind with SO_REUSEPORT, so only this probe,
    which does not, detects a second one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error
    return None
