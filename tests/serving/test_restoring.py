"""While a backup is being restored, and after a restore was killed, nothing starts in its place."""

import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

import asyncpg
import pytest

from operating import COMMAND, Installation, eventually, until
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

FAILING = """
import sys
from pathlib import Path
from portico.cli.main import main

put = []

def fail(event, about):
    if event == "os.rename" and Path(about[0]).parent.name == ".restoring":
        put.append(Path(about[1]).name)
        if put[-1] == "live.db":
            print(*put)
            raise OSError(5, "Input/output error")

sys.addaudithook(fail)
sys.exit(main(sys.argv[1:]))
"""
"""A restore that puts everything into its place but the live database, and tells what."""

LINGERING = """#!/bin/sh
"{program}" "$@" || exit
case "$*" in *--single-transaction*) exec cat "{silent}"; esac
"""
"""A pg_restore that has stored everything, and does not end."""

HELD_TABLES = """
SELECT pg_advisory_lock(1);
CREATE FUNCTION held() RETURNS event_trigger LANGUAGE plpgsql
    AS $$ BEGIN PERFORM pg_advisory_xact_lock_shared(1); END $$;
CREATE EVENT TRIGGER held ON ddl_command_end WHEN TAG IN ('CREATE TABLE')
    EXECUTE FUNCTION held()"""
"""Has whoever makes a table wait for the end of this session."""

WAITS = """
SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database
WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()"""

LET_GO = """
SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_database ON pg_database.oid = database
WHERE locktype = 'advisory' AND datname = current_database()"""

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
        assert (code, "under way or was interrupted" in line) == (1, True), words


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


def test_the_live_database_comes_last_and_without_it_nothing_stays(
    restored: Installation, archive: Path
) -> None:
    failed = subprocess.run(
        [COMMAND[0], "-c", FAILING, "restore", str(archive)],
        cwd=restored.directory,
        env=restored.environment,
        capture_output=True,
        text=True,
    )
    assert failed.returncode == 1
    *before, last = failed.stdout.split()
    assert (set(before), last) == ({"sandbox.db", "secret.key", "tls"}, "live.db")
    assert not restored.data.exists()
    restored.told("restore", str(archive))


def test_what_came_into_the_directory_meanwhile_is_not_restored_over(
    restored: Installation, archive: Path
) -> None:
    with under_way(restored, archive) as restore:
        (restored.data / "live.db").write_text("somebody's")
        code, said = restore.goes_on()
    assert (code, "is not empty" in said) == (1, True)
    assert (restored.data / "live.db").read_text() == "somebody's"
    assert {path.name for path in restored.data.iterdir()} == {"init.lock", "live.db"}


@pytest.fixture
def copies(postgres: PostgresServer, tmp_path: Path) -> Callable[[str], Installation]:
    """Makes directories, by their names, beside the file of a backup that was made on PostgreSQL:
    all of them use another database, which is empty."""
    (tmp_path / "first").mkdir()
    first = Installation(tmp_path / "first").having(database_url=postgres.fresh_database())
    first.told("init")
    first.told("backup", str(tmp_path / "backup.tar"))
    database_url = postgres.fresh_database()

    def copy(name: str) -> Installation:
        (tmp_path / name).mkdir()
        return Installation(tmp_path / name).having(database_url=database_url)

    return copy


