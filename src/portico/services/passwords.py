"""Password hashing: argon2id, off the event loop, a bounded number at a time.

Hashing takes 16 ms of a core, so its threads run at the lowest priority and the queue before them
is short: a flood of logins gets 503 and never slows a request that needs no password.
"""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from portico.domain.errors import Unavailable

MEMORY_KIB = 19 * 1024
ITERATIONS = 2
LANES = 1
THREADS = 2
QUEUE = 64


def _lowest_priority() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)


class Passwords:
    """Hashes and verifies passwords (RFC 9106, OWASP's parameters of 19 MiB and two passes)."""

    def __init__(self, *, memory_kib: int = MEMORY_KIB, iterations: int = ITERATIONS) -> None:
        self._hasher = PasswordHasher(
            time_cost=iterations, memory_cost=memory_kib, parallelism=LANES
        )
        self._threads = ThreadPoolExecutor(
            THREADS, thread_name_prefix="password", initializer=_lowest_priority
        )
        self.nobodys = (
            f"$argon2id$v=19$m={memory_kib},t={iterations},p={LANES}"
            "$bm9ib2R5J3MgcGFzc3dvcmQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        )
        """A hash that no password has, and that costs what every other does."""
        self.waiting = 0

    async def hash(self, password: str) -> str:
        """The password's hash in PHC format. Raises `Unavailable` when the queue is full."""
        self._enter()
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._hasher.hash, password)
        finally:
            self.waiting -= 1

    async def verify(self, password: str, password_hash: str) -> bool:
        """Whether the password has this hash. Raises `Unavailable` when the queue is full."""
        self._enter()
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._threads, self._matches, password, password_hash)
        finally:
            self.waiting -= 1

    def close(self) -> None:
        """Waits for the hashes under way."""
        self._threads.shutdown()

    def _matches(self, password: str, password_hash: str) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except (VerificationError, InvalidHashError):
            return False

    def _enter(self) -> None:
        if self.waiting >= QUEUE:
            raise Unavailable("Too many passwords are being checked at once.", retry_after=2)
        self.waiting += 1
