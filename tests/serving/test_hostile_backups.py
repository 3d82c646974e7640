"""What is no whole backup of Portico is refused in one line, and nothing is made of it."""

import gzip
import hashlib
import io
import json
import lzma
import shutil
import sqlite3
import subprocess
import tarfile
from argparse import Namespace
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from operating import Installation, copy_of
from portico.cli.outcome import outcome
from portico.features.operations.commands.backup import run_restore
from portico.settings import load
from servers import PostgresServer

MANIFEST = "manifest.json"
Files = dict[str, bytes]
"""The files of an archive by name, in order."""


class Restoring:
    """Restores a changed backup into a directory that is not there."""

    def __init__(self, whole: bytes, directory: Path, said: pytest.CaptureFixture[str]) -> None:
        self.whole = whole
        self.archive = directory / "bad.tar"
        self.target = directory / "elsewhere"
        self.target.mkdir()
        self._said = said
        with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
            self.files: Files = {
                one.name: (tar.extractfile(one) or io.BytesIO()).read() for one in tar
            }

    def restore(self, content: bytes, database_url: str = "") -> tuple[int, str]:
        """The exit code of `portico restore`, and what it said on standard error."""
        self.archive.write_bytes(content)
        environ = {"PORTICO_DATABASE_URL": database_url} if database_url else {}
        settings = load({"data": str(self.target / "data")}, environ, self.target)
        chosen = Namespace(file=str(self.archive), json=False)
        return outcome(lambda: run_restore(settings, chosen)), self._said.readouterr().err

    def refuses(self, content: bytes | Files, database_url: str = "") -> str:
        """The one line with which an archive is refused."""
        packed_ = content if isinstance(content, bytes) else packed(content.items())
        code, said = self.restore(packed_, database_url)
        line = said.removesuffix("\n")
        assert (code, line.startswith("portico: "), line.isprintable()) == (1, True, True), said
        assert list(self.target.iterdir()) == []
        return line

    def stating(self, **changes: object) -> Files:
        """The files with this in the manifest."""
        changed = json.dumps(json.loads(self.files[MANIFEST]) | changes).encode()
        return self.files | {MANIFEST: changed}

    def holding(self, name: str, content: bytes) -> Files:
        """The files with this one, and its digest in the manifest."""
        known = json.loads(self.files[MANIFEST])["files"]
        known[name] = hashlib.sha256(content).hexdigest()
        return self.stating(files=known) | {name: content}


def packed(members: Iterable[tuple[str, bytes]], **odd: bytes | str) -> bytes:
    """An archive with these members. The header of live.db has `odd` attributes."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if name == "live.db" and odd:
                member.size = 0
                for key, value in odd.items():
                    setattr(member, key, value)
            tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


@pytest.fixture(scope="module")
def whole(first_installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A backup of an installation on SQLite."""
    directory = tmp_path_factory.mktemp("backup")
    copy_of(first_installation, directory).told("backup", str(directory / "backup.tar"))
    return (directory / "backup.tar").read_bytes()


