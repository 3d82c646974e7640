"""A backup of a running server restores to one that serves with the old keys."""

import os
import re
import shlex
import shutil
import stat
import subprocess
import threading
from argparse import Namespace
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from operating import (
    COMMAND,
    Answer,
    Installation,
    Service,
    copy_of,
    damage,
    free_port,
    in_database,
    until,
)
from portico.cli.initialise import UNFINISHED
from portico.features.operations.commands.backup import run_restore
from portico.settings import load
from servers import PostgresServer

UNHINDERED = "[plans.enterprise]\nper_minute = 1000000\nper_day = 1000000\n"


@pytest.fixture(params=["sqlite", "postgres"])
def either(
    request: pytest.FixtureRequest,
    first_installation: Installation,
    postgres: PostgresServer,
    tmp_path: Path,
) -> Installation:
    """A prepared installation on each engine."""
    if request.param == "sqlite":
        return copy_of(first_installation, tmp_path)
    empty = Installation(tmp_path).having(database_url=postgres.fresh_database())
    return Installation(tmp_path, empty.variables, empty.told("init"), empty.port)


def elsewhere(installation: Installation, postgres: PostgresServer) -> Installation:
    """Where the installation's backup can be restored to: nothing is there yet."""
    directory = installation.directory / "elsewhere"
    directory.mkdir()
    variables = dict(installation.variables)
    if "database_url" in variables:
        variables["database_url"] = postgres.fresh_database()
    return Installation(directory, variables, installation.facts, free_port())


