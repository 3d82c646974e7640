"""Processes in which a server hashes passwords (docs/decisions/0046)."""

import asyncio
import itertools
import json
import logging
import os
import sys
from collections import deque
from contextlib import suppress
from typing import cast

import msgspec

from portico.domain.errors import Unavailable
from portico.services.hashing import HASH, Answer, Request

# -P: do not import modules from the working directory.
COMMAND = (sys.executable, "-P", "-m", "portico.services.hashing")

START_FILES = 12
"""The descriptors that a start takes for a moment."""

ANSWER_BYTES = 1024
"""The longest line of a process. Its answers take 120 bytes."""

_numbers = itertools.count(1)

log = logging.getLogger(__name__)


class Job:
    """A request, and its answer. Two processes may have it: the first answer counts, and it fails
    only if neither can answer."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.number = next(_numbers)
        self.answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.chances = 0
        """How many `HashingProcesses` may still answer it."""

    def finish(self, line: bytes) -> bool:
        """Sets the answer in this line of a process, unless there is one or nobody waits for it.
        Returns whether the line answers this job; a start-up hook of Python may write others."""
        try:
            number, answer = msgspec.json.decode(line, type=tuple[int, Answer])
        except msgspec.DecodeError:
            return False
        expected = str if self.request[0] == HASH else bool
        if number != self.number or not isinstance(answer, expected | None):
            return False
        if not self.answer.done():
            self.answer.set_result(answer)
        return True

    def fail(self) -> None:
        """Raises `Unavailable` where the answer is awaited, unless another process may answer."""
        self.chances -= 1
        if not self.chances and not self.answer.done():
            self.answer.set_exception(Unavailable("Passwords cannot be checked now.", 2))


class HashingProcesses:
    """Up to `count` processes with one priority (a key of `hashing.PRIORITIES`). Each is started by
    `start`, or when there is a job for it, and again after it ended."""

    def __init__(self, count: int, priority: str, limit: float | None = None) -> None:
        """A process that has not answered its job after `limit` seconds is killed, if given."""
        self._count = count
        self.limit = limit
        self._command = (*COMMAND, priority)
        self._waiting: deque[Job] = deque()
        self._processes: list[_Process] = []
        self._starts: set[asyncio.Task[None]] = set()
        self._closed = False
        self.done = 0
        """How many jobs were answered."""

    def start(self) -> None:
        """Starts all processes now. Call it first, and once."""
        for _ in range(self._count):
            self._start_one()

    def put(self, job: Job) -> None:
        """Queues a job. The chance is lost if no process can be started, or if its process ends."""
        job.chances += 1
        self._waiting.append(job)
        self._send()

    def drop(self, job: Job) -> None:
        """Takes a job out of the queue, if it is there. It contains a password."""
        with suppress(ValueError):
            self._waiting.remove(job)

    async def close(self) -> None:
        """Ends the processes. All jobs fail."""
        self._closed = True
        self._fail_waiting()
        await asyncio.gather(*self._starts)
        ending = [*self._processes]
        for process in ending:
            process.end()
        await asyncio.gather(*(process.ended for process in ending))

    def began(self, process: "_Process") -> None:
        """Called by a process once it takes jobs."""
        self._processes.append(process)
        self._send()

    def answered(self) -> None:
        """Called by a process when it answered its job."""
        self.done += 1
        self._send()

    def ended(self, process: "_Process") -> None:
        """Called by a process when it takes no more jobs."""
        self._processes.remove(process)
        if not self._closed:
            log.warning("a process that hashes passwords ended; another starts when it is needed")
        self._send()

    def _send(self) -> None:
        while self._waiting:
            process = next((one for one in self._processes if one.job is None), None)
            if process is None:
                if len(self._processes) + len(self._starts) < self._count:
                    self._start_one()
                return
            process.take(self._waiting.popleft())

    def _start_one(self) -> None:
        start = asyncio.ensure_future(self._start())
        self._starts.add(start)
        start.add_done_callback(self._started)

    async def _start(self) -> None:
        loop = asyncio.get_running_loop()
        # The program needs none of the settings, some of which are secret.
        variables = {
            name: value for name, value in os.environ.items() if not name.startswith("PORTICO_")
        }
        try:
            _require_files(START_FILES)
            await loop.subprocess_exec(
                lambda: _Process(self), *self._command, stderr=None, env=variables
            )
        except (OSError, RuntimeError) as error:  # out of memory, processes, threads or files
            if not self._processes:
                reason = getattr(error, "strerror", error)
                log.warning("no process that hashes passwords could be started (%s)", reason)
                self._fail_waiting()

    def _started(self, start: asyncio.Task[None]) -> None:
        self._starts.discard(start)
        if not self._processes:  # it has ended already
            self._send()

    def _fail_waiting(self) -> None:
        while self._waiting:
            self._waiting.popleft().fail()


def _require_files(count: int) -> None:
    """Raises `OSError` unless so many more descriptors can be opened. If uvloop lacks one while it
    starts a process, it never closes the others."""
    opened: list[int] = []
    try:
        opened.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(count))
    finally:
        for descriptor in opened:
            os.close(descriptor)


class _Process(asyncio.SubprocessProtocol):
    """A process, and the job that it has."""

    def __init__(self, owner: HashingProcesses) -> None:
        self._owner = owner
        self._takes_jobs = True
        self._output = b""
        self._expiry: asyncio.TimerHandle | None = None
        self.job: Job | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the process is no more."""

    def take(self, job: Job) -> None:
        """Sends a job to the process, which must have none."""
        self.job = job
        if self._owner.limit is not None:
            loop = asyncio.get_running_loop()
            self._expiry = loop.call_later(self._owner.limit, self._expire)
        self._input.write(json.dumps([job.number, *job.request]).encode() + b"\n")

    def end(self) -> None:
        """Kills the process, and fails its job."""
        if self._takes_jobs:
            self._takes_jobs = False
            self._cancel_expiry()
            self._transport.close()
            if self.job is not None:
                self.job.fail()
            self._owner.ended(self)

    def _expire(self) -> None:
        log.warning("a process that hashes passwords did not answer in time and is killed")
        if self.job is not None:
            self.job.chances = 1  # any other process has had it for longer
        self.end()

    def _cancel_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)
        self._input = cast(asyncio.WriteTransport, self._transport.get_pipe_transport(0))
        self._owner.began(self)

    def pipe_data_received(self, _fd: int, data: bytes) -> None:
        self._output += data
        if not self._output.endswith(b"\n") and len(self._output) <= ANSWER_BYTES:
            return
        if self.job is not None and self.job.finish(self._output):
            self.job, self._output = None, b""
            self._cancel_expiry()
            self._owner.answered()
        else:
            log.warning("a process that hashes passwords wrote something else than an answer")
            self.end()

    def pipe_connection_lost(self, _fd: int, _error: Exception | None) -> None:
        self.end()

    def connection_lost(self, _error: Exception | None) -> None:
        self.end()
        if not self.ended.done():
            self.ended.set_result(None)
