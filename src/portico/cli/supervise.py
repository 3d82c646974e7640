"""The supervisor of several workers: starts them, and restarts one that dies."""

import asyncio
import logging
import pickle
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from portico.cli.stopping import StopSignals
from portico.settings import Settings

STEADY_SECONDS = 10.0
"""A worker that lived at least this long is restarted immediately, others after a pause."""

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
STOP_SECONDS = 40.0
"""More than a worker takes to finish its requests, once it accepts no new ones."""

RUN = "run"
"""The subdirectory of the data directory through which workers share metrics."""

# -P: do not import modules from the working directory.
COMMAND = (sys.executable, "-P", "-m", "portico.cli.worker")

log = logging.getLogger(__name__)


async def supervise(settings: Settings, listening: Callable[[], None], *, migrates: bool) -> None:
    """Keeps `settings.workers` processes serving until SIGTERM or SIGINT, and calls `listening`
    once all of them do. `migrates` is as in `serve`."""
    shutil.rmtree(settings.data / RUN, ignore_errors=True)
    (settings.data / RUN).mkdir(mode=0o700)
    signals = StopSignals()
    workers = [
        _Worker(settings, number + 1, signals, migrates=migrates)
        for number in range(settings.workers)
    ]
    telling = asyncio.create_task(_tell(workers, listening))
    await asyncio.gather(*(worker.tend() for worker in workers))
    telling.cancel()


async def _tell(workers: Sequence["_Worker"], listening: Callable[[], None]) -> None:
    for worker in workers:
        await worker.listens.wait()
    listening()


class _Worker:
    """One numbered worker, and the process that currently runs it."""

    def __init__(
        self, settings: Settings, number: int, signals: StopSignals, *, migrates: bool
    ) -> None:
        self._number = number
        self._signals = signals
        self._stop_seconds = STOP_SECONDS + settings.drain_seconds
        # Sent by a pipe: settings hold passwords. Other users see arguments, and children of the
        # worker would inherit its environment.
        self._start = pickle.dumps((settings, number, migrates))
        self.listens = asyncio.Event()

    async def tend(self) -> None:
        """Keeps a process running until the server is to stop."""
        loop = asyncio.get_running_loop()
        pause = 0.0
        while not await self._stopped_within(pause):
            started = loop.time()
            became = await self._fill()
            if self._signals.leave.is_set():
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
        """Starts a process, waits for its end, and returns how it ended, for the log."""
        try:
            # In a session of its own, so that the terminal's Ctrl-C reaches it only through us.
            process = await asyncio.create_subprocess_exec(
                *COMMAND, stdin=PIPE, stdout=PIPE, start_new_session=True
            )
        # Out of memory, processes, files or threads: the other workers keep serving.
        except (OSError, RuntimeError) as error:
            return f"could not be started ({getattr(error, 'strerror', error)})"
        await self._watch(process)
        return f"ended with {process.returncode}"

    async def _watch(self, process: Process) -> None:
        """Returns when the process has ended. Tells it to stop once the server stops."""
        # The pipe stays open for as long as this process lives: its closing stops the worker.
        cast(asyncio.StreamWriter, process.stdin).write(self._start)
        hearing = asyncio.ensure_future(self._hear(cast(asyncio.StreamReader, process.stdout)))
        ended = asyncio.ensure_future(process.wait())
        await _first(ended, self._signals.leave.wait(), None)
        if not ended.done():
            _send(process, signal.SIGTERM)
            await _first(ended, self._signals.stop.wait(), self._stop_seconds)
        if not ended.done() and self._signals.stop.is_set():
            _send(process, signal.SIGINT)
            await asyncio.wait([ended], timeout=STOP_SECONDS)
        if not ended.done():
            process.kill()
            await ended
        await hearing

    async def _hear(self, output: asyncio.StreamReader) -> None:
        if await output.read(1):
            self.listens.set()

    async def _stopped_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._signals.leave.wait(), seconds)
        return self._signals.leave.is_set()


async def _first(ended: asyncio.Future[int], event: Awaitable[Any], seconds: float | None) -> None:
    """Returns when a process has ended, `event` is done, or the seconds are over."""
    telling = asyncio.ensure_future(event)
    awaited: list[asyncio.Future[Any]] = [ended, telling]
    await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    telling.cancel()


def _send(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has just ended
        process.send_signal(number)
