"""A command that is ended from without leaves nothing half-done behind, as after Ctrl-C."""

import asyncio
import os
import signal
import subprocess
from argparse import Namespace
from pathlib import Path

import pytest

from operating import COMMAND, Installation, in_database, until
from portico.cli.prepared import in_environment
from portico.core.errors import NotFound
from portico.data.sqlite.files import faults
from portico.environment import Environment
from portico.settings import load

ENDS = [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
DEAF = """
import os, signal, sys
signal.signal({:d}, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""

EARLY = """
import os, signal, sys
from portico.cli.main import main

def interrupt(event, about):
    if event == "open" and os.path.basename(str(about[0])).startswith(f"{sys.argv[1]}."):
        signal.raise_signal(signal.SIGINT)

sys.addaudithook(interrupt)
sys.exit(main(sys.argv[2:]))
"""
"""A command that is interrupted as it loads a module."""

ENDED_AS_IT_BEGINS = """
import pathlib, signal, sys
from portico.cli.main import main

def mkdir(path, *arguments, **named):
    made(path, *arguments, **named)
    if path.name == ".restoring":
        signal.raise_signal(signal.SIGTERM)

made, pathlib.Path.mkdir = pathlib.Path.mkdir, mkdir
sys.exit(main(sys.argv[1:]))
"""
"""A restore that is ended as soon as there is its directory."""

ROWS = """
CREATE TABLE t AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500000)
SELECT hex(i) AS i FROM n"""

ENDED_AS_IT_STORES = """
import asyncio, signal, sys
from portico.cli.main import main

def shield(work):
    asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
    return shielded(work)

shielded, asyncio.shield = asyncio.shield, shield
sys.exit(main(sys.argv[1:]))
"""
"""A command that is ended while it carries out what it is for."""

ENDED_AS_IT_CLEARS = """
import shutil, signal, sys, threading
from portico.cli.main import main

def interrupt():
    clearing.wait()
    signal.raise_signal(signal.SIGINT)

def rmtree(*arguments, **named):
    clearing.set()
    other.join()
    removed(*arguments, **named)

