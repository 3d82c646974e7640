"""Which processes hash passwords, and when."""

import asyncio
import os
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from operating import eventually
from portico.domain.errors import Unavailable
from portico.services.passwords import PROCESSES, QUEUE, Passwords
from scheduling import hashing_for, taken

TINY_KIB = 8
BESIDE = [(False, 60.0), (True, 60.0), (True, 0.0)]


@pytest.fixture(params=BESIDE, ids=["in a command", "in a server", "in an impatient server"])
async def passwords(request: pytest.FixtureRequest) -> AsyncIterator[Passwords]:
    beside, patience = request.param
    made = Passwords(memory_kib=TINY_KIB, iterations=1, patience=patience, beside_requests=beside)
    yield made
    await made.close()


@pytest.fixture
async def server() -> AsyncIterator[Passwords]:
    made = Passwords(memory_kib=TINY_KIB, iterations=1, patience=60.0, beside_requests=True)
    yield made
    await made.close()


def facts(pid: int, name: str) -> str:
    """What the system tells of a process in this file."""
    return Path(f"/proc/{pid}/{name}").read_text("utf-8")


def running(priority: str) -> list[int]:
    """The processes that hash with this priority."""
    return [pid for pid, one in hashing_for(os.getpid()).items() if one == priority]


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
async def test_hashes_of_the_reference_implementation_are_taken(
    passwords: Passwords, password: str, known: str
) -> None:
    assert await passwords.verify(password, STORED + known)
    assert not await passwords.verify(password + "1", STORED + known)


@pytest.mark.parametrize("stored", ["", "junk", "$argon2id$v=19$m=19456,t=2,p=1$", "x" * 500])
async def test_what_is_no_hash_has_no_password(passwords: Passwords, stored: str) -> None:
    assert not await passwords.verify("word", stored)


@pytest.mark.parametrize("password", ["", "\ud800", "two\nlines", "nul\0", "x" * 10_000])
async def test_any_text_may_be_a_password(passwords: Passwords, password: str) -> None:
    made = await passwords.hash(password)
    assert await passwords.verify(password, made)
    assert not await passwords.verify(f"{password}1", made)


async def test_more_than_the_queue_holds_are_refused(passwords: Passwords) -> None:
    loop, held = asyncio.get_running_loop(), threading.Event()
    loop.set_default_executor(ThreadPoolExecutor(1))  # so that no thread is done before all ask
    loop.run_in_executor(None, held.wait)
    asked = [asyncio.ensure_future(passwords.hash("word")) for _ in range(QUEUE + 5)]
    await asyncio.sleep(0)  # until they ask
    held.set()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert sum(isinstance(one, Unavailable) for one in outcomes) == 5
    assert sum(isinstance(one, str) for one in outcomes) == QUEUE


async def test_a_caller_who_goes_away_leaves_the_queue(passwords: Passwords) -> None:
    leaving = [asyncio.ensure_future(passwords.hash("word")) for _ in range(QUEUE)]
    await asyncio.wait(leaving, return_when=asyncio.FIRST_COMPLETED)
    for one in leaving:
        one.cancel()
    await asyncio.gather(*leaving, return_exceptions=True)
    assert passwords.waiting == 0
    assert await passwords.verify("word", await passwords.hash("word"))


async def test_a_command_starts_no_process() -> None:
    passwords = Passwords(memory_kib=TINY_KIB, iterations=1)
    passwords.start()
    await asyncio.gather(*(passwords.hash("word") for _ in range(QUEUE)))
    assert not hashing_for(os.getpid())
    await passwords.close()


async def test_a_server_has_its_processes_before_the_first_password(server: Passwords) -> None:
    server.start()
    await eventually(lambda: len(running("idle")) == PROCESSES, "their start")
    before = running("idle")
    await asyncio.gather(*(server.hash("word") for _ in range(QUEUE)))
    assert running("idle") == before
    assert not running("lowest")


async def test_a_server_that_stops_while_it_starts_leaves_no_process(server: Passwords) -> None:
    server.start()
    await server.close()
    assert not hashing_for(os.getpid())


async def test_a_servers_processes_run_while_nobody_else_wants_the_processor(
    server: Passwords,
) -> None:
    await asyncio.gather(*(server.hash("word") for _ in range(QUEUE)))
    assert len(running("idle")) == PROCESSES
    assert not running("lowest")
    policies = {os.sched_getscheduler(pid) for pid in running("idle")}
    assert policies == {taken(os.SCHED_IDLE)}


