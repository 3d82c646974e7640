"""How processes react to signals that end them."""

import asyncio
import os
import shutil
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from portico.cli.output import mention
from portico.data.disk import exists

T = TypeVar("T")

END_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a process from outside: from a supervisor, a time limit or a closed terminal."""

ENDING_SECONDS = 5.0
"""How long a command that is interrupted may take to finish the work under way."""


def interrupted_by() -> list[int]:
    """Makes the signals `END_SIGNALS` interrupt a command as Ctrl-C does, so that it leaves nothing
    half-done. A signal that is ignored, as under nohup, stays ignored. Returns a list to which the
    first such signal is added; later ones are ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a shell's background job
        # Block it instead of ignoring it. asyncio cancels the main task on an interrupt, so that
        # the task can finish its work, only if SIGINT has this handler.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        signal.signal(signal.SIGINT, signal.default_int_handler)
    received: list[int] = []
    heard = [number for number in END_SIGNALS if signal.getsignal(number) is signal.SIG_DFL]

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        for each in heard:
            signal.signal(each, signal.SIG_IGN)
        as_ever = signal.getsignal(signal.SIGINT)
        if not callable(as_ever):  # nothing is under way yet
            raise KeyboardInterrupt
        as_ever(signal.SIGINT, frame)

    for each in heard:
        signal.signal(each, interrupt)
    return received


@contextmanager
def removed_at_end(directory: Path) -> Iterator[Path]:
    """Yields a directory, and removes it in the end with all that it holds. Signals wait meanwhile:
    a second Ctrl-C would leave private keys behind."""
    try:
        yield directory
    finally:
        came: list[int] = []
        # Not blocked: another thread, such as that of a progress bar, would get them.
        before = {
            number: signal.signal(number, lambda number, _: came.append(number))
            for number in (signal.SIGINT, *END_SIGNALS)
        }
        try:
            shutil.rmtree(directory, ignore_errors=True)
            if exists(directory):
                mention(f"portico: {directory} could not be removed, and may hold private keys.")
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            for each in came:
                signal.raise_signal(each)


def end_at_once() -> None:
    """Makes signals end the process immediately, while there is nothing to finish. SIGINT does so
    even if it was ignored before, but a SIGINT that is already pending is dropped."""
    # The first process of a container gets only signals for which it has a handler.
    ending = _end if os.getpid() == 1 else signal.SIG_DFL
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, ending)
    for number in END_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, ending)


def _end(number: int, _frame: FrameType | None) -> None:
    os._exit(128 + number)


async def shielded(
    work: Coroutine[Any, Any, T], made: list[T], *, seconds: float = ENDING_SECONDS
) -> None:
    """Appends the result of `work` to `made`, even if this is cancelled meanwhile: the result may
    be stored by then and hold a secret that is shown once. Prints a remark if `work` does not end
    within `seconds` of the cancellation."""
    working = asyncio.create_task(work)
    try:
        made.append(await asyncio.shield(working))
    except asyncio.CancelledError:
        if not (await asyncio.wait([working], timeout=seconds))[0]:
            working.cancel()
            await asyncio.wait([working])
            mention("portico: the change may have been made: check portico audit.")
        if not working.cancelled():
            made.append(working.result())
        raise


class StopSignals:
    """What signals have asked a server to do. On SIGTERM it keeps serving until load balancers have
    noticed, then stops. On SIGINT, SIGHUP (the terminal is gone) or a second SIGTERM it stops
    without that delay."""

    def __init__(self) -> None:
        """Handles signals from now on."""
        self.leave = asyncio.Event()
        """Set once the process is to stop, now or after the delay."""
        self.stop = asyncio.Event()
        """Set once the process is to stop now."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.terminate)
        loop.add_signal_handler(signal.SIGINT, self.interrupt)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
            loop.add_signal_handler(signal.SIGHUP, self.interrupt)

    def terminate(self) -> None:
        """Does what SIGTERM does."""
        if self.leave.is_set():
            self.stop.set()
        self.leave.set()

    def interrupt(self) -> None:
        """Does what SIGINT does."""
        self.leave.set()
        self.stop.set()
