"""Which processes hash passwords, and which scheduling policies the system allows; some refuse
them, such as to containers."""

import os
import threading
from contextlib import suppress
from pathlib import Path

from portico.services.hashing_processes import COMMAND


def taken(policy: int) -> int:
    """The policy of a thread that has requested this one."""
    had: list[int] = []

    def ask() -> None:
        with suppress(OSError):
            os.sched_setscheduler(0, policy, os.sched_param(0))
        had.append(os.sched_getscheduler(0))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return had[0]


def hashing_for(pid: int) -> dict[int, str]:
    """The processes that hash passwords for this one, and their priorities."""
    found = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            parent = status.read_text("utf-8").rpartition(")")[2].split()[1]
            words = (status.parent / "cmdline").read_text("utf-8").split("\0")[:-1]
            if parent == str(pid) and tuple(words[1:-1]) == COMMAND[1:]:
                found[int(status.parent.name)] = words[-1]
    return found
