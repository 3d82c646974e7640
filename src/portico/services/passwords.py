"""Password hashing: argon2id, off the event loop, a bounded number at a time.

Hashing takes 12 ms of a core, so a server's threads take what nobody else wants and the queue
before them is short: a flood of logins gets 503 and never slows a request that needs no password.
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
"""Libsodium has no others."""

THREADS = 2
QUEUE = 64
PATIENCE = 0.4
"""Seconds without any hash done, after which those that wait are overdue."""


def _lowest_priority() -> None:
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)


def _only_when_idle() -> None:
    """Has this thread run while nobody else wants the processor (`SCHED_IDLE`, sched(7)), or at the
    lowest priority where the system has no such policy."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        _lowest_priority()


def _as_they_are() -> None:
    """Leaves threads their turn among all others."""


class Job(Generic[T]):
    """What is to be done once. Two threads may be at it: the first result counts."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.work: Callable[[], T] | None = work
        """None where nobody waits for it any more."""
        self.result: Future[T] = Future()

    def do(self) -> None:
        """Does it, unless that is in vain."""
        if (work := self.work) is None:
            return
        with suppress(InvalidStateError):  # the other was first, or nobody waits
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - it goes to whoever waits
                self.result.set_exception(error)
            else:
                self.result.set_result(result)


class Threads:
    """Threads that do jobs, and that nobody waits for at the end, unlike those of an executor: on a
    busy machine one of them may be at its last job for seconds."""

    def __init__(self, count: int, name: str, prepare: Callable[[], None]) -> None:
        """Each begins with `prepare`, once there is a job for it."""
        self._count = self._missing = count
        self._name = name
        self._prepare = prepare
        self._jobs: SimpleQueue[Job[object] | None] = SimpleQueue()
        self.done = 0
        """It moves with each job that is done."""

    def put(self, job: Job[T]) -> None:
        """Has a job done. Raises `Unavailable` where the system starts no thread."""
        if self._missing:
            try:
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
            except RuntimeError as error:
                if self._missing == self._count:
                    raise Unavailable("No password can be checked now.", retry_after=2) from error
            else:
                self._missing -= 1
        self._jobs.put(job)  # type: ignore[arg-type]  # its result is nobody's but its owner's

    def close(self) -> None:
        """Ends them, after what was put before."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _serve(self) -> None:
        self._prepare()
        while (job := self._jobs.get()) is not None:
            job.do()
            self.done += 1


class Passwords:
    """Hashes and verifies passwords (RFC 9106, OWASP's parameters of 19 MiB and two passes)."""

    def __init__(
        self,
        *,
        memory_kib: int = MEMORY_KIB,
        iterations: int = ITERATIONS,
        patience: float = PATIENCE,
        beside_requests: bool = False,
    ) -> None:
        """`beside_requests`, hashing gives way to all else; a command has nothing else to do."""
        self._memory_kib = memory_kib
        self._iterations = iterations
        self._patience = patience
        prepare = _only_when_idle if beside_requests else _as_they_are
        self._idle = Threads(THREADS, "password", prepare)
        self._overdue = Threads(1, "overdue-password", _lowest_priority)
        self.nobodys = (
            f"$argon2id$v=19$m={memory_kib},t={iterations},p={LANES}"
            "$bm9ib2R5J3MgcGFzc3dvcmQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        )
        """A hash that no password has, and that costs what every other does."""
        self.waiting = 0

    async def hash(self, password: str) -> str:
        """The password's hash in PHC format. Raises `Unavailable` when the queue is full."""
        return await self._run(partial(self._hash, password))

    async def verify(self, password: str, password_hash: str) -> bool:
        """Whether the password has this hash. Raises `Unavailable` when the queue is full."""
        return await self._run(partial(self._matches, password, password_hash))

    def close(self) -> None:
        """Ends the threads. Nobody waits any more for what they do now."""
        self._idle.close()
        self._overdue.close()

    async def _run(self, work: Callable[[], T]) -> T:
        """Does it while the processor is idle; or without waiting for that, once nothing was done
        for a while: on a machine that is always busy, logins would never end."""
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
            job.work = None  # it holds a password

    def _hash(self, password: str) -> str:
        memory = self._memory_kib * 1024
        try:
            return argon2id.str(password.encode(), self._iterations, memory).decode()
        except CryptoError as error:  # for which there is no other reason
            raise _no_memory() from error

    def _matches(self, password: str, password_hash: str) -> bool:
        try:
            return argon2id.verify(password_hash.encode(), password.encode())
        except CryptoError:
            # Libsodium says the same of a wrong password and where the system gave it no memory.
            try:
                mmap(-1, self._memory_kib * 1024).close()
            except OSError as error:
                raise _no_memory() from error
            return False


def _no_memory() -> Unavailable:
    return Unavailable("There is no memory to check a password with.", retry_after=2)