clearing = threading.Event()
other = threading.Thread(target=interrupt, daemon=True)
other.start()
removed, shutil.rmtree = shutil.rmtree, rmtree
sys.exit(main(sys.argv[1:]))
"""
"""A command that is interrupted, perhaps again, while it removes what it had not finished. Another
thread gets the signal, as that of a progress bar may."""


def started(installation: Installation, *words: str) -> "subprocess.Popen[bytes]":
    """A command that runs by itself."""
    return subprocess.Popen(
        words,
        cwd=installation.directory,
        env=installation.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def restoring_deaf_to(
    number: signal.Signals, installation: Installation, file: str
) -> "subprocess.Popen[bytes]":
    """A restore under way that was started so that it ignores a signal."""
    data = installation.directory / "new"
    deaf = (COMMAND[0], "-c", DEAF.format(number))
    command = started(installation, *deaf, *COMMAND, "restore", file, "--data", str(data))
    until(lambda: (data / ".restoring").exists(), "the beginning")
    return command


@pytest.fixture
def silent(tmp_path: Path) -> str:
    """A file that keeps its reader waiting."""
    os.mkfifo(tmp_path / "silent")
    return str(tmp_path / "silent")


@pytest.mark.parametrize(("how", "code"), ENDS)
def test_a_backup_that_is_ended_leaves_nothing(
    installation: Installation, silent: str, how: signal.Signals, code: int
) -> None:
    place = installation.directory / "backups"
    place.mkdir()
    (installation.data / "secret.key").unlink()
    (installation.data / "secret.key").symlink_to(silent)
    with started(installation, *COMMAND, "backup", str(place / "backup.tar")) as command:
        until(lambda: list(place.glob(".portico-*/tls/ca.key")), "the copy of private keys")
        command.send_signal(how)
        said = command.communicate()

    assert (command.returncode, said) == (code, (b"", b""))
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(("how", "code"), ENDS)
def test_a_restore_that_is_ended_leaves_nothing(
    installation: Installation, silent: str, how: signal.Signals, code: int
) -> None:
    data = installation.directory / "new"
    with started(installation, *COMMAND, "restore", silent, "--data", str(data)) as command:
        until(lambda: (data / ".restoring").exists(), "the beginning")
        command.send_signal(how)
        said = command.communicate()

    assert (command.returncode, said) == (code, (b"", b""))
    assert not data.exists()


def test_a_restore_that_is_ended_as_it_begins_leaves_nothing(
    installation: Installation, silent: str
) -> None:
    data = installation.directory / "new"
    words = (COMMAND[0], "-c", ENDED_AS_IT_BEGINS, "restore", silent, "--data", str(data))
    with started(installation, *words) as command:
        said = command.communicate()

    assert (command.returncode, said) == (143, (b"", b""))
    assert not data.exists()


@pytest.mark.parametrize(
    "words", [("backup", "place/a.tar"), ("restore", "no.tar", "--data", "place/new")]
)
def test_a_command_that_is_interrupted_as_it_clears_up_leaves_nothing(
    installation: Installation, words: tuple[str, ...]
) -> None:
    place = installation.directory / "place"
    place.mkdir()
    with started(installation, COMMAND[0], "-c", ENDED_AS_IT_CLEARS, *words) as command:
        command.communicate()

    assert command.returncode == 130
    assert [path.name for path in place.iterdir() if path.name != "a.tar"] == []


def test_a_command_in_the_background_that_hears_no_interrupt_can_be_ended(
    installation: Installation, silent: str
) -> None:
    with restoring_deaf_to(signal.SIGINT, installation, silent) as command:
        command.send_signal(signal.SIGTERM)
        assert command.wait() == 143

    assert not (installation.directory / "new").exists()


def test_a_command_that_is_to_outlive_its_terminal_does(
    installation: Installation, silent: str
) -> None:
    with restoring_deaf_to(signal.SIGHUP, installation, silent) as command:
        command.send_signal(signal.SIGHUP)
        Path(silent).write_text("no backup")
        assert command.wait() == 1, "it has read what is no backup"


def test_what_is_made_before_the_signal_is_still_shown(installation: Installation) -> None:
    settings = load({"data": str(installation.data)}, {}, installation.directory)

    async def make(env: Environment) -> str:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        return env.name

    assert in_environment(settings, Namespace(sandbox=True), make) == "sandbox"


def test_what_is_stored_as_the_signal_comes_is_still_shown(installation: Installation) -> None:
    settings = load({"data": str(installation.data)}, {}, installation.directory)

    async def make(env: Environment) -> str:
        async with env.db.transaction() as tx:
            await tx.run("UPDATE users SET name = 'Ada'")
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        return env.name

    assert in_environment(settings, Namespace(sandbox=False), make) == "live"
    assert in_database(installation.data / "live.db", "SELECT name FROM users") == "Ada"


def test_what_is_stored_in_the_background_as_the_signal_comes_is_still_shown(
    installation: Installation,
) -> None:
    deaf = (COMMAND[0], "-c", DEAF.format(signal.SIGINT), COMMAND[0], "-c", ENDED_AS_IT_STORES)
    key = ("keys", "create", "--owner", "admin@example.com", "--type", "live", "--name", "Till")
    with started(installation, *deaf, *key) as command:
        said = command.communicate()

    assert (command.returncode, said[1]) == (0, b"")
    (made,) = (one for one in installation.told("keys", "list") if one["name"] == "Till")
    assert made["hint"][-4:].encode() in said[0]


def test_what_is_refused_as_the_signal_comes_is_told(installation: Installation) -> None:
    settings = load({"data": str(installation.data)}, {}, installation.directory)

    async def make(_: Environment) -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(0)
        raise NotFound("There is none.")

    with pytest.raises(NotFound):
        in_environment(settings, Namespace(sandbox=False), make)


def test_what_does_not_end_is_interrupted_and_may_have_been_carried_out(
    installation: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = load({"data": str(installation.data)}, {}, installation.directory)

    async def make(_: Environment) -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        in_environment(settings, Namespace(sandbox=False), make, seconds=0)
    assert capsys.readouterr().err == (
        "portico: the change may have been made: check portico audit.\n"
    )


def test_signals_are_heard_while_a_file_is_checked(tmp_path: Path) -> None:
    in_database(tmp_path / "a.db", ROWS)
    heard: list[int] = []
    before = signal.signal(signal.SIGPROF, lambda number, _: heard.append(number))
    signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)  # of processor time
    try:
        assert faults(tmp_path / "a.db") == []
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)

    assert len(heard) > 5, "and not only once it is checked"


@pytest.mark.parametrize(("module", "code"), [("outcome", -signal.SIGINT), ("prepared", 130)])
def test_a_command_that_has_hardly_begun_ends_without_a_word(
    installation: Installation, module: str, code: int
) -> None:
    with started(installation, COMMAND[0], "-c", EARLY, module, "users", "list") as command:
        said = command.communicate()

    assert (command.returncode, said) == (code, (b"", b""))


def test_a_command_that_hears_no_interrupt_begins_in_spite_of_one(
    installation: Installation,
) -> None:
    deaf = (COMMAND[0], "-c", DEAF.format(signal.SIGINT), COMMAND[0], "-c", EARLY)
    with started(installation, *deaf, "outcome", "users", "list") as command:
        said = command.communicate()

    assert (command.returncode, b"admin@example.com" in said[0], said[1]) == (0, True, b"")
