"""The supervisor of several workers: starts each, and again where one dies."""

import asyncio
import logging
import os
import pickle
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from portico.cli.stopping import Told
from portico.settings import Settings

STEADY_SECONDS = 10.0
"""A worker that lived as long is started again at once, another after a pause."""

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
STOP_SECONDS = 40.0
"""More than a worker takes to finish what is under way, once it has left."""

RUN = "run"
"""The directory, within that of the data, of what workers tell each other."""

# -P: what lies in the working directory is not imported.
COMMAND = (sys.executable, "-P", "-m", "portico.cli.worker")

log = logging.getLogger(__name__)


async def supervise(settings: Settings, listening: Callable[[], None], *, migrates: bool) -> None:
    """Keeps `settings.workers` processes serving until SIGTERM or SIGINT, and calls `listening`
    once all of them do. `migrates` is as in `serve`."""
    shutil.rmtree(settings.data / RUN, ignore_errors=True)
    (settings.data / RUN).mkdir(mode=0o700)
    _watch_without_threads()
    told = Told()
    workers = [
        _Worker(settings, number + 1, told, migrates=migrates) for number in range(settings.workers)
    ]
    telling = asyncio.create_task(_tell(workers, listening))
    await asyncio.gather(*(worker.tend() for worker in workers))
    telling.cancel()


def _watch_without_threads() -> None:
    """Has asyncio watch processes by file descriptors where the system can. By a thread for each,
    as it does else until Python 3.12, none can be started where no process more is allowed."""
    if sys.version_info < (3, 12):
        with suppress(OSError, AttributeError):
            os.close(os.pidfd_open(os.getpid()))
            watcher = asyncio.PidfdChildWatcher()
            watcher.attach_loop(asyncio.get_running_loop())
            asyncio.set_child_watcher(watcher)


async def _tell(workers: Sequence["_Worker"], listening: Callable[[], None]) -> None:
    for worker in workers:
        await worker.listens.wait()
    listening()


class _Worker:
    """One place among the workers, and the process that fills it."""

    def __init__(self, settings: Settings, number: int, told: Told, *, migrates: bool) -> None:
        self._number = number
        self._told = told
        self._stop_seconds = STOP_SECONDS + settings.drain_seconds
        # Settings hold passwords, so they come by neither the command line nor the environment.
        self._start = pickle.dumps((settings, number, migrates))
        self.listens = asyncio.Event()

    async def tend(self) -> None:
        """Sees that there is a process, until the server is to stop."""
        loop = asyncio.get_running_loop()
        pause = 0.0
        while not await self._stopped_within(pause):
            started = loop.time()
            became = await self._fill()
            if self._told.leave.is_set():
                return
            lived = loop.time() - started
            pause = (
                0.0
                if lived >= STEADY_SECONDS
                else min(max(pause * 2, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
            )
            log.error(
                "worker %d %s after %.0f seconds; another starts in %.1f seconds",
                self._number,
                became,
                lived,
                pause,
            )

    async def _fill(self) -> str:
        """Starts a process, and returns what became of it once it has ended."""
        try:
            # In a session of its own, a worker hears of Ctrl-C from here alone.
            process = await asyncio.create_subprocess_exec(
                *COMMAND, stdin=PIPE, stdout=PIPE, start_new_session=True
            )
        # No memory, process or file is left now, or no thread to watch it by: the others serve on.
        except (OSError, RuntimeError) as error:
            return f"could not be started ({getattr(error, 'strerror', error)})"
        await self._watch(process)
        return f"ended with {process.returncode}"

    async def _watch(self, process: Process) -> None:
        """Returns when the process has ended, which it is told to do once the server stops."""
        # The pipe stays open for as long as this process lives: its end ends the worker.
        cast(asyncio.StreamWriter, process.stdin).write(self._start)
        hearing = asyncio.ensure_future(self._hear(cast(asyncio.StreamReader, process.stdout)))
        ended = asyncio.ensure_future(process.wait())
        await _first(ended, self._told.leave.wait(), None)
        if not ended.done():
            _send(process, signal.SIGTERM)
            await _first(ended, self._told.stop.wait(), self._stop_seconds)
        if not ended.done() and self._told.stop.is_set():
            _send(process, signal.SIGINT)
            await asyncio.wait([ended], timeout=STOP_SECONDS)
        if not ended.done():
            process.kill()
            await ended
        await hearing

    async def _hear(self, told: asyncio.StreamReader) -> None:
        if await told.read(1):
            self.listens.set()

    async def _stopped_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._told.leave.wait(), seconds)
        return self._told.leave.is_set()


async def _first(ended: asyncio.Future[int], told: Awaitable[Any], seconds: float | None) -> None:
    """Returns when a process has ended, or something is told, or after so many seconds."""
    telling = asyncio.ensure_future(told)
    awaited: list[asyncio.Future[Any]] = [ended, telling]
    await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    telling.cancel()


def _send(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it ended this moment
        process.send_signal(number)
