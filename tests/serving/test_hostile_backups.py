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
import tracemalloc
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path

import pytest

from operating import Installation, copy_of
from portico.cli.outcome import outcome
from portico.features.operations.commands.backup import run_restore
from portico.settings import load
from servers import PostgresServer

MANIFEST = "manifest.json"


class Restoring:
    """Restores into a directory that is not there, and is not made."""

    def __init__(self, directory: Path, said: pytest.CaptureFixture[str]) -> None:
        self._directory = directory
        self._said = said

    def restore(self, archive: Path, database_url: str | None = None) -> tuple[int, str]:
        """The exit code of `portico restore`, and what it said on standard error."""
        environ = {"PORTICO_DATABASE_URL": database_url} if database_url else {}
        settings = load({"data": str(self._directory / "data")}, environ, self._directory)
        code = outcome(lambda: run_restore(settings, Namespace(file=str(archive), json=False)))
        return code, self._said.readouterr().err

    def refuses(self, archive: Path, database_url: str | None = None) -> str:
        """The one line with which the archive is refused."""
        code, said = self.restore(archive, database_url)
        line = said.rstrip("\n")
        assert code == 1
        assert line.startswith("portico: ")
        assert line.isprintable()
        assert "backup" in line or "damaged" in line
        assert list(self._directory.iterdir()) == []
        return line


