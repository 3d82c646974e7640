"""Password hashing: argon2id, off the event loop, a bounded number at a time.

Hashing takes 16 ms of a core, so its threads take what nobody else wants and the queue before them
is short: a flood of logins gets 503 and never slows a request that needs no password.
"""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from portico.domain.errors import Unavailable

T = TypeVar("T")

MEMORY_KIB = 19 * 1024
ITERATIONS = 2
LANES = 1
THREADS = 2
QUEUE = 64
PATIENCE = 0.4
"""Seconds that a hash may wait to begin, or take, while others want the processor."""


def _lowest_priority() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)


def _only_when_idle() -> None:
    """Has this thread run while nobody else wants the processor (`SCHED_IDLE`, sched(7)), or at the
    lowest priority where the system has no such policy."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        _lowest_priority()


class Passwords:
    """Hashes and verifies passwords (RFC 9106, OWASP's parameters of 19 MiB and two passes)."""

    def __init__(
        self,
        *,
        memory_kib: int = MEMORY_KIB,
        iterations: int = ITERATIONS,
        patience: float = PATIENCE,
    ) -> None:
        self._hasher = PasswordHasher(
            time_cost=iterations, memory_cost=memory_kib, parallelism=LANES
        )
        self._patience = patience
        self._idle = ThreadPoolExecutor(
            THREADS, thread_name_prefix="password", initializer=_only_when_idle
        )
        self._overdue = ThreadPoolExecutor(
            1, thread_name_prefix="overdue-password", initializer=_lowest_priority
        )
        self.nobodys = (
            f"$argon2id$v=19$m={memory_kib},t={iterations},p={LANES}"
            "$bm9ib2R5J3MgcGFzc3dvcmQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        )
        """A hash that no password has, and that costs what every other does."""
        self.waiting = 0

    async def hash(self, password: str) -> str:
        """The password's hash in PHC format. Raises `Unavailable` when the queue is full."""
        return await self._run(partial(self._hasher.hash, password))

    async def verify(self, password: str, password_hash: str) -> bool:
        """Whether the password has this hash. Raises `Unavailable` when the queue is full."""
        return await self._run(partial(self._matches, password, password_hash))

    def close(self) -> None:
        """Waits for the hashes under way."""
        self._idle.shutdown()
        self._overdue.shutdown()

    async def _run(self, work: Callable[[], T]) -> T:
        """Does it while the processor is idle, or without waiting for that once it is overdue: on a
        machine that is always busy, logins would never end."""
        if self.waiting >= QUEUE:
            raise Unavailable("Too many passwords are being checked at once.", retry_after=2)
        self.waiting += 1
        begun = self._idle.submit(work)
        done = asyncio.wrap_future(begun)
        racing = {done}
        try:
            for _ in range(2):  # until it begins, and until it ends
                await asyncio.wait(racing, timeout=self._patience)
                if done.done():
                    return done.result()
                if begun.cancel():
                    racing.clear()
                    break
            racing.add(asyncio.wrap_future(self._overdue.submit(work)))
            first, _ = await asyncio.wait(racing, return_when=asyncio.FIRST_COMPLETED)
            return first.pop().result()
        finally:
            self.waiting -= 1
            for one in racing:
                one.cancel()  # what has not begun need not

    def _matches(self, password: str, password_hash: str) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except (VerificationError, InvalidHashError):
            return False
