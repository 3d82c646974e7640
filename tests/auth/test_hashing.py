"""Password hashing: what has which hash, how many wait, and which threads do the work."""

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator

import pytest

from portico.core.errors import Unavailable
from portico.features.people.passwords import QUEUE, THREADS, Passwords
from scheduling import policy_of_a_thread

TINY_KIB = 8
BESIDE = [  # in a command, in a server, and in an impatient one
    (False, 60.0),
    (True, 60.0),
    (True, 0.0),
]


@pytest.fixture
async def passwords() -> AsyncIterator[Passwords]:
    made = Passwords(memory_kib=TINY_KIB, iterations=1, beside_requests=True)
    yield made
    await made.close()


@pytest.mark.parametrize(("beside", "wait"), BESIDE)
async def test_hash_matches_its_own_password_only(*, beside: bool, wait: float) -> None:
    passwords = Passwords(memory_kib=TINY_KIB, iterations=1, idle_wait=wait, beside_requests=beside)
    made = await asyncio.gather(*(passwords.hash(f"word {number}") for number in range(QUEUE)))
    right = (passwords.verify(f"word {number}", one) for number, one in enumerate(made))
    wrong = (passwords.verify(f"word {number + 1}", one) for number, one in enumerate(made))
    assert all(await asyncio.gather(*right))
    assert not any(await asyncio.gather(*wrong))
    assert passwords.waiting == 0
    await passwords.close()


STORED = "$argon2id$v=19$m=19456,t=2,p=1$"
KNOWN = [
    ("Analytical1", "qfqUeONo4/7tVKoSf/mFuQ$OIj+E6BzRjZj7r8mSYWqj03qluJ0FA+mvtb4MCsQVvc"),
    ("Zoë's 100 €", "kBKK/t41HbDK/sKGyl0ziw$xhUkQrqDzTZTtir1GMaM3t2uWt+/bTQqU/ekKFR9seI"),
]


@pytest.mark.parametrize(("password", "known"), KNOWN)
async def test_hashes_of_the_reference_implementation_verify(
    passwords: Passwords, password: str, known: str
) -> None:
    assert await passwords.verify(password, STORED + known)
    assert not await passwords.verify(password + "1", STORED + known)


@pytest.mark.parametrize("stored", ["", "$argon2id$v=19$m=19456,t=2,p=1$"])
async def test_text_that_is_no_hash_matches_no_password(passwords: Passwords, stored: str) -> None:
    assert not await passwords.verify("word", stored)


@pytest.mark.parametrize("password", ["", "\ud800", "nul\0"])
async def test_any_text_can_be_a_password(passwords: Passwords, password: str) -> None:
    made = await passwords.hash(password)
    assert await passwords.verify(password, made)
    assert not await passwords.verify(f"{password}1", made)


async def test_passwords_beyond_the_queue_are_refused(passwords: Passwords) -> None:
    asked = [asyncio.ensure_future(passwords.hash("word")) for _ in range(QUEUE + 5)]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(one, Unavailable) for one in outcomes) == 5
    assert sum(isinstance(one, str) for one in outcomes) == QUEUE


async def test_cancelled_caller_leaves_the_queue(passwords: Passwords) -> None:
    leaving = [asyncio.ensure_future(passwords.hash("word")) for _ in range(QUEUE)]
    await asyncio.wait(leaving, return_when=asyncio.FIRST_COMPLETED)
    for one in leaving:
        one.cancel()
    await asyncio.gather(*leaving, return_exceptions=True)
    assert passwords.waiting == 0
    assert await passwords.verify("word", await passwords.hash("word"))


async def test_closing_refuses_passwords_that_wait_and_later_ones(passwords: Passwords) -> None:
    held = threading.Event()
    for _ in range(THREADS):
        passwords._idle.submit(held.wait)  # noqa: SLF001 - as a hash that takes long
    passwords._overdue.submit(held.wait)  # noqa: SLF001 - likewise
    asked = asyncio.ensure_future(passwords.hash("word"))
    await asyncio.sleep(0)
    await passwords.close()
    for refused in (asked, passwords.hash("word")):
        with pytest.raises(Unavailable, match="The server is stopping"):
            await refused
    held.set()


async def test_server_hashes_in_threads_that_run_when_the_processor_is_idle() -> None:
    passwords = Passwords(memory_kib=TINY_KIB, iterations=1, idle_wait=60.0, beside_requests=True)
    await passwords.hash("word")
    policy = await asyncio.wrap_future(passwords._idle.submit(os.sched_getscheduler, 0))  # noqa: SLF001 - its thread
    assert policy == policy_of_a_thread(os.SCHED_IDLE)
    await passwords.close()


async def test_overdue_password_is_hashed_with_the_lowest_priority() -> None:
    passwords = Passwords(memory_kib=TINY_KIB, iterations=1, idle_wait=0.01, beside_requests=True)
    held = threading.Event()
    for _ in range(THREADS):
        passwords._idle.submit(held.wait)  # noqa: SLF001 - as if other programs kept every core busy
    made = await asyncio.gather(*(passwords.hash("word") for _ in range(QUEUE)))
    held.set()
    assert len({*made}) == QUEUE
    priority = await asyncio.wrap_future(
        passwords._overdue.submit(os.getpriority, os.PRIO_PROCESS, 0)  # noqa: SLF001 - its thread
    )
    assert priority == 19
    await passwords.close()


NO_MEMORY = f"""
import asyncio, resource
from pathlib import Path
from portico.core.errors import Unavailable
from portico.features.people.passwords import Passwords

async def main():
    passwords = Passwords()
    stored = {STORED + KNOWN[0][1]!r}
    started = [passwords.verify("Analytical1", stored) for _ in range(4)]  # both threads
    print(all(await asyncio.gather(*started)))
    before = resource.getrlimit(resource.RLIMIT_AS)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + 8 * 2**20, resource.RLIM_INFINITY))
    for work in (passwords.verify("Analytical1", stored), passwords.hash("right")):
        try:
            print(await work)
        except Unavailable as error:
            print(error)
    resource.setrlimit(resource.RLIMIT_AS, before)
    print(await passwords.verify("Analytical1", stored), await passwords.verify("wrong", stored))

asyncio.run(main())
"""


def test_lack_of_memory_is_unavailable_and_never_a_wrong_password() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_MEMORY], capture_output=True, text=True, check=False
    )
    refused = "There is not enough memory to check a password.\n"
    assert done.stdout == f"True\n{refused * 2}True False\n", done.stderr