@pytest.fixture
def restoring(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Restoring:
    """Where a test restores to."""
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    return Restoring(directory, capsys)


@pytest.fixture(scope="module")
def whole(first_installation: Installation, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A backup of an installation on SQLite."""
    directory = tmp_path_factory.mktemp("backup")
    copy_of(first_installation, directory).told("backup", str(directory / "backup.tar"))
    return (directory / "backup.tar").read_bytes()


@pytest.fixture
def archive(whole: bytes, tmp_path: Path) -> Path:
    """A file with that backup."""
    path = tmp_path / "backup.tar"
    path.write_bytes(whole)
    return path


def test_the_archive_as_it_was_made_is_taken(restoring: Restoring, archive: Path) -> None:
    assert restoring.restore(packed(archive, contents(archive).items()))[0] == 0


def test_an_archive_with_others_certificates_as_they_were_taken_along_before_is_taken(
    restoring: Restoring, archive: Path
) -> None:
    files = contents(archive)
    names = ["example.com.pem", "fullchain1.pem", "Ä b.key", *(f"{n}.pem" for n in range(200))]
    known = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    del known[MANIFEST]
    known |= {f"tls/{name}": hashlib.sha256(b"x").hexdigest() for name in names}
    members = listing(archive, files=known) | {f"tls/{name}": b"x" for name in names}
    assert restoring.restore(packed(archive, members.items())) == (0, "")


def contents(archive: Path) -> dict[str, bytes]:
    """The files of an archive by name, in order."""
    with tarfile.open(archive) as tar:
        return {member.name: (tar.extractfile(member) or io.BytesIO()).read() for member in tar}


def packed(archive: Path, members: Iterable[tuple[str, bytes]], form: str = "w") -> Path:
    """An archive with these members, beside `archive`."""
    bad = archive.with_name("bad.tar")
    with tarfile.open(bad, form) as tar:  # type: ignore[call-overload]  # "w" or "w:xz"
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return bad


def listing(archive: Path, **changes: object) -> dict[str, bytes]:
    """The archive's files with this in its manifest."""
    files = contents(archive)
    return files | {MANIFEST: json.dumps(json.loads(files[MANIFEST]) | changes).encode()}


def holding(archive: Path, name: str, content: bytes) -> dict[str, bytes]:
    """The archive's files with this one in it, and its digest in the manifest."""
    files = contents(archive) | {name: content}
    known = json.loads(files[MANIFEST])["files"]
    known[name] = hashlib.sha256(content).hexdigest()
    files[MANIFEST] = json.dumps(json.loads(files[MANIFEST]) | {"files": known}).encode()
    return files


def foreign_database(path: Path, script: str) -> bytes:
    """A SQLite database that something else made."""
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
    return path.read_bytes()


def damaged(archive: Path, how: str) -> Path:
    """The archive, damaged in one way as a whole."""
    bad = archive.with_name("bad.tar")
    content = archive.read_bytes()
    if how == "cut short":
        bad.write_bytes(content[: len(content) // 2])
    elif how == "a compressed one cut short":
        compressed = gzip.compress(content)
        bad.write_bytes(compressed[: len(compressed) // 2])
    elif how == "compressed otherwise":
        bad.write_bytes(lzma.compress(content))
    elif how == "a bit turned":
        at = content.index(b"CREATE TABLE users")
        bad.write_bytes(content[:at] + b"\x00" + content[at + 1 :])
    elif how == "headers of headers":
        long_name = tarfile.TarInfo("././@LongLink")
        long_name.type = tarfile.GNUTYPE_LONGNAME
        bad.write_bytes(long_name.tobuf() * 20_000)
    else:
        bad.write_bytes({"another file": b"nothing like it" * 1000, "nothing": b""}[how])
    return bad


@pytest.mark.parametrize(
    "how",
    [
        "cut short",
        "a compressed one cut short",
        "compressed otherwise",
        "a bit turned",
        "headers of headers",
        "another file",
        "nothing",
    ],
)
def test_what_is_not_a_whole_backup_is_refused_and_nothing_is_made(
    restoring: Restoring, archive: Path, how: str
) -> None:
    restoring.refuses(damaged(archive, how))


@pytest.mark.parametrize(
    "changes",
    [
        {"files": {}},
        {"files": {"sandbox.db": "0" * 64}},
        {"files": {"live.db": "0" * 64, "sandbox.db": 1}},
        {"files": ["live.db", "sandbox.db"]},
        {"files": {f"{number}.db": "" for number in range(1000)}},
        {"files": {"live.db": "", "sandbox.db": "", "../evil.pem": ""}},
        {"files": {"live.db": "", "sandbox.db": "", "/evil.pem": ""}},
        {"files": {"live.db": "", "sandbox.db": "", "tls/../evil.pem": ""}},
        {"files": {"live.db": "", "sandbox.db": "", "tls/deeper/evil.pem": ""}},
        {"files": {"live.db": "", "sandbox.db": "", "tls/evil\0.pem": ""}},
        {"files": {"live.db": "", "sandbox.db": "", "tls/evil.sh": ""}},
        {"files": {"live.db": "", "sandbox.db": "", "database.dump": ""}},
        {"engine": "oracle"},
        {"engine": "postgres"},
        {"engine": None},
        {"created_at": "\x1b[2Jyesterday"},
        {"created_at": 7},
        {"portico": "9" * 2_000_000},
    ],
    ids=lambda changes: str(changes)[:60],
)
def test_an_odd_manifest_is_refused_and_nothing_is_made(
    restoring: Restoring, archive: Path, changes: dict[str, object]
) -> None:
    restoring.refuses(packed(archive, listing(archive, **changes).items()))


@pytest.mark.parametrize("name", ["../evil.pem", "live.db-evil", "tls/evil.pem.sh"])
def test_a_file_that_no_backup_has_is_refused_though_it_is_listed(
    restoring: Restoring, archive: Path, name: str
) -> None:
    assert name in restoring.refuses(packed(archive, holding(archive, name, b"x").items()))


@pytest.mark.parametrize("manifest", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 100_000])
def test_a_manifest_that_is_none_is_refused_and_nothing_is_made(
    restoring: Restoring, archive: Path, manifest: bytes
) -> None:
    files = contents(archive) | {MANIFEST: manifest}
    restoring.refuses(packed(archive, files.items()))


def test_members_that_do_not_fit_the_manifest_are_refused_and_nothing_is_made(
    restoring: Restoring, archive: Path
) -> None:
    files = contents(archive)
    swapped = files | {"live.db": files["sandbox.db"], "sandbox.db": files["live.db"]}
    for members in (
        list(swapped.items()),
        [*files.items(), ("live.db", files["live.db"])],
        [*files.items(), (MANIFEST, files[MANIFEST])],
        [*files.items(), ("../evil.pem", b"")],
        [(name, content) for name, content in files.items() if name != "live.db"],
        [(name, content) for name, content in files.items() if name != MANIFEST],
        [*list(files.items())[1:], (MANIFEST, files[MANIFEST])],
    ):
        restoring.refuses(packed(archive, members))


def test_a_link_in_place_of_a_file_is_refused_and_nothing_is_made(
    restoring: Restoring, archive: Path
) -> None:
    bad = archive.with_name("bad.tar")
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE):
        with tarfile.open(bad, "w") as tar:
            for name, content in contents(archive).items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                if name == "live.db":
                    member.type, member.linkname, member.size = kind, "/etc/passwd", 0
                tar.addfile(member, io.BytesIO(content))
        restoring.refuses(bad)


def test_a_file_with_holes_is_refused_and_nothing_is_made(
    restoring: Restoring, archive: Path
) -> None:
    with tarfile.open(bad := archive.with_name("bad.tar"), "w") as tar:
        for name, content in contents(archive).items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    whole = bad.read_bytes()
    at = next(
        place for place in range(0, len(whole), 512) if whole[place:].startswith(b"live.db\0")
    )
    bad.write_bytes(whole[:at] + with_holes(whole[at : at + 512]) + whole[at + 512 :])
    with tarfile.open(bad) as tar:  # it holds what it did, by another spelling
        assert tar.getmember("live.db").issparse()
        assert contents(bad) == contents(archive)
    restoring.refuses(bad)


def with_holes(header: bytes) -> bytes:
    """The header of a file as GNU writes it of one of which parts are left out: here none are, but
    a hundred bytes can stand for a thousand million million."""
    size = header[124:136]
    made = bytearray(header)
    made[156:157] = tarfile.GNUTYPE_SPARSE
    made[257:265] = b"ustar  \0"
    made[345:512] = bytes(167)
    made[386:410] = b"00000000000\0" + size
    made[483:495] = size
    made[148:156] = b" " * 8
    made[148:156] = f"{sum(made):06o}\0 ".encode()
    return bytes(made)


HUGE = 2**24


def header(kind: bytes, content: bytes) -> bytes:
    """A header of a header: `content` is a long name, or records of pax."""
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = kind, len(content)
    return member.tobuf() + content + bytes(-len(content) % 512)


def record(key: str, value: str) -> bytes:
    """One of pax, whose length has eight digits."""
    return f"{len(key) + len(value) + 11:08d} {key}={value}\n".encode()


@pytest.mark.parametrize("later", [False, True], ids=["first", "later and compressed"])
@pytest.mark.parametrize("kind", ["name", "link", "pax", "global pax", "many of pax"])
def test_headers_of_any_size_take_little_memory(
    restoring: Restoring, archive: Path, kind: str, *, later: bool
) -> None:
    pax, many = record("comment", "a" * HUGE), range(HUGE >> 16)
    headers = {
        "name": lambda: header(tarfile.GNUTYPE_LONGNAME, b"a" * HUGE),
        "link": lambda: header(tarfile.GNUTYPE_LONGLINK, b"a" * HUGE),
        "pax": lambda: header(tarfile.XHDTYPE, pax),
        "global pax": lambda: header(tarfile.XGLTYPE, pax),
        "many of pax": lambda: b"".join(
            header(tarfile.XGLTYPE, record(f"k{n}", "a" * 2**16)) for n in many
        ),
    }[kind]()
    with tarfile.open(archive) as tar:
        at = tar.getmembers()[1].offset if later else 0
    whole = archive.read_bytes()
    content = whole[:at] + headers + whole[at:]
    bad = archive.with_name("bad.tar")
    bad.write_bytes(gzip.compress(content, 1) if later else content)
    tracemalloc.start()
    try:
        restoring.refuses(bad)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < HUGE / 4


def test_what_the_disk_has_no_room_for_is_not_begun(
    restoring: Restoring, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    smallest = min(map(len, contents(archive).values()))
    room = shutil.disk_usage(archive.parent)._replace(free=smallest)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: room)
    code, said = restoring.restore(archive)
    assert (code, "cannot be written: the disk is full" in said) == (1, True)
    assert list(archive.parent.joinpath("elsewhere").iterdir()) == []


@pytest.mark.parametrize("name", ["live.db", "sandbox.db"])
def test_a_database_that_is_not_of_portico_is_refused_and_nothing_is_made(
    restoring: Restoring, archive: Path, name: str
) -> None:
    foreign = archive.with_name("foreign.db")
    ledger = "CREATE TABLE schema_migrations (number, name, checksum, applied_at);"
    for content in (
        b"",
        b"x",
        b"SQLite format 3\x00",
        b"SQLite format 3\x00" * 1000,
        contents(archive)[name][:-4096],
        foreign_database(foreign, "CREATE TABLE users (id);"),
        foreign_database(foreign, ledger),
        foreign_database(foreign, "INSERT INTO schema_migrations VALUES (9999, 'x', 'y', 0)"),
        foreign_database(foreign, "UPDATE schema_migrations SET number = 1"),
    ):
        members = holding(archive, name, content)
        said = restoring.refuses(packed(archive, members.items()))
        assert name in said


@pytest.mark.parametrize("name", ["secret.key", "tls/ca.pem", "tls/ca.key"])
def test_a_key_that_no_server_takes_is_refused_and_nothing_is_made(
    restoring: Restoring, archive: Path, name: str
) -> None:
    assert name in contents(archive)
    members = holding(archive, name, b"x")
    restoring.refuses(packed(archive, members.items()))


FOREIGN = """\
CREATE SCHEMA portico_live; CREATE SCHEMA portico_sandbox;
CREATE TABLE portico_live.users (id BIGINT);
"""
LEDGER = """\
CREATE TABLE portico_live.schema_migrations
    (number BIGINT, name TEXT, checksum TEXT, applied_at BIGINT);
INSERT INTO portico_live.schema_migrations VALUES (9999, 'x', 'y', 0);
"""


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (None, "database.dump is damaged: pg_restore failed: "),
        (FOREIGN, "portico_live holds no Portico"),
        (FOREIGN + LEDGER, "portico_live cannot be used: The database has migration 9999"),
    ],
)
def test_a_dump_that_is_not_of_portico_is_refused_and_the_database_is_left(
    restoring: Restoring, archive: Path, postgres: PostgresServer, script: str | None, said: str
) -> None:
    dumped = archive.with_name("database.dump")
    dumped.write_bytes(b"x")
    if script is not None:
        source = postgres.fresh_database()
        subprocess.run(["psql", "-q", source, "-c", script], check=True)
        subprocess.run(["pg_dump", "-Fc", "-f", str(dumped), source], check=True)
    content = dumped.read_bytes()
    listed = {"database.dump": hashlib.sha256(content).hexdigest()}
    manifest = listing(archive, engine="postgres", files=listed)[MANIFEST]
    members = [(MANIFEST, manifest), ("database.dump", content)]
    target = postgres.fresh_database()

    assert said in restoring.refuses(packed(archive, members), target)

    schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'portico%'"
    done = subprocess.run(
        ["psql", "-qtA", target, "-c", schemas], capture_output=True, text=True, check=True
    )
    assert done.stdout == "0\n"