async def test_what_is_overdue_is_hashed_with_the_lowest_priority_instead() -> None:
    passwords = Passwords(memory_kib=TINY_KIB, iterations=1, patience=0.05, beside_requests=True)
    await asyncio.gather(*(passwords.hash("word") for _ in range(QUEUE)))
    for pid in running("idle"):
        os.kill(pid, signal.SIGSTOP)  # as if other programs kept every core busy
    made = await asyncio.gather(*(passwords.hash("word") for _ in range(QUEUE)))
    assert len(set(made)) == QUEUE
    assert [os.getpriority(os.PRIO_PROCESS, pid) for pid in running("lowest")] == [19]
    held = [one.request for one in [*passwords._idle._waiting, *passwords._overdue._waiting]]  # noqa: SLF001 - nobody else sees them
    assert not held, "passwords that nobody waits for"
    await passwords.close()
    assert not hashing_for(os.getpid())


async def test_what_is_overdue_is_answered_by_whoever_still_can(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    passwords = Passwords(memory_kib=TINY_KIB, iterations=1, patience=0.05, beside_requests=True)
    monkeypatch.setattr(passwords._overdue, "_command", ("/nowhere/python",))  # noqa: SLF001 - as without its file
    made = await passwords.hash("word")
    caplog.clear()
    (pid,) = running("idle")
    os.kill(pid, signal.SIGSTOP)
    asked = asyncio.ensure_future(passwords.verify("word", made))
    await eventually(lambda: "could be started" in caplog.text, "the second process's failure")
    os.kill(pid, signal.SIGCONT)
    assert await asked
    monkeypatch.undo()
    os.kill(pid, signal.SIGSTOP)
    asked = asyncio.ensure_future(passwords.verify("word", made))
    await eventually(lambda: bool(running("lowest")), "the second process")
    os.kill(pid, signal.SIGKILL)
    assert await asked
    await passwords.close()


async def test_no_password_waits_for_ever_where_no_process_goes_on() -> None:
    passwords = Passwords(
        memory_kib=TINY_KIB, iterations=1, patience=0.05, limit=1.0, beside_requests=True
    )
    await asyncio.gather(*(passwords.hash("word") for _ in range(QUEUE)))
    for pid in running("idle"):
        os.kill(pid, signal.SIGSTOP)
    await passwords.hash("word")
    for pid in running("lowest"):
        os.kill(pid, signal.SIGSTOP)
    async with asyncio.timeout(30):
        with pytest.raises(Unavailable, match="Passwords cannot be checked now"):
            await passwords.hash("word")
        assert (await passwords.hash("word")).startswith("$argon2id$")
    await passwords.close()
    assert not hashing_for(os.getpid())


async def test_nothing_is_overdue_while_anything_is_done() -> None:
    passwords = Passwords(memory_kib=TINY_KIB, iterations=1, patience=0.0, beside_requests=True)
    asked = asyncio.ensure_future(passwords.hash("word"))
    for _ in range(100):
        passwords._idle.done += 1  # noqa: SLF001 - as with each answer
        await asyncio.sleep(0)
    assert not passwords._overdue._starts  # noqa: SLF001 - nobody sees a start under way
    assert not running("lowest")
    await asked
    await passwords.close()


async def test_processes_that_are_killed_at_work_are_replaced(server: Passwords) -> None:
    made = await server.hash("word")
    for _ in range(PROCESSES + 1):
        (pid,) = running("idle")
        os.kill(pid, signal.SIGSTOP)
        asked = asyncio.ensure_future(server.hash("word"))
        await asyncio.sleep(0)  # until the process has it
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Unavailable, match="Passwords cannot be checked now"):
            await asked
        assert await server.verify("word", made)


async def test_one_that_is_killed_while_it_waits_costs_no_password(
    server: Passwords, caplog: pytest.LogCaptureFixture
) -> None:
    made = await server.hash("word")
    for _ in range(PROCESSES + 1):
        (pid,) = running("idle")
        os.kill(pid, signal.SIGKILL)
        await eventually(lambda: "hashes passwords ended" in caplog.text, "its end")
        caplog.clear()
        assert await server.verify("word", made)


async def test_a_signal_to_the_whole_service_ends_no_hash(server: Passwords) -> None:
    await server.hash("word")
    (pid,) = running("idle")
    os.kill(pid, signal.SIGSTOP)
    asked = asyncio.ensure_future(server.hash("word"))
    await asyncio.sleep(0)  # until the process has it
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        os.kill(pid, number)
    assert (await asked).startswith("$argon2id$")
    assert running("idle") == [pid]


