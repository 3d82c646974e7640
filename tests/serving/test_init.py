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
from operating import PATIENCE_SECONDS, Installation, contents, in_database
from portico.cli import initialise
from portico.cli.output import CommandError
from portico.cli.serve import begin
from portico.settings import Settings, load
from servers import PostgresServer

KEYS_ARE_REFUSED = """
CREATE TRIGGER refused BEFORE INSERT ON api_keys BEGIN SELECT RAISE(ABORT, 'on purpose'); END
"""

ALL_THE_SAME = (
    "The admin admin@example.com and a live key were created: portico users"
    " reset-password admin@example.com prints a link to set a password; portico keys create --owner"
    " admin@example.com --name NAME --type live prints a key (--type test one for the sandbox)."
)
RESET = ["users", "reset-password", "admin@example.com"]
KEY = ["keys", "create", "--owner", "admin@example.com", "--name", "Another", "--type"]


def is_refused(installation: Installation, *more: str) -> bool:
    place = "database" if "database_url" in installation.variables else "data directory"
    told = f"This {place} is already prepared; nothing was changed."
    return installation.refused("init", *more) == (1, told)


def test_authority_and_keys_stay_when_an_address_is_another_by_now(empty: Installation) -> None:
    empty.told("init")
    before = contents(empty.data)

    elsewhere = empty.having(base_url="https://api.example.com/v1")

    assert is_refused(elsewhere, "--json")
    assert contents(empty.data) == before


def test_migrations_that_are_pending_stay_pending(empty: Installation) -> None:
    empty.told("init")
    settings = load({}, empty.environment, empty.directory)
    before = contents(empty.data)

    with (
        later_release(empty.directory / "later", "CREATE TABLE later (a INTEGER);"),
        pytest.raises(CommandError, match="already prepared; nothing was changed"),
    ):
        initialise.run(settings, Namespace(admin_email=None, json=False))
    assert contents(empty.data) == before


