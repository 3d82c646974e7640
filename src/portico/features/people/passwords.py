"""Passwords, hashed with argon2id (RFC 9106) a bounded number at a time.

A hash takes 12 ms of a core. A server hashes in threads that run only when the processor is idle,
and the queue for them is short: a flood of logins gets 503 and never slows requests that need no
password.
"""

import asyncio
import os
import re
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.resources import files
from mmap import mmap
from typing import TypeVar

from nacl.exceptions import CryptoError
from nacl.pwhash import argon2id

from portico.core.errors import BrokenRule, Fault, Invalid, Unavailable
from portico.core.text import case_key
from portico.core.users import normalized_password
from portico.core.users import password as strong

MEMORY_KIB = 19 * 1024
ITERATIONS = 2
LANES = 1
"""The only value that libsodium supports."""

THREADS = 2
QUEUE = 64
IDLE_WAIT = 0.4
"""Seconds without any hash finished after which the waiting ones are overdue."""

T = TypeVar("T")


class Passwords:
    """Hashes and verifies passwords (OWASP's parameters: 19 MiB, two passes)."""

    def __init__(
        self,
        *,
        memory_kib: int = MEMORY_KIB,
        iterations: int = ITERATIONS,
        idle_wait: float = IDLE_WAIT,
        beside_requests: bool = False,
    ) -> None:
        """With `beside_requests`, hashing yields to everything else; a command does nothing else
        meanwhile."""
        self._memory = memory_kib * 1024
        self._iterations = iterations
        self._idle_wait = idle_wait
        self._beside_requests = beside_requests
        self._idle = ThreadPoolExecutor(
            THREADS, "hash", initializer=only_when_idle if beside_requests else None
        )
        self._overdue = ThreadPoolExecutor(1, "hash-overdue", initializer=lowest_priority)
        self._done = 0
        self._closed = False
        self.dummy_hash = (
            f"$argon2id$v=19$m={memory_kib},t={iterations},p={LANES}"
            "$bm9ib2R5J3MgcGFzc3dvcmQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        )
        """A hash that no password has. Verifying it takes as long as any other."""
        self.waiting = 0

    async def hash(self, password: str) -> str:
        """The hash, in PHC format, of the password in Unicode NFC. Raises `Unavailable` if the
        queue is full."""
        text = normalized_password(password)
        return await self._answer(lambda: self._hashed(text))

    async def verify(self, password: str, password_hash: str) -> bool:
        """Whether the password has this hash: in Unicode NFC or, as older hashes were made without
        it, as typed. Raises `Unavailable` if the queue is full."""
        texts = dict.fromkeys((normalized_password(password), password))
        return await self._answer(lambda: any(self._matches(text, password_hash) for text in texts))

    async def close(self) -> None:
        """Refuses the passwords that wait, and all later ones."""
        self._closed = True
        for pool in (self._idle, self._overdue):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise _stopping()
        if self.waiting >= QUEUE:
            raise Unavailable("Too many passwords are being checked at once.", retry_after=2)
        self.waiting += 1
        try:
            return await self._run(work)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():  # `close` has cancelled the work alone
                raise _stopping() from None
            raise
        finally:
            self.waiting -= 1

    async def _run(self, work: Callable[[], T]) -> T:
        """Does the work when the processor is idle or, once no hash was finished for `idle_wait`
        seconds, without waiting for that: on a machine that is always busy, logins would never
        finish."""
        loop = asyncio.get_running_loop()
        idle = loop.run_in_executor(self._idle, work)
        asked = [idle]
        try:
            if self._beside_requests:
                before = -1
                while not idle.done() and before != self._done:
                    before = self._done
                    await asyncio.wait(asked, timeout=self._idle_wait)
                if not idle.done():
                    asked.append(loop.run_in_executor(self._overdue, work))
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            self._done += 1
            return next(one for one in asked if one.done()).result()
        finally:
            for one in asked:
                one.cancel()  # whoever has not begun: nobody waits for it any more

    def _hashed(self, password: str) -> str:
        try:
            return argon2id.str(_encoded(password), self._iterations, self._memory).decode()
        except CryptoError:  # has no other cause
            raise _no_memory() from None

    def _matches(self, password: str, password_hash: str) -> bool:
        try:
            return argon2id.verify(password_hash.encode(), _encoded(password))
        except CryptoError:
            # Libsodium reports a wrong password and a lack of memory in the same way.
            try:
                mmap(-1, self._memory).close()
            except OSError:
                raise _no_memory() from None
            return False


def lowest_priority() -> None:
    """Gives this thread the lowest priority (nice 19)."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, 19)


def only_when_idle() -> None:
    """Lets this thread run only when the processor is idle (`SCHED_IDLE`, sched(7)), or with the
    lowest priority if the system does not support that."""
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except (AttributeError, OSError):
        lowest_priority()


def _encoded(password: str) -> bytes:
    # Text from JSON may contain half a surrogate pair, which UTF-8 cannot express.
    return password.encode(errors="surrogatepass")


def _stopping() -> Unavailable:
    return Unavailable("The server is stopping.", retry_after=2)


def _no_memory() -> Unavailable:
    return Unavailable("There is not enough memory to check a password.", retry_after=2)


LIST = files(__package__) / "common_passwords.bin"

_OWN_WORD_LENGTH = 4
_WORD = re.compile(r"[^\W_]+")


def chosen(password: str, *, name: str, email: str) -> str:
    """Normalises a password that satisfies `core.users.password`, is not one of the most common
    ones, and contains no word of four or more characters from the name or the part of the e-mail
    before the @, in any case. Raises `BrokenRule`."""
    password = strong(password)
    if is_common(password):
        raise BrokenRule("must not be one of the most common passwords, which are guessed first")
    folded = case_key(password)
    own = _WORD.findall(case_key(f"{name} {email.rpartition('@')[0]}"))
    if any(len(word) >= _OWN_WORD_LENGTH and word in folded for word in own):
        raise BrokenRule("must not contain your name or e-mail, which are guessed first")
    return password


def require_chosen(password: str, *, name: str, email: str) -> None:
    """As `chosen`, but raises `Invalid` with the field `password`."""
    try:
        chosen(password, name=name, email=email)
    except BrokenRule as broken:
        message = "This password is too easy to guess."
        raise Invalid(message, [Fault("password", str(broken))]) from None


def is_common(password: str) -> bool:
    """Whether a password is one of the most common ones, in any case."""
    known, wanted = _marks(), mark(password)
    place = bisect_left(known, wanted)
    return place < len(known) and known[place] == wanted


def mark(password: str) -> int:
    """The first 64 bits of a password's digest, as stored for common passwords."""
    return int.from_bytes(sha256(case_key(password).encode()).digest()[:8], "big")


@cache
def _marks() -> "array[int]":
    marks = array("Q", LIST.read_bytes())
    if sys.byteorder == "big":
        marks.byteswap()
    return marks