def restoring(copy: Installation, path: str | None = None) -> "subprocess.Popen[str]":
    """A restore of that backup, with the programs of `path`."""
    return subprocess.Popen(
        [*COMMAND, "restore", "../backup.tar"],
        cwd=copy.directory,
        env=copy.environment | ({"PATH": path} if path else {}),
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def stored(copy: Installation) -> Iterator["subprocess.Popen[str]"]:
    """A restore that PostgreSQL has stored, and that is not through."""
    silent, program = copy.directory / "silent", copy.directory / "programs" / "pg_restore"
    os.mkfifo(silent)
    program.parent.mkdir()
    program.write_text(LINGERING.format(program=shutil.which("pg_restore"), silent=silent))
    program.chmod(0o700)
    with (
        restoring(copy, f"{program.parent}:{os.environ['PATH']}") as command,
        until(lambda: _end_of(silent), "what was stored"),
    ):
        yield command


@asynccontextmanager
async def half_stored(copy: Installation) -> AsyncIterator["subprocess.Popen[str]"]:
    """A restore that PostgreSQL is storing, until the end of this."""
    connection = await asyncpg.connect(copy.variables["database_url"])
    await connection.execute(HELD_TABLES)
    with restoring(copy) as command:
        try:
            await eventually(lambda: connection.fetch(WAITS), "the first table")
            yield command
        finally:
            await connection.close()


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_restore_that_is_ended_as_postgresql_has_stored_it_leaves_nothing(
    copies: Callable[[str], Installation], how: signal.Signals, code: int
) -> None:
    copy = copies("copy")
    with stored(copy) as command:
        command.send_signal(how)
        said = command.communicate()[1]

    assert (command.returncode, said) == (code, "")
    assert not copy.data.exists()
    copy.told("restore", "../backup.tar")


async def test_a_restore_by_a_role_that_may_make_no_schemas_says_what_it_lacks(
    restored: Installation, archive: Path, postgres: PostgresServer
) -> None:
    url = postgres.fresh_database()
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE ROLE narrow LOGIN PASSWORD 'narrow'")
    try:
        narrow = f"postgresql://narrow:narrow@{url.rpartition('@')[2]}"
        code, said = restored.having(database_url=narrow).refused("restore", str(archive))
    finally:
        await connection.execute("DROP ROLE narrow")
        await connection.close()
    assert (code, "could not be emptied" in said) == (1, False)
    assert "GRANT CREATE ON DATABASE" in said
    assert not restored.data.exists()


async def test_a_second_restore_into_a_database_is_refused_at_once_and_the_first_is_kept(
    copies: Callable[[str], Installation],
) -> None:
    copy, second = copies("copy"), copies("second")
    async with half_stored(copy) as first:
        with restoring(second) as late:
            try:
                await eventually(lambda: late.poll() is not None, "the refusal", 20)
            finally:
                late.send_signal(signal.SIGINT)
            said = late.communicate()[1]
        assert (late.returncode, said.count("\n"), "is under way" in said) == (1, 1, True)
        assert not second.data.exists()
    assert first.returncode == 0
    assert copy.told("users", "show", "admin@example.com")["role"] == "admin"


async def test_no_other_host_starts_on_a_database_that_postgresql_is_storing(
    copies: Callable[[str], Installation],
) -> None:
    copy, other = copies("copy"), copies("other")
    async with half_stored(copy) as command:
        for words in (["serve"], ["init"], ["migrate"]):
            code, line = other.refused(*words)
            assert (code, "is being restored" in line) == (1, True), words
        command.send_signal(signal.SIGINT)
        assert command.wait() == 130
    assert other.told("init")["admin"]["email"] == "admin@example.com"


def test_no_other_host_starts_on_a_database_whose_restore_is_not_through(
    copies: Callable[[str], Installation],
) -> None:
    copy, other = copies("copy"), copies("other")
    with stored(copy):
        for words in (["serve"], ["migrate"]):
            code, line = other.refused(*words)
            assert (code, "is being restored" in line) == (1, True), words
    other.told("migrate")


async def test_a_restore_that_lost_its_hold_on_the_database_removes_nothing(
    copies: Callable[[str], Installation],
) -> None:
    copy = copies("copy")
    connection = await asyncpg.connect(copy.variables["database_url"])
    with stored(copy) as command:
        assert await connection.fetch(LET_GO)
        command.send_signal(signal.SIGINT)
        said = command.communicate()[1]

    assert (command.returncode, "could not be emptied" in said) == (1, True)
    assert await connection.fetchval("SELECT count(*) FROM portico_live.users") == 1
    await connection.close()
