"""While a backup is being restored, and after a restore was killed, nothing starts in its place."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

import pytest

from operating import COMMAND, Installation, until
from servers import PostgresServer

HELD = """
import sys
from portico.cli.main import main

held = [sys.argv[1]]

def hold(event, about):
    if held and event == "open" and str(about[0]).endswith(".restoring/secret.key"):
        open(held.pop()).read()

sys.addaudithook(hold)
sys.exit(main(sys.argv[2:]))
"""
"""A restore that waits, as it comes to the secret, for the end of a file."""

LINGERING = """#!/bin/sh
"{program}" "$@" || exit
case "$*" in *--single-transaction*) exec cat "{silent}"; esac
"""
"""A pg_restore that has stored everything, and does not end."""

STARTS = (["serve"], ["serve", "--no-migrate"], ["init"], ["migrate"])


@pytest.fixture
def archive(installation: Installation) -> Path:
    """A backup of an installation on SQLite."""
    path = installation.directory / "backup.tar"
    installation.told("backup", str(path))
    return path


@pytest.fixture
def restored(installation: Installation, tmp_path: Path) -> Installation:
    """Where its backup is restored to."""
    (tmp_path / "restored").mkdir()
    return Installation(tmp_path / "restored", facts=installation.facts)


@contextmanager
def under_way(restored: Installation, archive: Path) -> Iterator["Restore"]:
    """A restore that has unpacked its archive, and waits to go on."""
    held = restored.directory / "held"
    os.mkfifo(held)
    with subprocess.Popen(
        [COMMAND[0], "-c", HELD, str(held), "restore", str(archive)],
        cwd=restored.directory,
        env=restored.environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        try:
            with until(lambda: _end_of(held), "the beginning") as end:
                yield Restore(command, end)
        finally:
            command.kill()


def _end_of(held: Path) -> IO[bytes] | None:
    """Where to close what is read from the other end; None while nobody reads."""
    with suppress(OSError):
        return os.fdopen(os.open(held, os.O_WRONLY | os.O_NONBLOCK), "wb")
    return None


class Restore(NamedTuple):
    """A restore under way, and the file that it waits for."""

    command: "subprocess.Popen[str]"
    held: IO[bytes]

    def goes_on(self) -> tuple[int, str]:
        """Its exit code, and what it said."""
        self.held.close()
        _, said = self.command.communicate()
        return self.command.returncode, said


def require_refused(restored: Installation) -> None:
    """That nothing starts, or restores, in a directory."""
    for words in (*STARTS, ["restore", "another.tar"]):
        code, line = restored.refused(*words)
        assert (code, "under way or was cut off" in line) == (1, True), words


def test_nothing_starts_in_a_directory_that_is_being_restored(
    restored: Installation, archive: Path
) -> None:
    with under_way(restored, archive) as restore:
        require_refused(restored)
        assert restore.goes_on() == (0, "")
    with restored.serving() as service:
        assert service.ask("/v1/users/me", key=restored.key).status == 200


def test_a_restore_that_fails_beside_a_start_leaves_room_for_the_next(
    restored: Installation, archive: Path
) -> None:
    with under_way(restored, archive) as restore:
        restored.refused("serve")
        (restored.data / ".restoring" / "live.db").write_bytes(b"damaged")
        assert restore.goes_on()[0] == 1
    restored.told("restore", str(archive))


def test_nothing_starts_where_a_restore_was_killed(restored: Installation, archive: Path) -> None:
    with under_way(restored, archive) as restore:
        restore.command.kill()
        assert restore.command.wait() == -signal.SIGKILL
    require_refused(restored)
    assert not (restored.data / "live.db").exists()


def test_what_came_into_the_directory_meanwhile_is_not_restored_over(
    restored: Installation, archive: Path
) -> None:
    with under_way(restored, archive) as restore:
        (restored.data / "live.db").write_text("somebody's")
        code, said = restore.goes_on()
    assert (code, "is not empty" in said) == (1, True)
    assert (restored.data / "live.db").read_text() == "somebody's"
    assert {path.name for path in restored.data.iterdir()} == {"init.lock", "live.db"}


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_restore_that_is_ended_as_postgresql_has_stored_it_leaves_nothing(
    postgres: PostgresServer, tmp_path: Path, how: signal.Signals, code: int
) -> None:
    (tmp_path / "first").mkdir()
    first = Installation(tmp_path / "first").having(database_url=postgres.fresh_database())
    first.told("init")
    first.told("backup", str(tmp_path / "backup.tar"))
    restored = Installation(tmp_path).having(database_url=postgres.fresh_database())
    silent, program = tmp_path / "silent", tmp_path / "programs" / "pg_restore"
    os.mkfifo(silent)
    program.parent.mkdir()
    program.write_text(LINGERING.format(program=shutil.which("pg_restore"), silent=silent))
    program.chmod(0o700)
    path = f"{program.parent}:{os.environ['PATH']}"
    with (
        subprocess.Popen(
            [*COMMAND, "restore", str(tmp_path / "backup.tar")],
            env=restored.environment | {"PATH": path},
            stderr=subprocess.PIPE,
        ) as command,
        until(lambda: _end_of(silent), "what was stored"),
    ):
        command.send_signal(how)
        said = command.communicate()[1]

    assert (command.returncode, said) == (code, b"")
    assert not restored.data.exists()
    restored.told("restore", str(tmp_path / "backup.tar"))
