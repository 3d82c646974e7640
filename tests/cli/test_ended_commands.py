"""A command that is ended from without leaves nothing half-done behind, as after Ctrl-C."""

import asyncio
import os
import signal
import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import pytest

import forking
from operating import TIMEOUT_SECONDS, Installation, in_database, until
from portico.cli.prepared import in_environment
from portico.environment import Environment
from portico.settings import load

ENDS = [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]


def ended(
    installation: Installation, when: Callable[[], object], how: signal.Signals, *words: str
) -> tuple[int, bytes]:
    """The exit code and output of a command that a signal ends once it has come so far."""
    with tempfile.TemporaryFile() as said:
        place, variables = installation.directory, installation.environment
        command = forking.Forked(words, place, variables, said, said)
        try:
            until(when, "the beginning")
            command.send_signal(how)
            code = command.wait(TIMEOUT_SECONDS)
        finally:
            command.kill()
        said.seek(0)
        return code, said.read()


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
    words = ("backup", str(place / "backup.tar"))

    def copied() -> list[Path]:
        return list(place.glob(".portico-*/tls/ca.key"))

    assert ended(installation, copied, how, *words) == (code, b"")
    assert list(place.iterdir()) == []


def test_a_restore_that_is_ended_leaves_nothing(installation: Installation, silent: str) -> None:
    data = installation.directory / "new"
    begun, words = (data / ".restoring").exists, ("restore", silent, "--data", str(data))
    assert ended(installation, begun, signal.SIGTERM, *words) == (143, b"")
    assert not data.exists()


def test_what_is_stored_as_the_signal_comes_is_still_shown(installation: Installation) -> None:
    settings = load({"data": str(installation.data)}, {}, installation.directory)

    async def make(env: Environment) -> str:
        async with env.db.transaction() as tx:
            await tx.run("UPDATE users SET name = 'Ada'")
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        return env.name

    assert in_environment(settings, Namespace(sandbox=False), make) == "live"
    assert in_database(installation.data / "live.db", "SELECT name FROM users") == "Ada"


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
