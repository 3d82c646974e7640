"""`portico init` prepares what nobody has prepared, and leaves everything else as it is."""

import asyncio
import json
import os
import signal
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import apsw
import pytest

import forking
from later_release import later_release
from operating import TIMEOUT_SECONDS, Installation, contents, in_database
from portico.cli import initialise
from portico.cli.output import CommandError
from portico.cli.serve import begin
from portico.settings import load

WHAT_TO_DO = (
    "The admin admin@example.com and a live key were created: portico users"
    " reset-password admin@example.com prints a link to set a password; portico keys create --owner"
    " admin@example.com --name NAME --type live prints a key (--type test one for the sandbox)."
)
RESET = ["users", "reset-password", "admin@example.com"]
KEY = ["keys", "create", "--owner", "admin@example.com", "--name", "Another", "--type"]


def is_refused(installation: Installation) -> bool:
    place = "database" if "database_url" in installation.variables else "data directory"
    told = f"This {place} is already prepared; nothing was changed."
    return installation.refused("init") == (1, told)


def test_prepared_installation_stays_as_it_is(either: Installation, tmp_path: Path) -> None:
    before = contents(either.data)
    assert is_refused(either.having(base_url="https://api.example.com/v1"))
    settings = load({}, either.environment, either.directory)
    with (
        later_release(tmp_path / "later", "CREATE TABLE later (a INTEGER);"),
        pytest.raises(CommandError, match="already prepared; nothing was changed"),
    ):
        initialise.run(settings, Namespace(admin_email=None, json=False))
    assert contents(either.data) == before
    if "database_url" in either.variables:
        (second := tmp_path / "second").mkdir()
        assert is_refused(replace(either, directory=second))
        assert list(second.iterdir()) == []


def test_directory_of_a_server_with_its_database_elsewhere_gets_no_other(
    on_postgres: Installation,
) -> None:
    without_settings = replace(on_postgres, variables={})
    before = set(contents(on_postgres.data))
    for command in ("init", "migrate", "serve"):
        code, line = without_settings.refused(command)
        assert (code, "has the secret of a server but no database;" in line) == (1, True)
    _, line = without_settings.refused("users", "list")
    assert "run this with its server's settings (portico.toml and PORTICO_ variables)" in line
    assert set(contents(on_postgres.data)) == before


def test_given_secret_may_lie_in_the_directory_before_the_databases(tmp_path: Path) -> None:
    empty = Installation(tmp_path)
    empty.data.mkdir()
    file = empty.data / "secret.key"
    file.write_text("ab" * 32)
    empty.having(secret_key_file=str(file)).told("init")
    assert file.read_text() == "ab" * 32


def test_databases_without_anybody_get_their_first_admin(empty: Installation) -> None:
    empty.told("migrate")
    assert empty.told("init")["admin"]["email"] == "admin@example.com"
    assert is_refused(empty)


@pytest.mark.parametrize("command", ["init", "serve"])
def test_first_start_whose_secrets_cannot_be_written_says_how_to_have_others(
    tmp_path: Path, command: str
) -> None:
    empty = Installation(tmp_path)
    with Path("/dev/full").open("wb") as full, (tmp_path / "errors").open("w+b") as errors:
        started = forking.Forked([command], tmp_path, empty.environment, full, errors)
        assert started.wait(TIMEOUT_SECONDS) == 1
    assert (tmp_path / "errors").read_text() == (
        f"portico: the secret could not be written: No space left on device. {WHAT_TO_DO}\n"
    )
    assert empty.told(*RESET)["link"]
    assert empty.told(*KEY, "test")["key"].startswith("sk_test_")


class Disk(apsw.VFS):
    """SQLite's file system, on which something happens before each write of the sandbox once live
    has an account."""

    NAME = "sandbox is watched"

    def __init__(self, live: Path, happens: Callable[[], None]) -> None:
        super().__init__(self.NAME, "unix")

        class File(apsw.VFSFile):
            def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
                if in_database(live, "SELECT count(*) FROM users"):
                    happens()
                super().xWrite(data, offset)

        self._kind = File

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: apsw.URIFilename | str | None, flags: list[int]
    ) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        kind = self._kind if path.endswith("sandbox.db-wal") else apsw.VFSFile
        return kind("unix", name, flags)


@contextmanager
def as_the_sandbox_is_written(
    installation: Installation, happens: Callable[[], None]
) -> Iterator[None]:
    disk = Disk(installation.data / "live.db", happens)
    apsw.set_default_vfs(disk.NAME)
    try:
        yield
    finally:
        apsw.set_default_vfs("unix")
        disk.unregister()


@pytest.fixture
def migrated(tmp_path: Path) -> Installation:
    """Databases with their tables, and nobody in them."""
    installation = Installation(tmp_path)
    installation.told("migrate")
    return installation


@pytest.mark.parametrize("command", ["init", "serve"])
def test_first_start_that_is_ended_with_an_admin_there_shows_its_secrets(
    migrated: Installation, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    settings = load({}, migrated.environment, migrated.directory)
    ended: list[bool] = []

    def end() -> None:
        if not ended:
            ended.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    with as_the_sandbox_is_written(migrated, end):
        if command == "init":
            initialise.run(settings, Namespace(admin_email=None, json=True))
        else:
            with pytest.raises(KeyboardInterrupt):
                asyncio.run(begin(settings))
    assert ended
    shown = capsys.readouterr().out
    (key,) = migrated.told("keys", "list")
    assert (key["type"], key["hint"][-4:] in shown, "password" in shown) == ("live", True, True)
    assert command == "serve" or json.loads(shown)["keys"]["test"].startswith("sk_test_")


def test_first_start_whose_sandbox_is_full_says_what_is_there(migrated: Installation) -> None:
    settings = load({}, migrated.environment, migrated.directory)

    def be_full() -> None:
        raise apsw.FullError("on purpose")

    with as_the_sandbox_is_written(migrated, be_full), pytest.raises(CommandError) as refused:
        initialise.run(settings, Namespace(admin_email=None, json=False))
    assert str(refused.value) == f"The server's disk is full. {WHAT_TO_DO}"
    assert is_refused(migrated)
    assert migrated.told(*RESET)["link"]
    assert migrated.told(*KEY, "test")["key"]


def test_first_start_that_cannot_give_a_key_makes_no_admin(migrated: Installation) -> None:
    refusal = "BEFORE INSERT ON api_keys BEGIN SELECT RAISE(ABORT, 'on purpose'); END"
    in_database(migrated.data / "live.db", f"CREATE TRIGGER refused {refusal}")
    assert migrated.run("init").returncode == 1
    assert migrated.told("users", "list") == []
    in_database(migrated.data / "live.db", "DROP TRIGGER refused")
    assert migrated.told("init")["keys"]["live"]


def test_email_that_is_none_is_misuse_and_makes_nothing(tmp_path: Path) -> None:
    done = Installation(tmp_path).run("init", "--admin-email", "a@b")
    assert (done.returncode, done.stdout) == (2, "")
    assert "argument --admin-email: must be" in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