def test_a_host_of_a_database_that_another_has_prepared_gets_nothing(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    shared = Installation(first).having(database_url=postgres.fresh_database())
    shared.told("init")

    assert is_refused(replace(shared, directory=second))
    assert list(second.iterdir()) == []


def test_the_directory_of_a_server_with_its_database_elsewhere_gets_no_other(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    host = Installation(tmp_path).having(database_url=postgres.fresh_database())
    host.told("init")
    with host.serving():
        pass
    without_settings = replace(host, variables={})
    before = set(contents(host.data))

    for command in ("init", "migrate", "serve"):
        code, told = without_settings.refused(command)
        assert code == 1
        assert told.startswith(f"{host.data} has the secret of a server but no database;")
    code, told = without_settings.refused("users", "list")
    assert code == 1
    assert "run this with its server's settings (portico.toml and PORTICO_ variables)" in told
    assert set(contents(host.data)) == before


def test_a_database_that_was_emptied_is_no_place_for_another(tmp_path: Path) -> None:
    lost = Installation(tmp_path)
    lost.told("init")
    database = lost.data / "live.db"
    database.write_bytes(b"")
    before = set(contents(lost.data))

    for command in ("init", "migrate", "serve"):
        code, told = lost.refused(command)
        assert code == 1
        assert told.startswith(f"The live database, {database}, is lost, and the other is there")
    assert set(contents(lost.data)) == before
    (lost.data / "sandbox.db").unlink()
    for command in ("init", "migrate", "serve"):
        code, told = lost.refused(command)
        assert code == 1
        assert told.startswith(f"{lost.data} has the secret of a server but no database;")


def test_a_secret_that_a_setting_names_may_lie_in_the_directory_before_the_databases(
    empty: Installation,
) -> None:
    empty.data.mkdir()
    file = empty.data / "secret.key"
    file.write_text("ab" * 32)
    empty.having(secret_key_file=str(file)).told("init")
    assert file.read_text() == "ab" * 32


def test_databases_without_anybody_get_their_first_admin(empty: Installation) -> None:
    empty.told("migrate")
    assert empty.told("init")["admin"]["email"] == "admin@example.com"
    assert is_refused(empty)


@pytest.mark.parametrize("words", [["init"], ["init", "--json"], ["serve"]], ids=" ".join)
def test_a_first_start_whose_secrets_cannot_be_written_says_how_to_have_others(
    empty: Installation, words: list[str]
) -> None:
    with Path("/dev/full").open("wb") as full, (empty.directory / "errors").open("w+b") as errors:
        started = forking.Forked(words, empty.directory, empty.environment, full, errors)
        assert started.wait(PATIENCE_SECONDS) == 1
        errors.seek(0)
        (line,) = errors.read().decode().splitlines()

    assert line == (
        f"portico: the secret could not be written: No space left on device. {ALL_THE_SAME}"
    )
    assert empty.told(*RESET)["link"]
    for key_type in ("live", "test"):
        assert empty.told(*KEY, key_type)["key"].startswith(f"sk_{key_type}_")


class _File(apsw.VFSFile):
    """What the sandbox writes first; from when `live` has an account on, something happens."""

    def __init__(
        self,
        name: apsw.URIFilename | str | None,
        flags: list[int],
        live: Path,
        happens: Callable[[], None],
    ) -> None:
        super().__init__("unix", name, flags)
        self._live = live
        self._happens = happens

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        if in_database(self._live, "SELECT count(*) FROM users"):
            self._happens()
        super().xWrite(data, offset)


class _Disk(apsw.VFS):
    """SQLite's file system with such files."""

    NAME = "sandbox is watched"

    def __init__(self, live: Path, happens: Callable[[], None]) -> None:
        super().__init__(self.NAME, "unix")
        self._live = live
        self._happens = happens

    def xOpen(  # noqa: N802 - SQLite's name
        self, name: apsw.URIFilename | str | None, flags: list[int]
    ) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        if path.endswith("sandbox.db-wal"):
            return _File(name, flags, self._live, self._happens)
        return apsw.VFSFile("unix", name, flags)


@contextmanager
def as_the_sandbox_is_written(
    installation: Installation, happens: Callable[[], None]
) -> Iterator[None]:
    """Something happens as this process writes the sandbox once live has an account."""
    disk = _Disk(installation.data / "live.db", happens)
    apsw.set_default_vfs(disk.NAME)
    try:
        yield
    finally:
        apsw.set_default_vfs("unix")
        disk.unregister()


class End:
    """Ends this process, once, as Ctrl-C does."""

    has_come = False

    def __call__(self) -> None:
        if not self.has_come:
            self.has_come = True
            os.kill(os.getpid(), signal.SIGINT)


def migrated(directory: Path) -> tuple[Installation, Settings]:
    """An installation whose databases have their tables, and nobody in them."""
    installation = Installation(directory)
    installation.told("migrate")
    return installation, load({}, installation.environment, directory)


def is_full() -> None:
    raise apsw.FullError("on purpose")


def test_a_first_start_that_is_ended_with_an_admin_there_shows_its_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installation, settings = migrated(tmp_path)
    ends = End()
    with as_the_sandbox_is_written(installation, ends):
        initialise.run(settings, Namespace(admin_email=None, json=True))

    assert ends.has_come
    keys = json.loads(capsys.readouterr().out)["keys"]
    hints = {key["type"]: key["hint"][-4:] for key in installation.told("keys", "list")}
    assert hints == {"live": keys["live"][-4:]}
    assert keys["test"].startswith("sk_test_")


def test_a_server_that_is_ended_with_an_admin_there_shows_its_secrets_and_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    installation, settings = migrated(tmp_path)
    ends = End()
    with as_the_sandbox_is_written(installation, ends), pytest.raises(KeyboardInterrupt):
        asyncio.run(begin(settings))

    assert ends.has_come
    shown = capsys.readouterr().out
    (hint,) = (key["hint"][-4:] for key in installation.told("keys", "list"))
    assert f"{hint}\n" in shown
    assert "password" in shown


def test_a_first_start_whose_sandbox_takes_nothing_says_what_is_there(tmp_path: Path) -> None:
    installation, settings = migrated(tmp_path)

    with (
        as_the_sandbox_is_written(installation, is_full),
        pytest.raises(CommandError) as refused,
    ):
        initialise.run(settings, Namespace(admin_email=None, json=False))

    assert str(refused.value) == f"The server's disk is full. {ALL_THE_SAME}"
    assert is_refused(installation)
    assert [key["type"] for key in installation.told("keys", "list")] == ["live"]
    assert installation.told(*RESET)["link"]
    assert installation.told(*KEY, "test")["key"]


def test_a_first_start_that_cannot_give_a_key_makes_no_admin(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    installation.told("migrate")
    live = installation.data / "live.db"
    in_database(live, KEYS_ARE_REFUSED)

    assert installation.run("init").returncode == 1
    assert installation.told("users", "list") == []
    in_database(live, "DROP TRIGGER refused")
    assert installation.told("init")["keys"]["live"]


@pytest.mark.parametrize("email", ["nobody", "a@b"])
def test_an_email_that_is_none_is_misuse_and_makes_nothing(tmp_path: Path, email: str) -> None:
    done = Installation(tmp_path).run("init", "--admin-email", email)

    assert (done.returncode, done.stdout) == (2, "")
    assert "argument --admin-email: must be" in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
