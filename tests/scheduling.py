"""Which scheduling policies the system allows; some refuse them, such as to containers."""

import os
import threading
from contextlib import suppress


def policy_of_a_thread(wanted: int) -> int:
    """The policy of a thread that has requested this one."""
    had: list[int] = []

    def ask() -> None:
        with suppress(OSError):
            os.sched_setscheduler(0, wanted, os.sched_param(0))
        had.append(os.sched_getscheduler(0))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return had[0]
