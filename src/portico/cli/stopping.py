"""What the process is told by signals: to leave, and to stop."""

import asyncio
import signal
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

from portico.cli.output import mention

T = TypeVar("T")

ENDS = (signal.SIGTERM, signal.SIGHUP)
"""What ends a process from without: a supervisor, a time limit, a terminal that is gone."""

ENDING_SECONDS = 5.0
"""How long is waited for what was under way as a command is ended."""


def interrupted_by() -> list[int]:
    """Has what ends a process interrupt a command, as Ctrl-C does, so that it leaves nothing
    half-done behind; but not what is ignored here, as by nohup. Returns where the first that comes
    is noted; what comes after it disturbs nothing."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as of what began in the background
        # Held back it is as unheard, and asyncio, which looks for this handler, ends a command by
        # what it was asked for, which then finishes, and not by all that this consists of.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    told: list[int] = []
    heard = [number for number in ENDS if signal.getsignal(number) is signal.SIG_DFL]

    def interrupt(number: int, frame: FrameType | None) -> None:
        told.append(number)
        for each in heard:
            signal.signal(each, signal.SIG_IGN)
        as_ever = signal.getsignal(signal.SIGINT)
        if not callable(as_ever):  # nothing has begun yet
            raise KeyboardInterrupt
        as_ever(signal.SIGINT, frame)

    for each in heard:
        signal.signal(each, interrupt)
    return told


def end_at_once() -> None:
    """Has signals end the process, while there is nothing to finish; SIGINT also where it was
    ignored, but no earlier one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for number in ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


async def whole(
    work: Coroutine[Any, Any, T], made: list[T], *, seconds: float = ENDING_SECONDS
) -> None:
    """Adds what `work` returns to `made`, also where this is cancelled meanwhile: it may be stored
    by then, and hold what is shown but once. Says so where that does not end within `seconds`."""
    working = asyncio.create_task(work)
    try:
        made.append(await asyncio.shield(working))
    except asyncio.CancelledError:
        if not (await asyncio.wait([working], timeout=seconds))[0]:
            working.cancel()
            await asyncio.wait([working])
            mention("portico: what was under way may have been carried out: portico audit tells.")
        if not working.cancelled():
            made.append(working.result())
        raise


class Told:
    """SIGTERM has the process leave: it serves until balancers know. SIGINT, whose sender waits for
    it, SIGHUP of a terminal that is gone, and a second SIGTERM have it stop without that."""

    def __init__(self) -> None:
        """Hears of signals from now on."""
        self.leave = asyncio.Event()
        """Set once the process is to stop, now or soon."""
        self.stop = asyncio.Event()
        """Set once it is to stop now."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.terminate)
        loop.add_signal_handler(signal.SIGINT, self.interrupt)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
            loop.add_signal_handler(signal.SIGHUP, self.interrupt)

    def terminate(self) -> None:
        """As SIGTERM."""
        if self.leave.is_set():
            self.stop.set()
        self.leave.set()

    def interrupt(self) -> None:
        """As SIGINT."""
        self.leave.set()
        self.stop.set()