@pytest.fixture
def restoring(whole: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Restoring:
    return Restoring(whole, tmp_path, capsys)


def test_archive_as_it_was_made_is_accepted_with_any_certificates_in_it(
    restoring: Restoring,
) -> None:
    known = json.loads(restoring.files[MANIFEST])["files"]
    known |= {f"tls/{number}.pem": hashlib.sha256(b"x").hexdigest() for number in range(200)}
    files = restoring.stating(files=known) | {f"tls/{n}.pem": b"x" for n in range(200)}
    assert restoring.restore(packed(files.items())) == (0, "")


def header(kind: bytes, content: bytes) -> bytes:
    """A header of a header: `content` is a long name, or records of pax."""
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = kind, len(content)
    return member.tobuf() + content + bytes(-len(content) % 512)


@pytest.mark.parametrize(
    "damaged",
    [
        lambda whole: whole[: len(whole) // 2],
        lambda whole: gzip.compress(whole, 1)[:20_000],
        lzma.compress,
        lambda whole: whole.replace(b"CREATE TABLE users", b"CREATE TABLE user\0"),
        lambda _: header(tarfile.GNUTYPE_LONGNAME, b"")[:512] * 20_000,
        lambda _: b"nothing like it" * 1000,
        lambda _: b"",
    ],
    ids=["cut", "cut gzip", "xz", "bit turned", "headers of headers", "other file", "empty"],
)
def test_what_is_not_a_whole_backup_is_refused(
    restoring: Restoring, damaged: Callable[[bytes], bytes]
) -> None:
    restoring.refuses(damaged(restoring.whole))


LISTED = {"live.db": "", "sandbox.db": ""}


@pytest.mark.parametrize(
    "changes",
    [
        {"files": {}},
        {"files": {"live.db": "0" * 64, "sandbox.db": 1}},
        {"files": ["live.db", "sandbox.db"]},
        {"files": {f"{number}.db": "" for number in range(1000)}},
        *({"files": LISTED | {name: ""}} for name in ("/a.pem", "tls/../a.pem", "tls/a/b.pem")),
        {"files": LISTED | {"database.dump": ""}},
        {"engine": "oracle"},
        {"engine": "postgres"},
        {"created_at": "\x1b[2Jyesterday"},
        {"portico": "9" * 2_000_000},
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_odd_manifest_is_refused(restoring: Restoring, changes: dict[str, object]) -> None:
    restoring.refuses(restoring.stating(**changes))


@pytest.mark.parametrize("name", ["../evil.pem", "live.db-evil", "tls/evil.pem.sh"])
def test_file_that_no_backup_has_is_refused_though_it_is_listed(
    restoring: Restoring, name: str
) -> None:
    assert name in restoring.refuses(restoring.holding(name, b"x"))


def test_members_that_do_not_fit_the_manifest_are_refused(restoring: Restoring) -> None:
    files = restoring.files
    manifest, *others = files.items()
    for members in (
        (files | {"live.db": files["sandbox.db"], "sandbox.db": files["live.db"]}).items(),
        [*files.items(), ("live.db", files["live.db"])],
        [*files.items(), ("../evil.pem", b"")],
        others,
        [*others, manifest],
        [one for one in files.items() if one[0] != "live.db"],
    ):
        restoring.refuses(packed(members))


def test_link_in_place_of_a_file_is_refused(restoring: Restoring) -> None:
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
        restoring.refuses(packed(restoring.files.items(), type=kind, linkname="/etc/passwd"))


def test_what_the_disk_has_no_room_for_is_not_begun(
    restoring: Restoring, monkeypatch: pytest.MonkeyPatch
) -> None:
    smallest = min(map(len, restoring.files.values()))
    room = shutil.disk_usage(restoring.target)._replace(free=smallest)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    assert "cannot be written: the disk is full" in restoring.refuses(restoring.whole)


def changed_by(database: Path, script: str) -> bytes:
    """A SQLite database after a script."""
    with sqlite3.connect(database) as connection:
        connection.executescript(script)
    connection.close()
    return database.read_bytes()


LEDGER = "CREATE TABLE schema_migrations (number, name, checksum, applied_at);"


def test_database_that_is_not_of_portico_is_refused(restoring: Restoring, tmp_path: Path) -> None:
    name, foreign = "sandbox.db", tmp_path / "foreign.db"
    for content in (
        b"x",
        b"SQLite format 3\x00" * 1000,
        restoring.files[name][:-4096],
        changed_by(foreign, "CREATE TABLE users (id);"),
        changed_by(foreign, LEDGER),
        changed_by(foreign, "INSERT INTO schema_migrations VALUES (9999, 'x', 'y', 0)"),
        changed_by(foreign, "UPDATE schema_migrations SET number = 1"),
    ):
        assert name in restoring.refuses(restoring.holding(name, content))


@pytest.mark.parametrize("name", ["secret.key", "tls/ca.pem", "tls/ca.key"])
def test_key_that_no_server_takes_is_refused(restoring: Restoring, name: str) -> None:
    restoring.refuses(restoring.holding(name, b"x"))


FOREIGN = """
CREATE SCHEMA portico_live; CREATE SCHEMA portico_sandbox;
CREATE TABLE portico_live.users (id BIGINT);"""
LEDGER_OF_TOMORROW = """
CREATE TABLE portico_live.schema_migrations
    (number BIGINT, name TEXT, checksum TEXT, applied_at BIGINT);
INSERT INTO portico_live.schema_migrations VALUES (9999, 'x', 'y', 0);"""


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("", "database.dump is damaged: pg_restore failed: "),
        (
            FOREIGN + LEDGER_OF_TOMORROW,
            "portico_live cannot be used: The database has migration 9999",
        ),
    ],
)
def test_dump_that_is_not_of_portico_is_refused_and_the_database_is_left(
    restoring: Restoring, tmp_path: Path, postgres: PostgresServer, script: str, said: str
) -> None:
    dumped = tmp_path / "database.dump"
    dumped.write_bytes(b"x")
    if script:
        source = postgres.fresh_database()
        subprocess.run(["psql", "-q", source, "-c", script], check=True)
        subprocess.run(["pg_dump", "-Fc", "-f", str(dumped), source], check=True)
    listed = {"database.dump": hashlib.sha256(content := dumped.read_bytes()).hexdigest()}
    manifest = restoring.stating(engine="postgres", files=listed)[MANIFEST]
    target = postgres.fresh_database()
    assert said in restoring.refuses({MANIFEST: manifest, "database.dump": content}, target)
    schemas = ["-c", "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'portico%'"]
    left = subprocess.run(["psql", "-qtA", target, *schemas], capture_output=True, check=True)
    assert left.stdout == b"0\n"
