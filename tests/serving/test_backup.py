"""A backup of a running server restores to one that serves with the old keys."""

import os
import re
import shutil
import stat
import subprocess
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from errno import ENOSPC
from pathlib import Path

import pytest

from operating import Installation, Service, damage, in_database, until
from portico.cli.initialise import UNFINISHED
from portico.cli.output import CommandError
from portico.features.operations.commands.backup import run_restore
from portico.settings import load
from servers import PostgresServer

METRIC = r"(?m)^portico_backup_last_success_timestamp_seconds ([1-9]\S+)$"


@pytest.fixture
def target(either: Installation, postgres: PostgresServer, tmp_path: Path) -> Installation:
    """Where a backup of `either` can be restored to."""
    (tmp_path / "target").mkdir()
    made = Installation(tmp_path / "target", facts=either.facts)
    return made.having(database_url=postgres.fresh_database()) if either.variables else made


@contextmanager
def writing(service: Service) -> Iterator[list[int]]:
    """Creates products, one after another; their ids."""
    over, made = threading.Event(), [service.make_product()]

    def write() -> None:
        with service.connect() as connection:
            while not over.is_set():
                made.append(service.make_product(connection=connection))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield made
    finally:
        over.set()
        thread.join()


def products(service: Service) -> list[int]:
    """The ids of all products, oldest first."""
    query, key = "/v1/products?status=draft&limit=100&page=", service.installation.key
    pages = service.ask(f"{query}1", key=key).json["pagination"]["total_pages"]
    listed = [service.ask(f"{query}{page}", key=key).json for page in range(1, pages + 1)]
    return [product["id"] for page in listed for product in page["data"]][::-1]


def events(service: Service, after: int) -> list[dict[str, object]]:
    """The events after the one with this id."""
    answer = service.ask(f"/v1/events?after={after}", key=service.installation.key)
    return list(answer.json["data"])


def test_backup_among_writes_restores_a_state_without_a_gap(
    either: Installation, target: Installation
) -> None:
    archive = either.directory / "backup.tar.gz"
    with either.unlimited().serving() as service, writing(service) as made:
        until(lambda: len(made) >= 5, "the first products")
        before = list(made)
        told = either.told("backup", str(archive))
        assert len(made) > len(before), "writes go on meanwhile"
    assert told["bytes"] == archive.stat().st_size
    assert stat.S_IMODE(archive.stat().st_mode) == 0o600
    assert target.told("restore", str(archive))["engine"] == told["engine"]
    with target.unlimited().serving() as service:
        found = products(service)
        assert found[: len(before)] == before
        assert found == made[: len(found)]
        test_key = target.facts["keys"]["test"]
        assert service.ask("/sandbox/v1/users/me", key=test_key).status == 200
    authority = (either.data / "tls" / "ca.pem").read_bytes()
    assert (target.data / "tls" / "ca.pem").read_bytes() == authority
    assert target.run("doctor").returncode == 0


def test_numbers_given_after_the_backup_are_given_to_nothing_else(
    either: Installation, target: Installation
) -> None:
    archive = either.directory / "backup.tar"
    hook = ("webhooks", "create", "--url", "https://example.com/a", "--types", "*")
    with either.serving() as service:
        service.make_product("kept")
        kept = events(service, 0)
        either.told("backup", str(archive))
        lost = service.make_product("lost")
        positions = [event["id"] for event in events(service, int(str(kept[-1]["id"])))]
        either.told(*hook)
    target.told("restore", str(archive))
    with target.serving() as service:
        made = service.make_product("new")
        found = events(service, 0)
        news = found[len(kept) :]
        assert found[: len(kept)] == kept
        assert [event["data"] for event in news] == [{**news[0]["data"], "id": made}]  # type: ignore[dict-item]  # an object
        assert made > lost
        for position in (kept[-1]["id"], *positions):
            assert events(service, int(str(position))) == news
    assert target.told(*hook)["id"] > 1, "not that of the lost one"


def test_tls_files_of_portico_alone_are_restored_as_they_were(
    installation: Installation, restored: Installation
) -> None:
    tls, archive = installation.data / "tls", installation.directory / "backup.tar"
    (tls / "ca.key").unlink()
    held = {path.name: path.read_bytes() for path in tls.iterdir()}
    for name in ("example.com.pem", "privkey1.key", "server.pem.new"):
        shutil.copy(tls / "server.key", tls / name)
    installation.told("backup", str(archive))
    restored.told("restore", str(archive))
    assert {file.name: file.read_bytes() for file in (restored.data / "tls").iterdir()} == held


