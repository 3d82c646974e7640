"""Which threads hash passwords, and when."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Event

import pytest

from portico.domain.errors import Unavailable
from portico.services.passwords import QUEUE, THREADS, Job, Passwords, Threads
from scheduling import taken

TINY_KIB = 8


@pytest.fixture(params=[0.0, 60.0], ids=["impatient", "patient"])
async def passwords(request: pytest.FixtureRequest) -> AsyncIterator[Passwords]:
    made = Passwords(memory_kib=TINY_KIB, iterations=1, patience=request.param)
    yield made
    made.close()


class Begun:
    """The threads that begin from now on."""

    def __init__(self) -> None:
        self._before = threading.enumerate()

    def policies(self, name: str) -> set[int]:
        """Those of the threads that are called so."""
        begun = [thread for thread in threading.enumerate() if thread not in self._before]
        named = [thread for thread in begun if thread.name.startswith(name)]
        return {os.sched_getscheduler(thread.native_id or 0) for thread in named}


async def test_a_hash_is_of_its_password_alone(passwords: Passwords) -> None:
    made = await asyncio.gather(*(passwords.hash(f"word {number}") for number in range(QUEUE)))
    right = (passwords.verify(f"word {number}", one) for number, one in enumerate(made))
    wrong = (passwords.verify(f"word {number + 1}", one) for number, one in enumerate(made))
    assert all(await asyncio.gather(*right))
    assert not any(await asyncio.gather(*wrong))
    assert passwords.waiting == 0


STORED = "$argon2id$v=19$m=19456,t=2,p=1$"
KNOWN = [
    ("Analytical1", "qfqUeONo4/7tVKoSf/mFuQ$OIj+E6BzRjZj7r8mSYWqj03qluJ0FA+mvtb4MCsQVvc"),
    ("Zoë's 100 €", "kBKK/t41HbDK/sKGyl0ziw$xhUkQrqDzTZTtir1GMaM3t2uWt+/bTQqU/ekKFR9seI"),
]


@pytest.mark.parametrize(("password", "known"), KNOWN)
async def test_hashes_of_the_reference_implementation_are_taken(password: str, known: str) -> None:
    passwords = Passwords()
    assert await passwords.verify(password, STORED + known)
    assert not await passwords.verify(password + "1", STORED + known)
    passwords.close()


@pytest.mark.parametrize("stored", ["", "junk", "$argon2id$v=19$m=19456,t=2,p=1$", "x" * 500])
async def test_what_is_no_hash_has_no_password(passwords: Passwords, stored: str) -> None:
    assert not await passwords.verify("word", stored)


async def test_more_than_the_queue_holds_are_refused(passwords: Passwords) -> None:
    asked = (passwords.hash("word") for _ in range(QUEUE + 5))
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(one, Unavailable) for one in outcomes) == 5
    assert sum(isinstance(one, str) for one in outcomes) == QUEUE


async def test_beside_requests_they_hash_while_nobody_else_wants_the_processor() -> None:
    begun = Begun()
    passwords = Passwords(memory_kib=TINY_KIB, iterations=1, patience=60.0, beside_requests=True)
    await passwords.hash("word")
    assert begun.policies("password") == {taken(os.SCHED_IDLE)}
    assert begun.policies("overdue-password") == set()
    passwords.close()


async def test_with_nothing_beside_it_they_hash_in_their_turn() -> None:
    begun = Begun()
    passwords = Passwords(memory_kib=TINY_KIB, iterations=1, patience=60.0)
    await passwords.hash("word")
    assert begun.policies("password") == {os.sched_getscheduler(0)}
    passwords.close()


@asynccontextmanager
async def held_up(patience: float) -> AsyncIterator[Passwords]:
    """Passwords whose threads never find the processor idle."""
    passwords, idle = Passwords(memory_kib=TINY_KIB, iterations=1, patience=patience), Event()
    for _ in range(THREADS):
        passwords._idle.put(Job(idle.wait))  # noqa: SLF001 - a machine cannot be kept that busy
    try:
        yield passwords
    finally:
        idle.set()
        passwords.close()


async def test_what_is_overdue_does_not_wait_for_that() -> None:
    begun = Begun()
    async with held_up(patience=0.0) as passwords:
        made = await asyncio.gather(*(passwords.hash("word") for _ in range(QUEUE)))
        assert len(set(made)) == QUEUE
        assert begun.policies("overdue-password") == {os.sched_getscheduler(0)}


async def test_nothing_is_overdue_while_anything_is_done() -> None:
    begun = Begun()
    async with held_up(patience=0.0) as passwords:
        asked = asyncio.ensure_future(passwords.hash("word"))
        for _ in range(100):
            passwords._idle.done += 1  # noqa: SLF001 - as their threads do
            await asyncio.sleep(0)
        assert begun.policies("overdue-password") == set()
        await asked
        assert begun.policies("overdue-password") == {os.sched_getscheduler(0)}


async def test_what_nobody_waits_for_holds_no_password() -> None:
    passwords = Passwords(memory_kib=TINY_KIB, iterations=1)
    passwords._idle = nobody = Threads(0, "nobody", lambda: None)  # noqa: SLF001 - they never begin
    asked = asyncio.ensure_future(passwords.hash("word"))
    await asyncio.sleep(0)
    asked.cancel()
    await asyncio.gather(asked, return_exceptions=True)
    assert passwords.waiting == 0
    left = nobody._jobs.get_nowait()  # noqa: SLF001 - the same
    assert left is not None
    assert left.work is None
    left.do()


async def test_threads_that_cannot_begin_are_told_and_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def no_place(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    passwords = Passwords(memory_kib=TINY_KIB, iterations=1)
    with monkeypatch.context() as full:
        full.setattr("threading.Thread.start", no_place)
        for _ in range(QUEUE + 1):
            with pytest.raises(Unavailable, match="Passwords cannot be checked now"):
                await passwords.hash("word")
    assert await passwords.verify("word", await passwords.hash("word"))
    passwords.close()


async def test_a_caller_who_goes_away_leaves_the_queue() -> None:
    passwords = Passwords(memory_kib=TINY_KIB, iterations=1)
    leaving = [asyncio.ensure_future(passwords.hash("word")) for _ in range(QUEUE)]
    await asyncio.wait(leaving, return_when=asyncio.FIRST_COMPLETED)
    for one in leaving:
        one.cancel()
    await asyncio.gather(*leaving, return_exceptions=True)
    assert passwords.waiting == 0
    assert await passwords.verify("word", await passwords.hash("word"))
    passwords.close()


WITHOUT_MEMORY = f"""
import asyncio, resource
from portico.domain.errors import Unavailable
from portico.services.passwords import Passwords

KNOWN = "{STORED}{KNOWN[0][1]}"

async def main():
    passwords = Passwords(patience=0.0)
    while not (passwords._idle.done and passwords._overdue.done):
        await passwords._run(int)  # so that both kinds of threads are there, and none is at work
    size = next(line for line in open("/proc/self/status") if line.startswith("VmSize"))
    bound = int(size.split()[1]) * 1024 + 8 * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (bound, resource.RLIM_INFINITY))
    for work in (passwords.verify("Analytical1", KNOWN), passwords.hash("right")):
        try:
            print(await work)
        except Unavailable as error:
            print(error)
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(*[await passwords.verify(word, KNOWN) for word in ("Analytical1", "wrong")])

asyncio.run(main())
"""


def test_no_password_is_wrong_because_the_system_gives_no_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_MEMORY], capture_output=True, text=True, check=False
    )
    told = "There is not enough memory to check a password.\n"
    assert (done.stdout, done.stderr) == (f"{told}{told}True False\n", "")
