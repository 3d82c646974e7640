"""Password hashing with argon2id, in threads, a bounded number at a time.

A hash takes 12 ms of a core, so a server's hashing threads run only when the processor is idle and
their queue is short: a flood of logins gets 503 and never slows requests that need no password.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from functools import partial
from mmap import mmap
from queue import SimpleQueue
from typing import Generic, TypeVar

from nacl.exceptions import CryptoError
from nacl.pwhash import argon2id

from portico.domain.errors import Unavailable

T = TypeVar("T")

MEMORY_KIB = 19 * 1024
ITERATIONS = 2
LANES = 1
"""The only value that libsodium supports."""

THREADS = 2
QUEUE = 64
PATIENCE = 0.4
"""Seconds without any hash finished after which the waiting ones are overdue."""


def _lowest_priority() -> None:
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)


def _only_when_idle() -> None:
    """Lets this thread run only when the processor is idle (`SCHED_IDLE`, sched(7)), or with the
    lowest priority if the system does not support that."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        _lowest_priority()


def _at_normal_priority() -> None:
    """Keeps the normal priority."""


class Job(Generic[T]):
    """Work to be done once. Two threads may run it: the first result counts."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.work: Callable[[], T] | None = work
        """None once nobody waits for the result any more."""
        self.result: Future[T] = Future()

    def do(self) -> None:
        """Runs the work, unless nobody waits for it."""
        if (work := self.work) is None:
            return
        with suppress(InvalidStateError):  # the other thread was first, or nobody waits
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - raised where the result is awaited
                self.result.set_exception(error)
            else:
                self.result.set_result(result)


class Threads:
    """Threads that run jobs. Unlike those of an executor, they are not joined at exit: on a busy
    machine the last job of one may take seconds."""

    def __init__(self, count: int, name: str, prepare: Callable[[], None]) -> None:
        """Each thread is started when there is a job for it, and first calls `prepare`."""
        self._count = self._missing = count
        self._name = name
        self._prepare = prepare
        self._jobs: SimpleQueue[Job[object] | None] = SimpleQueue()
        self.done = 0
        """Changes with every job that is run. Threads race for it, so it is no exact count."""

    def put(self, job: Job[T]) -> None:
        """Queues a job. Raises `Unavailable` if no thread can be started."""
        if self._missing:
            try:
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
            except RuntimeError as error:
                if self._missing == self._count:
                    raise Unavailable("Passwords cannot be checked now.", 2) from error
            else:
                self._missing -= 1
        self._jobs.put(job)  # type: ignore[arg-type]  # the threads do not use its result

    def close(self) -> None:
        """Ends the threads after the jobs that are queued."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _serve(self) -> None:
        self._prepare()
        while (job := self._jobs.get()) is not None:
            job.do()
            self.done += 1


class Passwords:
    """Hashes and verifies passwords (RFC 9106; OWASP's parameters: 19 MiB, two passes)."""

    def __init__(
        self,
        *,
        memory_kib: int = MEMORY_KIB,
        iterations: int = ITERATIONS,
        patience: float = PATIENCE,
        beside_requests: bool = False,
    ) -> None:
        """With `beside_requests`, hashing yields to everything else; a command does nothing else
        meanwhile and needs no such care."""
        self._memory_kib = memory_kib
        self._iterations = iterations
        self._patience = patience
        prepare = _only_when_idle if beside_requests else _at_normal_priority
        self._idle = Threads(THREADS, "password", prepare)
        self._overdue = Threads(1, "overdue-password", _lowest_priority)
        self.dummy_hash = (
            f"$argon2id$v=19$m={memory_kib},t={iterations},p={LANES}"
            "$bm9ib2R5J3MgcGFzc3dvcmQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        )
        """A hash that no password has. Verifying it takes as long as any other."""
        self.waiting = 0

    async def hash(self, password: str) -> str:
        """The password's hash in PHC format. Raises `Unavailable` if the queue is full."""
        return await self._run(partial(self._hash, password))

    async def verify(self, password: str, password_hash: str) -> bool:
        """Whether the password has this hash. Raises `Unavailable` if the queue is full."""
        return await self._run(partial(self._matches, password, password_hash))

    def close(self) -> None:
        """Ends the threads. Jobs in progress are abandoned."""
        self._idle.close()
        self._overdue.close()

    async def _run(self, work: Callable[[], T]) -> T:
        """Runs `work` when the processor is idle or, once no hash was finished for `patience`
        seconds, without waiting for that: on a machine that is always busy, logins would never
        finish."""
        if self.waiting >= QUEUE:
            raise Unavailable("Too many passwords are being checked at once.", retry_after=2)
        self.waiting += 1
        job = Job(work)
        try:
            self._idle.put(job)
            result = asyncio.wrap_future(job.result)
            done = -1
            while done != self._idle.done:
                done = self._idle.done
                await asyncio.wait([result], timeout=self._patience)
                if result.done():
                    return result.result()
            self._overdue.put(job)
            return await result
        finally:
            self.waiting -= 1
            job.work = None  # contains a password

    def _hash(self, password: str) -> str:
        memory = self._memory_kib * 1024
        try:
            return argon2id.str(password.encode(), self._iterations, memory).decode()
        except CryptoError as error:  # has no other cause
            raise _no_memory() from error

    def _matches(self, password: str, password_hash: str) -> bool:
        try:
            return argon2id.verify(password_hash.encode(), password.encode())
        except CryptoError:
            # Libsodium reports a wrong password and a lack of memory in the same way.
            try:
                mmap(-1, self._memory_kib * 1024).close()
            except OSError as error:
                raise _no_memory() from error
            return False


def _no_memory() -> Unavailable:
    return Unavailable("There is not enough memory to check a password.", retry_after=2)