class Writer:
    """Creates products, one after another, for as long as it is open."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.made: list[int] = []

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _write(self) -> None:
        with self._service.connect() as connection:
            while not self._over.is_set():
                body = {"name": f"P{len(self.made)}", "category": "c", "price": 1}
                answer = self._service.ask(
                    "/v1/products",
                    method="POST",
                    key=self._service.installation.key,
                    body=body,
                    connection=connection,
                )
                assert answer.status == 201
                self.made.append(answer.json["data"]["id"])


def products(service: Service) -> list[int]:
    """The ids of all products, oldest first."""
    ids: list[int] = []
    page = 1
    while True:
        listed = service.ask(
            f"/v1/products?status=draft&limit=100&page={page}", key=service.installation.key
        ).json
        ids += [product["id"] for product in listed["data"]]
        if page >= listed["pagination"]["total_pages"]:
            return ids[::-1]
        page += 1


def test_a_backup_taken_among_writes_holds_all_that_came_before_it(
    either: Installation, postgres: PostgresServer
) -> None:
    archive = either.directory / "backup.tar.gz"
    restored = elsewhere(either, postgres)
    for installation in (either, restored):
        (installation.directory / "portico.toml").write_text(UNHINDERED)
    with either.serving() as service:
        with Writer(service) as writer:
            until(lambda: len(writer.made) >= 5, "the first products")
            before = list(writer.made)
            told = either.told("backup", str(archive))
            assert len(writer.made) > len(before), "writes go on meanwhile"
        assert told["file"] == str(archive)
        assert told["bytes"] == archive.stat().st_size
        assert stat.S_IMODE(archive.stat().st_mode) == 0o600
        made = list(writer.made)
    assert restored.told("restore", str(archive))["engine"] == told["engine"]
    with restored.serving() as service:
        found = products(service)
        assert found[: len(before)] == before
        assert found == made[: len(found)], "a state that there was, without a gap"
        test_key = restored.facts["keys"]["test"]
        assert service.ask("/sandbox/v1/users/me", key=test_key).status == 200
        # What is counted on goes on from there.
        body = {"name": "Next", "category": "c", "price": 1}
        answer = service.ask("/v1/products", method="POST", key=restored.key, body=body)
        assert answer.status == 201
        assert answer.json["data"]["id"] > max(found)
    authority = (either.data / "tls" / "ca.pem").read_bytes()
    assert (restored.data / "tls" / "ca.pem").read_bytes() == authority
    assert restored.run("doctor").returncode == 0


def make(service: Service, name: str) -> int:
    """The id of a new product."""
    body = {"name": name, "category": "c", "price": 1}
    answer = service.ask("/v1/products", method="POST", key=service.installation.key, body=body)
    assert answer.status == 201
    return int(answer.json["data"]["id"])


def events(service: Service, after: int) -> Answer:
    """The events after the one with this id."""
    return service.ask(f"/v1/events?after={after}", key=service.installation.key)


def test_what_was_given_after_the_backup_is_given_to_nothing_else(
    either: Installation, postgres: PostgresServer
) -> None:
    archive = either.directory / "backup.tar"
    restored = elsewhere(either, postgres)
    with either.serving() as service:
        make(service, "kept")
        kept = events(service, 0).json["data"]
        either.told("backup", str(archive))
        lost = [make(service, f"lost {number}") for number in range(3)]
        positions = [event["id"] for event in events(service, kept[-1]["id"]).json["data"]]
        either.told("webhooks", "create", "--url", "https://example.com/a", "--types", "*")
    restored.told("restore", str(archive))
    with restored.serving() as service:
        made = [make(service, f"new {number}") for number in range(3)]
        found = events(service, 0).json["data"]
        assert found[: len(kept)] == kept
        news = found[len(kept) :]
        assert [event["data"]["id"] for event in news] == made
        assert min(made) > max(lost)
        assert min(event["id"] for event in news) > max(positions)
        for position in (kept[-1]["id"], *positions):
            assert events(service, position).json["data"] == news
    webhook = restored.told("webhooks", "create", "--url", "https://example.com/b", "--types", "*")
    assert webhook["id"] > 1, "not that of the lost one"


def test_files_of_the_operators_own_beside_the_local_authority_are_left_out(
    installation: Installation,
) -> None:
    tls = installation.data / "tls"
    for name in ("example.com.pem", "fullchain1.pem", "privkey1.key", "server.pem.new"):
        shutil.copy(tls / "server.key", tls / name)
    archive = installation.directory / "backup.tar"
    installation.told("backup", str(archive))
    restored = installation.directory / "restored"
    installation.having(data=str(restored)).told("restore", str(archive))
    assert {path.name for path in (restored / "tls").iterdir()} == {
        *("ca.pem", "ca.key", "server.pem", "server.key")
    }


@pytest.mark.parametrize("lost", ["ca.pem", "ca.key"])
def test_an_installation_that_has_lost_half_of_its_authority_is_restored_as_it_was(
    installation: Installation, lost: str
) -> None:
    tls = installation.data / "tls"
    (tls / lost).unlink()
    archive = installation.directory / "backup.tar"
    installation.told("backup", str(archive))
    restored = installation.directory / "restored"
    installation.having(data=str(restored)).told("restore", str(archive))
    files = {path.name: path.read_bytes() for path in (restored / "tls").iterdir()}
    assert files == {path.name: path.read_bytes() for path in tls.iterdir()}


@pytest.fixture
def archive(installation: Installation) -> Path:
    """A backup of an installation on SQLite."""
    path = installation.directory / "backup.tar"
    installation.told("backup", str(path))
    return path


def test_a_database_that_holds_a_portico_is_not_restored_over(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.fresh_database()
    first = Installation(tmp_path).having(database_url=url)
    facts = first.told("init")
    archive = tmp_path / "backup.tar"
    first.told("backup", str(archive))
    first.told("users", "set-plan", "admin@example.com", "free")
    (tmp_path / "new").mkdir()
    target = Installation(tmp_path / "new").having(database_url=url)
    code, line = target.refused("restore", str(archive))
    assert (code, "already holds a Portico" in line) == (1, True)
    assert not target.data.exists()
    with first.serving() as service:
        answer = service.ask("/v1/users/me", key=facts["keys"]["live"])
        assert (answer.status, answer.headers["x-ratelimit-limit"]) == (200, "30")


def test_a_directory_in_use_is_not_restored_over(installation: Installation, archive: Path) -> None:
    before = (installation.data / "live.db").read_bytes()
    code, line = installation.refused("restore", str(archive))
    assert (code, "is not empty" in line) == (1, True)
    assert (installation.data / "live.db").read_bytes() == before


def test_a_restore_says_how_to_start_the_directory_that_it_has_made(
    installation: Installation, archive: Path, tmp_path: Path
) -> None:
    target = tmp_path / "our restored data"
    said = installation.run("restore", str(archive), "--data", str(target)).stdout
    command = said.partition("Start it with: ")[2]
    assert shlex.split(command) == ["portico", "serve", "--data", str(target)]


def test_a_restore_is_stored_before_anybody_is_told(
    archive: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "new" / "data"
    stored: dict[Path, set[str]] = {}
    store = os.fsync

    def seen(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.is_dir():
            stored[path] = {one.name for one in path.iterdir()}
        store(descriptor)
        assert capsys.readouterr().out == ""

    monkeypatch.setattr(os, "fsync", seen)
    run_restore(load({"data": str(target)}, {}, tmp_path), Namespace(file=str(archive), json=True))

    assert stored[target] == {"init.lock", "live.db", "sandbox.db", "secret.key", "tls"}
    assert stored[target / UNFINISHED / "tls"] == {"ca.pem", "ca.key", "server.pem", "server.key"}
    assert "new" in stored[tmp_path]
    assert stored[target.parent] == {"data"}


def test_a_restore_that_fails_leaves_no_directory(
    installation: Installation, archive: Path, tmp_path: Path
) -> None:
    cut_short = tmp_path / "cut-short.tar"
    cut_short.write_bytes(archive.read_bytes()[:20_000])
    target = tmp_path / "made" / "for" / "it"
    for wrong in (cut_short, tmp_path / "nowhere.tar", tmp_path):
        assert installation.refused("restore", str(wrong), "--data", str(target))[0] == 1
        assert not (tmp_path / "made").exists()
    (tmp_path / "made").mkdir()
    installation.refused("restore", str(cut_short), "--data", str(target))
    assert list((tmp_path / "made").iterdir()) == [], "what was there stays"


@pytest.mark.parametrize(
    ("size", "told"),
    [
        ("256k", "live.db cannot be copied: the disk is full."),
        ("4k", "full/backup.tar cannot be written: the disk is full."),
    ],
)
def test_a_backup_on_a_full_disk_says_so(
    installation: Installation, tmp_path: Path, size: str, told: str
) -> None:
    target = tmp_path / "full"
    target.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(target)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        code, line = installation.refused("backup", str(target / "backup.tar"))
        left = list(target.iterdir())
    finally:
        subprocess.run(["umount", "--lazy", target], check=True)
    assert (code, left) == (1, [])
    assert line.endswith(told)


def test_a_file_that_may_not_grow_further_is_named(installation: Installation) -> None:
    (installation.directory / "a.ndjson").write_text(
        "".join(
            f'{{"name": "{number:0200}", "category": "c", "price": 1}}\n' for number in range(600)
        )
    )
    assert installation.run("products", "import", "a.ndjson").returncode == 0

    for words, told in (
        (["backup", "a.tar"], "live.db cannot be copied: disk I/O error (File too large)."),
        (["products", "export", "a.csv"], "a.csv cannot be written: File too large."),
    ):
        done = subprocess.run(
            # as on a file system for small files, or with a limit of a shell
            ["sh", "-c", 'ulimit -f 200; exec "$@"', "sh", *COMMAND, *words],
            cwd=installation.directory,
            env=installation.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr.endswith(f"{told}\n")) == (1, True), done.stderr
        assert not (installation.directory / words[-1]).exists()


def test_a_backup_is_not_written_over_another_file(
    installation: Installation, archive: Path
) -> None:
    before = archive.read_bytes()
    code, line = installation.refused("backup", str(archive))
    assert (code, "already exists" in line) == (1, True)
    assert archive.read_bytes() == before


def test_a_backup_is_a_file(installation: Installation) -> None:
    code, line = installation.refused("backup", "-")
    assert (code, line) == (2, "a backup is not written to standard output: name a file")
    assert not (installation.directory / "-").exists()


def test_a_backup_that_fails_leaves_nothing(installation: Installation) -> None:
    target = installation.directory / "target"
    target.mkdir()
    damage(installation.data / "sandbox.db", "products")
    code, line = installation.refused("backup", str(target / "backup.tar"))
    assert (code, "sandbox.db cannot be copied" in line) == (1, True)
    assert list(target.iterdir()) == []
    assert installation.refused("backup", str(target / "none" / "backup.tar"))[0] == 1


def test_a_backup_of_postgresql_is_not_restored_to_sqlite(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.fresh_database()
    shared = Installation(tmp_path).having(database_url=url)
    shared.told("init")
    archive = tmp_path / "backup.tar"
    shared.told("backup", str(archive))
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    target = Installation(directory)
    code, line = target.refused("restore", str(archive))
    assert (code, "PORTICO_DATABASE_URL" in line) == (1, True)
    assert not target.data.exists()


def with_pg_dump(installation: Installation, script: str | None) -> Installation:
    """The installation with no other program to be found than this `pg_dump`."""
    programs = installation.directory / "programs"
    programs.mkdir()
    if script is not None:
        program = programs / "pg_dump"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
    return replace(installation, path=programs)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "pg_dump is not installed"),
        ("echo 'pg_dump (PostgreSQL) 9.6.24'", "pg_dump is version 9 and the server is"),
    ],
)
def test_a_pg_dump_that_does_not_fit_is_told(
    postgres: PostgresServer, tmp_path: Path, script: str | None, said: str
) -> None:
    installation = Installation(tmp_path).having(database_url=postgres.fresh_database())
    installation.told("init")
    code, line = with_pg_dump(installation, script).refused("backup", str(tmp_path / "b.tar"))
    assert (code, said in line) == (1, True)
    assert "postgresql-client-" in line
    assert not (tmp_path / "b.tar").exists()


@pytest.mark.parametrize("encoding", ["LATIN1", "SJIS", "SQL_ASCII", "none"])
def test_the_encoding_of_the_users_session_changes_no_backup(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    installation = Installation(tmp_path).having(database_url=postgres.fresh_database())
    installation.told("init")
    (tmp_path / "lamp.csv").write_text("name,category,price\nŁampka ハハ,light,1\n", "utf-8")
    installation.told("products", "import", str(tmp_path / "lamp.csv"))
    restored, archive = elsewhere(installation, postgres), str(tmp_path / "backup.tar")
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    installation.told("backup", archive)
    restored.told("restore", archive)
    restored.told("products", "export", exported := str(tmp_path / "exported.csv"))
    assert "Łampka ハハ" in Path(exported).read_text("utf-8")


def test_all_that_pg_dump_said_is_told_in_one_line(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    installation = Installation(tmp_path).having(database_url=postgres.fresh_database())
    installation.told("init")
    version = subprocess.run(["pg_dump", "--version"], capture_output=True, text=True, check=True)
    script = (
        f'[ "$1" = --version ] && echo "{version.stdout.strip()}" && exit\n'
        "echo 'pg_dump: error: Dumping the contents of table \"users\" failed.' >&2\n"
        "echo 'pg_dump: detail: Error message from server: no equivalent' >&2; exit 1"
    )
    code, line = with_pg_dump(installation, script).refused("backup", str(tmp_path / "b.tar"))
    assert code == 1
    assert line == (
        'pg_dump failed: Dumping the contents of table "users" failed.'
        " pg_dump: detail: Error message from server: no equivalent"
    )


def test_the_password_is_no_argument_of_pg_dump(postgres: PostgresServer, tmp_path: Path) -> None:
    url = postgres.fresh_database()
    password = url.split(":")[2].split("@")[0]
    installation = Installation(tmp_path).having(database_url=url)
    installation.told("init")
    version = subprocess.run(["pg_dump", "--version"], capture_output=True, text=True, check=True)
    script = (
        f'[ "$1" = --version ] && echo "{version.stdout.strip()}" && exit\n'
        f'echo "$@ $PGPASSWORD" > {tmp_path}/seen; exit 1'
    )
    code, _ = with_pg_dump(installation, script).refused("backup", str(tmp_path / "b.tar"))
    assert code == 1
    arguments, _, in_environment = (tmp_path / "seen").read_text().rstrip().rpartition(" ")
    assert in_environment == password
    assert password not in arguments


def test_no_password_of_a_private_key_is_an_argument_of_pg_dump(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = f"{postgres.fresh_database()}?sslpassword=to%2Bthe%20key"
    installation = Installation(tmp_path).having(database_url=url)
    installation.told("init")
    version = subprocess.run(["pg_dump", "--version"], capture_output=True, text=True, check=True)
    stat_program, cat = shutil.which("stat"), shutil.which("cat")
    script = (
        f'[ "$1" = --version ] && echo "{version.stdout.strip()}" && exit\n'
        f'echo "$@" "$PGSERVICEFILE" > {tmp_path}/seen\n'
        f'{stat_program} -c %a "$PGSERVICEFILE" > {tmp_path}/service\n'
        f'{cat} "$PGSERVICEFILE" >> {tmp_path}/service; echo "$PGSERVICE" >> {tmp_path}/service\n'
        "exit 1"
    )
    beside = with_pg_dump(installation, script)
    assert beside.refused("backup", str(tmp_path / "b.tar"))[0] == 1
    arguments, _, service_file = (tmp_path / "seen").read_text().rstrip().rpartition(" ")
    assert "sslpassword" not in arguments
    assert "key" not in arguments
    service = (tmp_path / "service").read_text()
    assert service == "600\n[portico]\nsslpassword=to+the key\nportico\n"
    assert not Path(service_file).exists()
    (tmp_path / "seen").unlink()

    of_a_service = beside.having(database_url=f"{url}&service=theirs")
    code, line = of_a_service.refused("backup", str(tmp_path / "b.tar"))

    assert (code, "sslpassword" in line, "service" in line) == (2, True, True)
    assert "the key" not in line
    assert not (tmp_path / "seen").exists()


def test_an_address_may_say_everything_behind_its_question_mark(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    def behind_it(url: str) -> str:
        parts = urlsplit(url)
        return (
            f"postgresql://{parts.path}?host={parts.hostname}&port={parts.port}"
            f"&user={parts.username}&password={parts.password}"
            "&options=-c%20statement_timeout%3D0&application_name=portico+at+night"
        )

    url = behind_it(postgres.fresh_database())
    Installation(tmp_path).having(database_url=url).told("init")
    archive = tmp_path / "backup.tar"
    assert Installation(tmp_path).having(database_url=url).told("backup", str(archive))["bytes"]
    (tmp_path / "elsewhere").mkdir()
    restored = Installation(tmp_path / "elsewhere").having(
        database_url=behind_it(postgres.fresh_database())
    )
    assert restored.told("restore", str(archive))["engine"] == "postgres"


def test_a_backup_before_a_migration_is_possible(installation: Installation) -> None:
    in_database(installation.data / "live.db", "DELETE FROM schema_migrations")
    done = installation.run("backup", str(installation.directory / "b.tar"))
    assert (done.returncode, done.stdout.startswith("Backed up to ")) == (0, True)
    assert done.stderr.startswith("The backup is complete, but the audit log does not list it: ")


def test_a_backup_of_a_newer_database_is_complete_but_not_recorded(
    installation: Installation,
) -> None:
    in_database(
        installation.data / "live.db",
        "INSERT INTO schema_migrations VALUES (9999, 'of_tomorrow', 'x', 1, NULL)",
    )
    archive = installation.directory / "b.tar"
    done = installation.run("backup", str(archive))
    assert (done.returncode, done.stdout.startswith("Backed up to ")) == (0, True)
    assert done.stderr.startswith(
        "The backup is complete, but the audit log does not list it: The database has migration"
        " 9999 (of_tomorrow), which this version lacks"
    )
    assert archive.exists()


def test_a_backup_is_recorded(either: Installation) -> None:
    made = either.told("backup", str(either.directory / "backup.tar"))
    (entry,) = either.told("audit", "--action", "backup.created")
    assert (entry["credential"], entry["details"]) == ("command", {"bytes": made["bytes"]})
    assert either.told("audit", "--action", "backup.created", "--sandbox") == []
    metric = r"^portico_backup_last_success_timestamp_seconds ([1-9]\S+)$"
    with either.serving() as service:
        found = until(
            lambda: re.search(metric, service.ask("/metrics").text, re.MULTILINE), "the metric"
        )
    assert datetime.fromtimestamp(float(found[1]), UTC) == datetime.fromisoformat(entry["at"])


def test_an_old_backup_is_noticed(installation: Installation) -> None:
    def found() -> list[tuple[str, bool]]:
        findings = installation.told("doctor")["findings"]
        return [
            (one["message"], bool(one["advice"])) for one in findings if one["check"] == "backup"
        ]

    assert found() == [], "backups may be made by other means"
    record = "INSERT INTO audit (at, action, credential, target, details) VALUES"
    live = installation.data / "live.db"
    in_database(live, f"{record} (0, 'backup.created', 'command', '', '{{}}')")
    assert found() == [("the last one was made at 1970-01-01T00:00:00.000Z", True)]
    installation.told("backup", str(installation.directory / "backup.tar"))
    assert [old for _, old in found()] == [False]


def test_nothing_to_back_up_is_said(tmp_path: Path, postgres: PostgresServer) -> None:
    code, line = Installation(tmp_path).refused("backup", str(tmp_path / "b.tar"))
    assert (code, "There is no Portico" in line) == (1, True)
    empty = Installation(tmp_path).having(database_url=postgres.fresh_database())
    code, line = empty.refused("backup", str(tmp_path / "b.tar"))
    assert (code, "nothing to back up" in line) == (1, True)
    assert list(tmp_path.iterdir()) == []


def test_a_backup_holds_the_secret_that_a_setting_gives_or_is_not_made(tmp_path: Path) -> None:
    empty = Installation(tmp_path).having(secret_key="ab" * 32)
    empty.told("init")
    assert not (empty.data / "secret.key").exists()
    archive = tmp_path / "backup.tar"
    code, line = Installation(tmp_path).refused("backup", str(archive))
    assert (code, "secret is missing" in line, archive.exists()) == (1, True, False)
    code, line = empty.having(secret_key="cd" * 32).refused("backup", str(archive))
    assert (code, "another secret" in line, archive.exists()) == (1, True, False)
    changed = "UPDATE signing_keys SET private_key = randomblob(100) RETURNING 1"
    shutil.copy(empty.data / "sandbox.db", tmp_path / "kept.db")
    assert in_database(empty.data / "sandbox.db", changed)  # as if sealed by another secret
    code, line = empty.refused("backup", str(archive))
    assert (code, "another secret" in line, archive.exists()) == (1, True, False)
    (tmp_path / "kept.db").replace(empty.data / "sandbox.db")
    empty.told("backup", str(archive))
    elsewhere = Installation(tmp_path / "elsewhere")
    elsewhere.directory.mkdir()
    code, line = elsewhere.having(secret_key="cd" * 32).refused("restore", str(archive))
    assert (code, "another secret" in line, "cdcd" in line) == (1, True, False)
    assert "secret_key_file (PORTICO_SECRET_KEY_FILE) or PORTICO_SECRET_KEY" in line
    third = Installation(tmp_path / "third")
    third.directory.mkdir()
    third = third.having(secret_key=f"{'cd' * 32},{'ab' * 32}")
    third.told("restore", str(archive))
    assert third.told("doctor")["ok"] is True
    elsewhere.told("restore", str(archive))
    restored = elsewhere.data / "secret.key"
    assert restored.read_text() == "ab" * 32 + "\n"
    assert stat.S_IMODE(restored.stat().st_mode) == 0o600
    assert elsewhere.told("doctor")["ok"] is True


def test_a_backup_beside_which_the_secret_is_replaced_holds_both(tmp_path: Path) -> None:
    former, present = "ab" * 32, "cd" * 32
    installation = Installation(tmp_path)
    installation.having(secret_key=former).told("init")
    pipe, archive, written = installation.data / "secret.key", tmp_path / "b.tar", tmp_path / "both"
    os.mkfifo(pipe)

    def replace_it() -> None:
        with pipe.open("w") as asked:  # the backup reads on until this is closed
            asked.write(former)
            written.write_text(f"{present}\n{former}\n")
            written.rename(pipe)
            hook = ("--url", "https://example.com/", "--types", "*")
            installation.told("webhooks", "create", *hook)

    replacing = threading.Thread(target=replace_it, daemon=True)
    replacing.start()
    installation.told("backup", str(archive))
    replacing.join()
    elsewhere = Installation(tmp_path / "elsewhere")
    elsewhere.directory.mkdir()
    elsewhere.told("restore", str(archive))
    assert (elsewhere.data / "secret.key").read_text().split() == [present, former]
    assert elsewhere.told("secret", "reencrypt")["live"]["unreadable"] == 0
    assert elsewhere.told("doctor")["ok"] is True
