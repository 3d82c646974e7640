"""Passwords, hashed a bounded number at a time.

A hash takes 12 ms of a core. A server's are made in processes that run only when the processor is
idle, and the queue for them is short: a flood of logins gets 503 and never slows requests that need
no password.
"""

import asyncio

from portico.domain.errors import Unavailable
from portico.services import hashing
from portico.services.hashing import HASH, VERIFY, Answer, Request
from portico.services.hashing_processes import HashingProcesses, Job

MEMORY_KIB = 19 * 1024
ITERATIONS = 2
LANES = 1
"""The only value that libsodium supports."""

PROCESSES = 2
QUEUE = 64
PATIENCE = 0.4
"""Seconds without any hash finished after which the waiting ones are overdue."""

LIMIT = 30.0
"""Seconds in which an overdue one must be finished. The process may be frozen; others then wait."""


class Passwords:
    """Hashes and verifies passwords (RFC 9106; OWASP's parameters: 19 MiB, two passes)."""

    def __init__(
        self,
        *,
        memory_kib: int = MEMORY_KIB,
        iterations: int = ITERATIONS,
        patience: float = PATIENCE,
        limit: float = LIMIT,
        beside_requests: bool = False,
    ) -> None:
        """With `beside_requests`, processes hash, and yield to everything else; a command does
        nothing else meanwhile and hashes in a thread."""
        self._memory = memory_kib * 1024
        self._iterations = iterations
        self._patience = patience
        self._beside_requests = beside_requests
        self._idle = HashingProcesses(PROCESSES, "idle")
        self._overdue = HashingProcesses(1, "lowest", limit)
        self._closed = False
        self.dummy_hash = (
            f"$argon2id$v=19$m={memory_kib},t={iterations},p={LANES}"
            "$bm9ib2R5J3MgcGFzc3dvcmQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        )
        """A hash that no password has. Verifying it takes as long as any other."""
        self.waiting = 0

    def start(self) -> None:
        """Starts the processes that hash, if any do, without waiting for them. Those that a server
        starts later need its installation, which may have been replaced meanwhile."""
        if self._beside_requests:
            self._idle.start()

    async def hash(self, password: str) -> str:
        """The password's hash in PHC format. Raises `Unavailable` if the queue is full."""
        return str(await self._answer((HASH, password, self._iterations, self._memory)))

    async def verify(self, password: str, password_hash: str) -> bool:
        """Whether the password has this hash. Raises `Unavailable` if the queue is full."""
        return bool(await self._answer((VERIFY, password, password_hash, self._memory)))

    async def close(self) -> None:
        """Ends the processes. Passwords that wait, and all later ones, are refused."""
        self._closed = True
        await self._idle.close()
        await self._overdue.close()

    async def _answer(self, request: Request) -> Answer:
        if self._closed:
            raise Unavailable("The server is stopping.", retry_after=2)
        if self.waiting >= QUEUE:
            raise Unavailable("Too many passwords are being checked at once.", retry_after=2)
        self.waiting += 1
        try:
            answer = await self._run(request)
        finally:
            self.waiting -= 1
        if answer is None:
            raise Unavailable("There is not enough memory to check a password.", retry_after=2)
        return answer

    async def _run(self, request: Request) -> Answer:
        """Beside requests: when the processor is idle or, once no hash was finished for `patience`
        seconds, without waiting for that. On a machine that is always busy, logins would never
        finish."""
        if not self._beside_requests:
            return await asyncio.to_thread(hashing.answer, request)
        job = Job(request)
        try:
            self._idle.put(job)
            done = -1
            while done != self._idle.done:
                done = self._idle.done
                await asyncio.wait([job.answer], timeout=self._patience)
                if job.answer.done():
                    return job.answer.result()
            self._overdue.put(job)
            return await job.answer
        finally:
            job.answer.cancel()  # nobody waits for it any more
            self._idle.drop(job)
            self._overdue.drop(job)