async def test_they_know_no_setting(server: Passwords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORTICO_SECRET", "of the installation")
    monkeypatch.setenv("PYTHONIOENCODING", "utf-16")  # which they must not care about
    await server.hash("word")
    (pid,) = hashing_for(os.getpid())
    variables = facts(pid, "environ").split("\0")
    assert not [one for one in variables if one.startswith("PORTICO_")]


async def test_processes_that_cannot_begin_are_told_and_tried_again(
    server: Passwords, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with monkeypatch.context() as missing:
        missing.setattr(server._idle, "_command", ("/nowhere/python",))  # noqa: SLF001 - as without its file
        for _ in range(QUEUE + 1):
            with pytest.raises(Unavailable, match="Passwords cannot be checked now"):
                await server.hash("word")
    assert "could be started (No such file or directory)" in caplog.text
    assert await server.verify("word", await server.hash("word"))


def busy() -> None:
    """Keeps the event loop from its work for a few milliseconds."""
    subprocess.run(["/bin/true"], check=True)


@pytest.mark.parametrize("loop_is_busy", [False, True])
async def test_a_process_that_ends_at_once_leaves_no_password_waiting(
    server: Passwords, monkeypatch: pytest.MonkeyPatch, *, loop_is_busy: bool
) -> None:
    monkeypatch.setattr(server._idle, "_command", ("/bin/false",))  # noqa: SLF001 - as in a broken installation
    asked = [asyncio.ensure_future(server.hash("word")) for _ in range(8)]
    if loop_is_busy:
        for _ in range(20):
            await asyncio.sleep(0)
            busy()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(one) for one in outcomes} == {Unavailable}


STRAY = [
    "print(true)",
    "print('hello')",
    "n = read(); print([n, 'x'])",
    "n = read(); print([n + 1, true])",
    "n = read(); print([n - 1, true])",
    "n = read(); print([n, true, 1])",
    "n = read(); print([n])",
    "n = read(); print({'right': true})",
    "n = read(); print('hello'); print([n, true])",
    "say('x' * 5_000, end='', flush=True)",
]


@pytest.mark.parametrize("program", STRAY)
async def test_nothing_but_its_answer_makes_a_password_right(
    server: Passwords, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = await hashed_alone("word")
    tools = (
        "import json, sys\n"
        "true, say = True, print\n"
        "def read(): return json.loads(input())[0]\n"
        "def print(value): say(json.dumps(value), flush=True)\n"
    )
    waiting = "\nsys.stdin.read()"
    monkeypatch.setattr(  # as with a start-up hook of Python, or another release
        server._idle,  # noqa: SLF001 - the command is not to be chosen
        "_command",
        (sys.executable, "-c", tools + program + waiting),
    )
    for word in ("word", "wrong"):
        with pytest.raises(Unavailable, match="Passwords cannot be checked now"):
            await server.verify(word, made)


async def hashed_alone(password: str) -> str:
    """A hash that no process made."""
    passwords = Passwords(memory_kib=TINY_KIB, iterations=1)
    return await passwords.hash(password)


WITHOUT_DESCRIPTORS = """
import os, uvloop
from portico.domain.errors import Unavailable
from portico.services.passwords import Passwords
import resource

async def main():
    passwords = Passwords(memory_kib=8, iterations=1, beside_requests=True)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    held = []
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        for _ in range(5):
            os.close(held.pop())
    before = os.listdir("/proc/self/fd")
    for _ in range(5):
        try:
            print(await passwords.hash("word"))
        except Unavailable as error:
            print(error)
    print(os.listdir("/proc/self/fd") == before)
    for descriptor in held:
        os.close(descriptor)
    print((await passwords.hash("word"))[:10])
    await passwords.close()

uvloop.run(main())
"""


def test_starts_that_fail_for_lack_of_descriptors_keep_none() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_DESCRIPTORS], capture_output=True, text=True, check=False
    )
    refused = "Passwords cannot be checked now.\n"
    assert done.stdout == f"{refused * 5}True\n$argon2id$\n", done.stderr


ONE_PASSWORD = """
import asyncio, uvloop
from portico.services.passwords import Passwords

async def main():
    passwords = Passwords(memory_kib=8, iterations=1, beside_requests=True)
    await passwords.hash("word")
    print(passwords._idle._processes[0]._transport.get_pid(), flush=True)
    await asyncio.Event().wait()

uvloop.run(main())
"""


def test_they_end_with_a_server_that_was_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", ONE_PASSWORD], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        ending = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
    with os.fdopen(ending):
        readable, _, _ = select.select([ending], [], [], 30)  # once the process is no more
    assert readable


async def test_no_password_is_wrong_because_the_system_gives_no_memory() -> None:
    passwords = Passwords(patience=60.0, beside_requests=True)
    assert await passwords.verify(KNOWN[0][0], STORED + KNOWN[0][1])
    (pid,) = hashing_for(os.getpid())
    size = next(line for line in facts(pid, "status").splitlines() if line.startswith("VmSize"))
    bound = int(size.split()[1]) * 1024 + 8 * 2**20
    before = resource.prlimit(pid, resource.RLIMIT_AS, (bound, resource.RLIM_INFINITY))
    for work in (passwords.verify(KNOWN[0][0], STORED + KNOWN[0][1]), passwords.hash("right")):
        with pytest.raises(Unavailable, match="not enough memory to check a password"):
            await work
    resource.prlimit(pid, resource.RLIMIT_AS, before)
    words = ("Analytical1", "wrong")
    assert [await passwords.verify(word, STORED + KNOWN[0][1]) for word in words] == [True, False]
    await passwords.close()