def test_nothing_is_restored_over_an_installation(
    either: Installation, target: Installation, tmp_path: Path
) -> None:
    archive, before = tmp_path / "backup.tar", either.told("users", "list")
    either.told("backup", str(archive))
    if either.variables:
        assert "already holds a Portico" in refusal(
            target.having(**either.variables), "restore", str(archive)
        )
        assert not target.data.exists()
    assert "is not empty" in refusal(either, "restore", str(archive))
    assert either.told("users", "list") == before


def refusal(installation: Installation, *words: str) -> str:
    """The line with which a command fails."""
    code, line = installation.refused(*words)
    assert code == 1, line
    return line


def test_restore_is_on_disk_before_anybody_is_told(
    archive: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    data = tmp_path / "new" / "data"
    stored: dict[Path, set[str]] = {}
    store = os.fsync

    def seen(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            stored[path] = {one.name for one in path.iterdir()}
        store(descriptor)
        assert capsys.readouterr().out == ""

    monkeypatch.setattr(os, "fsync", seen)
    run_restore(load({"data": str(data)}, {}, tmp_path), Namespace(file=str(archive), json=True))

    assert stored[data] == {"init.lock", "live.db", "sandbox.db", "secret.key", "tls"}
    assert stored[data / UNFINISHED / "tls"] == {"ca.pem", "ca.key", "server.pem", "server.key"}
    assert "new" in stored[tmp_path]
    assert stored[data.parent] == {"data"}


def test_restore_that_fails_leaves_no_directory(
    restored: Installation, archive: Path, tmp_path: Path
) -> None:
    cut_short = tmp_path / "cut-short.tar"
    cut_short.write_bytes(archive.read_bytes()[:20_000])
    for wrong in (cut_short, tmp_path / "nowhere.tar", tmp_path):
        refusal(restored, "restore", str(wrong), "--data", str(tmp_path / "made" / "for" / "it"))
        assert not (tmp_path / "made").exists()


def test_restore_whose_files_find_no_room_leaves_none_and_is_repeated(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load({"data": str(tmp_path / "new")}, {}, tmp_path)
    rename = Path.rename

    def full(path: Path, target: Path) -> Path:
        if target == settings.data / "live.db":
            raise OSError(ENOSPC, "No space left on device")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(CommandError, match="disk is full"):
        run_restore(settings, Namespace(file=str(archive), json=False))
    assert not settings.data.exists()
    monkeypatch.undo()
    run_restore(settings, Namespace(file=str(archive), json=False))


@pytest.mark.parametrize(
    ("size", "said"),
    [
        ("256k", "live.db cannot be copied: the disk is full."),
        ("4k", "full/backup.tar cannot be written: the disk is full."),
    ],
)
def test_backup_on_a_full_disk_leaves_nothing(
    installation: Installation, tmp_path: Path, size: str, said: str
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(full)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        line = refusal(installation, "backup", str(full / "backup.tar"))
        left = list(full.iterdir())
    finally:
        subprocess.run(["umount", "--lazy", full], check=True)
    assert (line.endswith(said), left) == (True, [])


def test_backup_that_is_refused_writes_nothing(
    installation: Installation, postgres: PostgresServer, tmp_path: Path
) -> None:
    damage(installation.data / "sandbox.db", "products")
    existing, unprepared = tmp_path / "there.tar", Installation(tmp_path / "unprepared")
    existing.write_text("mine")
    unprepared.directory.mkdir()
    on_empty = unprepared.having(database_url=postgres.fresh_database())
    before = {path.name for path in tmp_path.iterdir()}
    for given, file, said in (
        (installation, "backup.tar", "sandbox.db cannot be copied"),
        (installation, "none/backup.tar", "There is no directory"),
        (installation, str(existing), "already exists"),
        (unprepared, "../backup.tar", "There is no Portico"),
        (on_empty, "../backup.tar", "nothing to back up"),
    ):
        assert said in refusal(given, "backup", file)
    assert installation.refused("backup", "-")[0] == 2, "standard output"
    assert existing.read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == before


def test_backup_of_another_release_is_complete_and_says_that_it_is_not_recorded(
    installation: Installation,
) -> None:
    newer = "INSERT INTO schema_migrations VALUES (9999, 'of_tomorrow', 'x', 1, NULL)"
    in_database(installation.data / "live.db", newer)
    done = installation.run("backup", "b.tar")
    assert (done.returncode, done.stdout.startswith("Backed up to ")) == (0, True)
    assert "complete, but the audit log does not list it: " in done.stderr
    assert (installation.directory / "b.tar").exists()


def test_backup_is_in_the_audit_log_and_in_the_metrics(
    installation: Installation, archive: Path
) -> None:
    (entry,) = installation.told("audit", "--action", "backup.created")
    assert (entry["credential"], entry["details"]) == ("command", {"bytes": archive.stat().st_size})
    with installation.serving() as service:
        shown = until(lambda: re.search(METRIC, service.ask("/metrics").text), "the metric")
    assert datetime.fromtimestamp(float(shown[1]), UTC) == datetime.fromisoformat(entry["at"])


def test_old_backup_is_noticed_by_doctor(installation: Installation) -> None:
    def found() -> list[tuple[str, bool]]:
        findings = installation.told("doctor")["findings"]
        return [
            (one["message"], one["advice"] != "") for one in findings if "backup" in one["check"]
        ]

    assert found() == [], "backups may be made by other means"
    record = "INSERT INTO audit (at, action, credential, target, details) VALUES"
    live = installation.data / "live.db"
    in_database(live, f"{record} (0, 'backup.created', 'command', '', '{{}}')")
    assert found() == [("the last one was made at 1970-01-01T00:00:00.000Z", True)]
    installation.told("backup", str(installation.directory / "backup.tar"))
    assert [old for _, old in found()] == [False]


# The programs of PostgreSQL


def test_backup_of_postgresql_is_not_restored_to_sqlite(
    on_postgres: Installation, restored: Installation
) -> None:
    archive = on_postgres.directory / "backup.tar"
    on_postgres.told("backup", str(archive))
    assert "PORTICO_DATABASE_URL" in refusal(restored, "restore", str(archive))
    assert not restored.data.exists()


def with_pg_dump(installation: Installation, script: str, *, version: str = "") -> Installation:
    """The installation with no other program to be found than this `pg_dump`."""
    programs = installation.directory / "programs"
    programs.mkdir()
    right = subprocess.run(["pg_dump", "--version"], capture_output=True, text=True, check=True)
    told = version or right.stdout.strip()
    (programs / "pg_dump").write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "{told}" && exit\n{script}\n'
    )
    (programs / "pg_dump").chmod(0o700)
    return replace(installation, path=programs)


FAILS = (
    "echo 'pg_dump: error: Dumping the contents of table \"users\" failed.' >&2\n"
    "echo 'pg_dump: detail: Error message from server: no equivalent' >&2; exit 1"
)


@pytest.mark.parametrize(
    ("script", "version", "said"),
    [
        ("", "pg_dump (PostgreSQL) 9.6.24", "pg_dump is version 9 and the server is"),
        (FAILS, "", 'failed: Dumping the contents of table "users" failed. pg_dump: detail: Error'),
    ],
)
def test_pg_dump_that_does_not_work_is_told_in_one_line(
    on_postgres: Installation, script: str, version: str, said: str
) -> None:
    assert said in refusal(with_pg_dump(on_postgres, script, version=version), "backup", "b.tar")
    assert not (on_postgres.directory / "b.tar").exists()


def test_no_password_is_an_argument_of_pg_dump(on_postgres: Installation) -> None:
    url = on_postgres.variables["database_url"]
    password = url.split(":")[2].split("@")[0]
    seen = on_postgres.directory / "seen"
    script = f'echo "$@" > {seen}; echo "$PGPASSWORD" >> {seen}; exit 1'
    watched = with_pg_dump(on_postgres, script)
    refusal(watched, "backup", "b.tar")
    arguments, given = seen.read_text().splitlines()
    assert (password in arguments, given) == (False, password)
    seen.unlink()
    code, line = watched.having(database_url=f"{url}?sslpassword=hush").refused("backup", "b.tar")
    assert (code, "sslpassword" in line, "hush" in line) == (2, True, False)
    assert not seen.exists()


# The secret


def test_backup_holds_the_secret_that_a_setting_gives_or_is_not_made(
    tmp_path: Path, restored: Installation
) -> None:
    bare, archive = Installation(tmp_path), tmp_path / "backup.tar"
    given = bare.having(secret_key="ab" * 32)
    given.told("init")
    assert not (given.data / "secret.key").exists()
    assert "secret is missing" in refusal(bare, "backup", str(archive))
    another = refusal(bare.having(secret_key="cd" * 32), "backup", str(archive))
    assert ("another secret" in another, archive.exists()) == (True, False)
    given.told("backup", str(archive))
    line = refusal(restored.having(secret_key="cd" * 32), "restore", str(archive))
    assert ("another secret" in line, "cdcd" in line) == (True, False)
    restored.told("restore", str(archive))
    secret = restored.data / "secret.key"
    assert secret.read_text() == "ab" * 32 + "\n"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert restored.told("doctor")["ok"] is True
