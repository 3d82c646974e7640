"""While a backup is being restored, and after a restore was killed, nothing starts in its place."""

import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import IO

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


def require_refused(installation: Installation, said: str, *commands: str) -> None:
    """Asserts that each of these commands is refused with these words."""
    for command in commands:
        code, line = installation.refused(*command.split())
        assert (code, said in line) == (1, True), (command, line)


def restoring(
    target: Installation, archive: Path, *program: str, path: str = ""
) -> "subprocess.Popen[str]":
    """A restore, with the programs of `path` first."""
    return subprocess.Popen(
        [*(program or COMMAND), "restore", str(archive)],
        cwd=target.directory,
        env=target.environment | {"PATH": f"{path}:{os.environ['PATH']}"},
        stderr=subprocess.PIPE,
        text=True,
    )


def writer_of(pipe: Path) -> IO[bytes] | None:
    """The other end of a pipe; None while nobody reads it."""
    with suppress(OSError):
        return os.fdopen(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK), "wb")
    return None


@contextmanager
def held(
    restored: Installation, archive: Path
) -> Iterator[tuple["subprocess.Popen[str]", IO[bytes]]]:
    """A restore that has unpacked its archive, and what to close for it to go on."""
    pipe = restored.directory / "held"
    os.mkfifo(pipe)
    with restoring(restored, archive, COMMAND[0], "-c", HELD, str(pipe)) as command:
        try:
            with until(lambda: writer_of(pipe), "the beginning") as end:
                yield command, end
        finally:
            command.kill()


def test_nothing_starts_in_a_directory_that_is_being_restored(
    restored: Installation, archive: Path
) -> None:
    with held(restored, archive) as (command, end):
        starts = ("serve", "serve --no-migrate", "init", "migrate", "restore another.tar")
        require_refused(restored, "under way or was interrupted", *starts)
        end.close()
        assert command.communicate()[1] == ""
    with restored.serving() as service:
        assert service.ask("/v1/users/me", key=restored.key).status == 200


def test_nothing_starts_where_a_restore_was_killed(restored: Installation, archive: Path) -> None:
    with held(restored, archive) as (command, _):
        command.kill()
        command.wait()
    require_refused(restored, "under way or was interrupted", "serve", "init")
    assert not (restored.data / "live.db").exists()


def test_what_came_into_the_directory_meanwhile_is_not_restored_over(
    restored: Installation, archive: Path
) -> None:
    with held(restored, archive) as (command, end):
        (restored.data / "live.db").write_text("somebody's")
        end.close()
        said = command.communicate()[1]
    assert (command.returncode, "is not empty" in said) == (1, True)
    assert (restored.data / "live.db").read_text() == "somebody's"
    assert {path.name for path in restored.data.iterdir()} == {"init.lock", "live.db"}


# On PostgreSQL


@pytest.fixture
def dump(on_postgres: Installation) -> Path:
    """A backup that was made on PostgreSQL."""
    path = on_postgres.directory / "backup.tar"
    on_postgres.told("backup", str(path))
    return path


@pytest.fixture
def hosts(postgres: PostgresServer, tmp_path: Path) -> tuple[Installation, Installation]:
    """Two directories that use the same database, which is empty."""
    url = postgres.fresh_database()
    directories = [tmp_path / "one", tmp_path / "other"]
    for directory in directories:
        directory.mkdir()
    one, other = (Installation(directory).having(database_url=url) for directory in directories)
    return one, other


@contextmanager
def stored(target: Installation, dump: Path) -> Iterator["subprocess.Popen[str]"]:
    """A restore that PostgreSQL has stored, and that is not through."""
    silent, program = target.directory / "silent", target.directory / "programs" / "pg_restore"
    os.mkfifo(silent)
    program.parent.mkdir()
    program.write_text(LINGERING.format(program=shutil.which("pg_restore"), silent=silent))
    program.chmod(0o700)
    with (
        restoring(target, dump, path=str(program.parent)) as command,
        until(lambda: writer_of(silent), "what was stored"),
    ):
        yield command


@asynccontextmanager
async def half_stored(target: Installation, dump: Path) -> AsyncIterator["subprocess.Popen[str]"]:
    """A restore that PostgreSQL is storing, until the end of this."""
    connection = await asyncpg.connect(target.variables["database_url"])
    await connection.execute(HELD_TABLES)
    with restoring(target, dump) as command:
        try:
            await eventually(lambda: connection.fetch(WAITS), "the first table")
            yield command
        finally:
            await connection.close()


def test_restore_that_is_ended_once_postgresql_has_stored_it_leaves_nothing(
    hosts: tuple[Installation, Installation], dump: Path
) -> None:
    target, other = hosts
    with stored(target, dump) as command:
        require_refused(other, "is being restored", "serve", "migrate")
        command.send_signal(signal.SIGTERM)
        assert command.communicate()[1] == ""
    assert command.returncode == 128 + signal.SIGTERM
    assert not target.data.exists()
    target.told("restore", str(dump))


async def test_restore_is_alone_on_a_database_and_ends_as_it_began(
    hosts: tuple[Installation, Installation], dump: Path
) -> None:
    target, other = hosts
    async with half_stored(target, dump) as first:
        require_refused(other, "is under way", f"restore {dump}")
        assert not other.data.exists()
        require_refused(other, "is being restored", "serve", "init", "migrate")
    assert first.wait() == 0
    assert target.told("users", "show", "admin@example.com")["role"] == "admin"


async def test_restore_by_a_role_that_may_make_no_schemas_says_what_it_lacks(
    restored: Installation, archive: Path, postgres: PostgresServer
) -> None:
    url = postgres.fresh_database()
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE ROLE narrow LOGIN PASSWORD 'narrow'")
    try:
        narrow = f"postgresql://narrow:narrow@{url.rpartition('@')[2]}"
        require_refused(
            restored.having(database_url=narrow), "GRANT CREATE ON DATABASE", f"restore {archive}"
        )
    finally:
        await connection.execute("DROP ROLE narrow")
        await connection.close()
    assert not restored.data.exists()
