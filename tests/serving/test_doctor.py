"""`portico doctor` finds what is wrong, says what to do, and changes nothing."""

import asyncio
import datetime
import json
import os
import shutil
import signal
import socket
import sys
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from collecting import collecting
from operating import Installation, contents, copy_of, damage, free_port, in_database, until
from portico.data.vault import Vault
from portico.features.operations.certificates import ensure
from portico.features.operations.commands.checks import data_directory, databases
from portico.secret_file import read_secrets
from portico.settings import load
from servers import PostgresServer, RedisServer, redis_servers


def examined(installation: Installation) -> dict[str, dict[str, Any]]:
    """The problems that doctor finds, by check."""
    before = contents(installation.data)
    done = installation.run("doctor", "--json")
    assert contents(installation.data) == before, "nothing is changed"
    findings = json.loads(done.stdout)
    problems = {one["check"]: one for one in findings["findings"] if not one["ok"]}
    assert done.returncode == (1 if problems else 0)
    assert findings["ok"] is (not problems)
    assert all(one["advice"] for one in problems.values())
    return problems


def notices(installation: Installation) -> dict[str, str]:
    """What doctor finds that is no problem and might be better otherwise, by check."""
    findings = json.loads(installation.run("doctor", "--json").stdout)["findings"]
    return {one["check"]: one["message"] for one in findings if one["ok"] and one["advice"]}


def test_a_healthy_installation_has_no_problem_before_and_while_it_serves(
    installation: Installation,
) -> None:
    assert examined(installation) == {}
    with installation.serving() as service:
        assert examined(installation) == {}
        said = installation.run("doctor").stdout
        assert f"process {service.process.pid}" in said
        assert said.endswith("No problems found.\n")


def test_an_unprepared_directory_is_told_from_a_damaged_one(tmp_path: Path) -> None:
    problems = examined(Installation(tmp_path))
    assert set(problems) == {"data directory", "live database", "sandbox database"}
    assert all("portico init" in one["advice"] for one in problems.values())
    assert not (tmp_path / "data").exists()


def test_an_address_that_cannot_set_the_shared_cookie_is_noticed(
    installation: Installation,
) -> None:
    shared = installation.having(
        cookie_domain="example.com",
        trusted_proxies="127.0.0.1",
        base_url="https://api.example.com/v1",
        auth_url="https://example.com/auth",
    )
    told = "no browser lets localhost set a cookie for example.com"
    assert notices(shared)["cookie domain"] == told
    advice = shared.run("doctor").stdout.partition(told)[2]
    assert "set sandbox_url, dashboard_url to addresses within that domain" in advice
    whole = shared.having(
        sandbox_url="https://example.com/sandbox/v1", dashboard_url="https://example.com/dashboard"
    )
    for other in (whole, installation):
        assert "cookie domain" not in notices(other)


async def test_a_database_on_a_read_only_file_system_asks_for_no_chmod(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load({"data": str(installation.data)}, {}, installation.data)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    found = [finding async for finding in databases(settings)]
    assert [one.message.rpartition(": ")[2] for one in found] == [
        "its file system is read-only"
    ] * 2
    assert all(one.advice.startswith("make it writable") for one in found)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    problems = examined(Installation(tmp_path).having(data="/proc/self"))
    assert problems["data directory"]["message"] == "/proc/self cannot be written"


def test_a_restore_that_was_cut_off_is_told_as_a_start_tells_it(
    installation: Installation,
) -> None:
    (installation.data / ".restoring").mkdir()
    problems = examined(installation)
    assert set(problems) == {"restore"}
    told = f"{problems['restore']['message']}: {problems['restore']['advice']}."
    assert installation.refused("serve") == (1, told)


def test_files_that_others_can_read_are_named(installation: Installation) -> None:
    installation.data.chmod(0o750)
    key = installation.data / "tls" / "ca.key"
    key.chmod(0o640)
    problems = examined(installation)
    assert set(problems) == {"data directory", "secret files"}
    advice = {one["advice"] for one in problems.values()}
    assert advice == {f"chmod 700 {installation.data}", f"chmod 600 {key}"}
    plain = installation.run("doctor")
    assert plain.returncode == 1
    assert plain.stdout.count("PROBLEM ") == 2
    assert plain.stdout.endswith("Problems: 2.\n")
    assert all(f"-> {one}\n" in plain.stdout for one in advice)


def test_a_lost_secret_is_a_problem_until_what_it_opens_is_opened_or_gone(
    installation: Installation,
) -> None:
    installation.told("webhooks", "create", "--url", "https://example.com/a", "--types", "*")
    secret, kept = installation.data / "secret.key", installation.directory / "kept"
    vault = Vault(lambda: read_secrets(secret), os.urandom)
    live = installation.data / "live.db"
    in_database(
        live,
        "INSERT INTO authenticators (user_id, name, secret, last_step, created_at)"
        " VALUES (1, 'phone', ?, 0, 0)",
        vault.seal(b"seed", "authenticator of 1"),
    )
    assert examined(installation) == {}
    secret.rename(kept)
    problems = examined(installation)
    assert set(problems) == {"live signing keys", "sandbox signing keys", "live secrets"}
    assert "is gone" in problems["live signing keys"]["message"]
    assert "portico secret reset" in problems["live signing keys"]["advice"]
    code, line = installation.refused("serve")
    assert (code, "put back secret.key" in line, secret.exists()) == (1, True, False)
    installation.told("secret", "reset")
    problems = examined(installation)
    assert set(problems) == {"live secrets"}
    assert problems["live secrets"]["message"].endswith(": webhooks, authenticator apps")
    assert str(secret) in problems["live secrets"]["advice"]
    made = secret.read_bytes()
    secret.write_bytes(made + kept.read_bytes())
    assert examined(installation) == {}, "it was found again"
    secret.write_bytes(made)
    in_database(live, "DELETE FROM authenticators")
    in_database(live, "DELETE FROM webhooks")
    assert examined(installation) == {}


def test_a_damaged_secret_is_a_problem(installation: Installation) -> None:
    secret = installation.data / "secret.key"
    secret.write_text("short\n")
    problems = examined(installation)
    assert set(problems) == {"live signing keys", "sandbox signing keys"}
    assert str(secret) in problems["live signing keys"]["message"]
    code, line = installation.refused("signing-keys", "rotate")
    assert (code, f"{secret} is damaged" in line) == (1, True)


def test_another_secret_than_the_databases_is_a_problem(installation: Installation) -> None:
    file = installation.directory / "secret"
    file.write_text("ab" * 32)
    file.chmod(0o644)
    given = installation.having(secret_key_file=str(file))
    problems = examined(given)
    assert set(problems) == {"secret files", "live signing keys", "sandbox signing keys"}
    assert "another secret" in problems["live signing keys"]["message"]
    code, line = given.refused("serve")
    assert (code, "another secret" in line) == (1, True)
    shutil.copy(installation.data / "secret.key", file)
    file.chmod(0o600)
    assert examined(given) == {}


def test_a_full_disk_is_seen_coming(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**28))
    settings = load({"data": str(installation.data)}, {}, installation.directory)
    found = {one.check: one for one in data_directory(settings)}
    assert found["data directory"].ok
    assert not found["disk space"].ok
    assert "256 MiB" in found["disk space"].message


def test_an_audit_archive_that_cannot_be_written_is_found(installation: Installation) -> None:
    def archived(archive: Path) -> Any:
        given = installation.having(audit_days="90", audit_archive=str(archive))
        return examined(given).get("audit archive", {}).get("message")

    file = installation.directory / "file"
    file.touch()
    assert archived(installation.directory / "made" / "later") is None
    assert archived(file / "below") == archived(file) == f"{file} is not a directory"
    assert archived(Path("/proc/self")) == "/proc/self cannot be written"


def test_a_damaged_database_is_found(installation: Installation) -> None:
    damage(installation.data / "live.db", "users_by_name")
    problems = examined(installation)
    assert set(problems) == {"live database"}
    assert "is damaged" in problems["live database"]["message"]
    assert "restore a backup" in problems["live database"]["advice"]


def test_a_directory_in_the_place_of_a_database_is_found_with_advice_for_files(
    installation: Installation,
) -> None:
    file = installation.data / "live.db"
    file.unlink()
    (file / "within").mkdir(parents=True)
    problems = examined(installation)
    assert set(problems) == {"live database"}
    assert str(file) in problems["live database"]["message"]
    assert "check that it is Portico's file" in problems["live database"]["advice"]
    assert "restore a backup" in problems["live database"]["advice"]
    assert "from this machine" not in problems["live database"]["advice"]


def test_a_newer_database_is_found(installation: Installation) -> None:
    newer = "INSERT INTO schema_migrations VALUES (9999, 'of_tomorrow', 'x', 1, NULL)"
    in_database(installation.data / "live.db", newer)
    problems = examined(installation)
    assert set(problems) == {"live database"}
    assert "of_tomorrow" in problems["live database"]["message"]


def test_a_database_that_was_never_migrated_is_found(installation: Installation) -> None:
    live, sandbox = installation.data / "live.db", installation.data / "sandbox.db"
    in_database(live, "DELETE FROM users")
    sandbox.unlink()
    in_database(sandbox, "PRAGMA journal_mode=WAL")
    problems = examined(installation)
    assert set(problems) == {"sandbox database"}
    assert "sandbox reset" not in problems["sandbox database"]["advice"]
    assert installation.told("migrate")["applied"]
    assert examined(installation) == {}


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
@pytest.mark.parametrize(
    ("lost", "advice"),
    [("sandbox", "let portico sandbox reset create a new one"), ("live", "or start anew with")],
)
def test_the_loss_of_one_database_is_told_with_what_a_start_advises(
    tmp_path: Path, postgres: PostgresServer, engine: str, lost: str, advice: str
) -> None:
    given = Installation(tmp_path)
    if engine == "postgres":
        given = given.having(database_url=postgres.fresh_database())
    given.told("init")
    if engine == "postgres":
        drop = f"DROP SCHEMA portico_{lost} CASCADE"
        asyncio.run(run(given.variables["database_url"], drop))
    else:
        (given.data / f"{lost}.db").unlink()
    problems = examined(given)
    assert set(problems) == {f"{lost} database"}
    assert advice in problems[f"{lost} database"]["advice"]
    code, line = given.refused("serve")
    assert (code, problems[f"{lost} database"]["advice"][1:] in line) == (1, True)


def test_clock_behind_the_newest_data_stops_a_start_until_the_times_are_corrected(
    installation: Installation,
) -> None:
    tomorrow = int(time.time() * 1000) + 86_400_000
    entry = "INSERT INTO audit (at, action, credential, details) VALUES (?, 'x', 'command', '{}')"
    in_database(installation.data / "live.db", entry, tomorrow)
    problems = examined(installation)
    assert set(problems) == {"clock"}
    assert "behind the newest live data" in problems["clock"]["message"]
    code, line = installation.refused("serve")
    assert (code, "behind the newest stored change" in line) == (1, True)
    assert installation.told("correct-times") == {"corrected": True}
    assert examined(installation) == {}
    with installation.serving():
        pass


def given_certificate(
    installation: Installation, *, starts: int = -1, ends: int = 90, name: str = "localhost"
) -> Installation:
    """The installation with a certificate of its operator's, its times in days from now."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), 1)
        .not_valid_before(now + datetime.timedelta(days=starts))
        .not_valid_after(now + datetime.timedelta(days=ends, hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    paths = [installation.directory / "given.pem", installation.directory / "given.key"]
    paths[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    paths[1].write_bytes(private)
    paths[1].chmod(0o600)
    return installation.having(tls_cert=str(paths[0]), tls_key=str(paths[1]))


@pytest.mark.parametrize(
    ("certificate", "said"),
    [
        ({"starts": -367, "ends": 29}, "expires in 29 days"),
        ({"starts": -35, "ends": 10}, "expires in 10 days"),
        ({"starts": -5, "ends": 1}, "expires in 1 day"),
        ({"starts": -9, "ends": -3}, "has expired"),
        ({"starts": 3}, "is not valid yet"),
        ({"name": "other.example"}, "does not name localhost"),
    ],
)
def test_a_certificate_that_does_not_serve_is_found(
    installation: Installation, certificate: dict[str, Any], said: str
) -> None:
    problems = examined(given_certificate(installation, **certificate))
    assert set(problems) == {"certificate"}
    assert problems["certificate"]["message"].endswith(said)


def test_all_that_is_wrong_with_a_certificate_is_found(installation: Installation) -> None:
    given = given_certificate(installation, starts=-9, ends=-3, name="other.example")
    findings = json.loads(given.run("doctor", "--json").stdout)["findings"]
    said = [one["message"] for one in findings if one["check"] == "certificate"]
    path = given.variables["tls_cert"]
    assert said == [f"{path} has expired", f"{path} does not name localhost"]


@pytest.mark.parametrize(("starts", "ends"), [(-367, 30), (-33, 12), (-4, 2)])
def test_a_certificate_that_is_renewed_in_time_is_well_however_long_it_lives(
    installation: Installation, starts: int, ends: int
) -> None:
    assert examined(given_certificate(installation, starts=starts, ends=ends)) == {}


def test_a_good_certificate_and_a_wildcard_are_well(installation: Installation) -> None:
    assert examined(given_certificate(installation)) == {}
    addresses = {
        f"{name}_url": f"https://{name}.example.com"
        for name in ("base", "sandbox", "auth", "sandbox_auth", "dashboard")
    }
    wild = given_certificate(installation, name="*.example.com").having(**addresses)
    assert examined(wild) == {}


def test_a_key_of_another_certificate_and_one_open_to_all_are_found(
    installation: Installation,
) -> None:
    given = given_certificate(installation)
    other = installation.data / "tls" / "server.key"
    problems = examined(given.having(tls_key=str(other)))
    assert "is not the private key of" in problems["certificate"]["message"]
    Path(given.variables["tls_key"]).chmod(0o604)
    assert set(examined(given)) == {"secret files"}


def test_a_file_of_settings_that_tells_others_a_secret_is_found(
    installation: Installation,
) -> None:
    file = installation.directory / "portico.toml"
    file.write_text("workers = 1\n")
    file.chmod(0o644)
    assert examined(installation) == {}
    provider = '[sign_in.corp]\nissuer = "https://id.example"\nclient_id = "c"\nclient_secret = "s"'
    file.write_text(provider)
    problem = examined(installation)["secret files"]
    assert problem["message"] == f"other users can read {file}"
    file.chmod(0o640)
    assert examined(installation) == {}


@pytest.mark.skipif(os.getuid() != 0, reason="it gives a file away")
def test_a_secret_of_another_account_is_not_to_be_closed_to_the_one_that_serves(
    installation: Installation,
) -> None:
    file = installation.directory / "portico.toml"
    file.write_text('valkey_url = "redis://:hush@127.0.0.1:1/0"\n')
    file.chmod(0o644)
    own = examined(installation)["secret files"]["advice"]
    assert own == f"chmod 600 {file}"
    os.chown(file, os.getuid() + 1, -1)
    advice = examined(installation)["secret files"]["advice"]
    assert advice == f"have the group of the account that serves own it, then chmod 640 {file}"


@pytest.mark.skipif(os.getuid() != 0, reason="it gives a file away")
def test_a_secret_that_portico_has_made_is_to_be_of_the_account_that_serves_alone(
    installation: Installation,
) -> None:
    key = installation.data / "tls" / "ca.key"
    key.chmod(0o640)
    os.chown(key, os.getuid() + 1, -1)
    advice = examined(installation)["secret files"]["advice"]
    assert advice == f"have the account that serves own it, then chmod 600 {key}"


def test_a_chain_that_begins_with_its_authority_is_found_with_advice_on_the_order(
    installation: Installation,
) -> None:
    given = given_certificate(installation)
    certificate = Path(given.variables["tls_cert"])
    authority = (installation.data / "tls" / "ca.pem").read_bytes()
    certificate.write_bytes(authority + certificate.read_bytes())
    problem = examined(given)["certificate"]
    assert "is not the private key of" in problem["message"]
    assert "own certificate before those of its chain" in problem["advice"]


def test_a_certificate_that_no_server_starts_with_is_found(installation: Installation) -> None:
    given = given_certificate(installation)
    certificate = Path(given.variables["tls_cert"])
    certificate.write_bytes(b"\xef\xbb\xbf" + certificate.read_bytes())
    _, line = given.refused("serve")
    problem = examined(given)["certificate"]["message"]
    assert line.endswith(f"cannot be served: {problem}")


def test_a_local_certificate_that_is_broken_is_found(installation: Installation) -> None:
    (installation.data / "tls" / "server.pem").write_text("no certificate")
    problems = examined(installation)
    assert set(problems) == {"certificate"}
    assert problems["certificate"]["advice"] == "start the server, which renews it"


def test_a_local_certificate_of_a_time_to_come_is_found(installation: Installation) -> None:
    later = int(time.time() * 1000) + 400 * 86_400_000
    tls = installation.data / "tls"
    made_anew = (
        f"set this machine's clock; if it is right, remove {tls / 'ca.pem'} and start the server,"
        " which creates a new authority that clients must then trust"
    )
    for advice in ("start the server, which renews it", made_anew):
        ensure(tls, ["localhost"], later)
        problem = examined(installation)["certificate"]
        assert problem["message"].endswith("is not valid yet")
        assert problem["advice"] == advice
        shutil.rmtree(tls)


def test_an_authority_of_a_time_to_come_is_found_once_its_certificate_is_renewed(
    installation: Installation,
) -> None:
    now, tls = int(time.time() * 1000), installation.data / "tls"
    shutil.rmtree(tls)
    ensure(tls, ["localhost"], now + 400 * 86_400_000)
    (tls / "server.pem").unlink()
    ensure(tls, ["localhost"], now)
    problems = examined(installation)
    assert set(problems) == {"authority"}
    assert problems["authority"]["message"] == f"{tls / 'ca.pem'} is not valid yet"
    assert f"if it is right, remove {tls / 'ca.pem'}" in problems["authority"]["advice"]


def test_an_authority_of_a_time_to_come_is_made_anew_as_doctor_advises(
    installation: Installation,
) -> None:
    tls = installation.data / "tls"
    shutil.rmtree(tls)
    ensure(tls, ["localhost"], int(time.time() * 1000) + 400 * 86_400_000)
    (tls / "ca.pem").unlink()
    with installation.serving():
        assert examined(installation) == {}


def test_an_authority_that_can_sign_no_more_is_found(installation: Installation) -> None:
    tls = installation.data / "tls"
    authority, key = tls / "ca.pem", tls / "ca.key"
    key.unlink()
    assert examined(installation) == {}, "nothing is wrong before the renewal"
    assert f"{key} cannot be read" in notices(installation)["authority"]
    added = examined(installation.having(dashboard_url="https://dash.test"))
    assert set(added) == {"certificate"}
    assert f"remove {authority} " in added["certificate"]["advice"]
    ensure(installation.directory / "other", ["localhost"], int(time.time() * 1000))
    shutil.copy(installation.directory / "other" / "ca.key", key)
    assert set(examined(installation)) == {"authority"}
    assert "is not the private key of" in examined(installation)["authority"]["message"]
    shutil.copy(installation.directory / "other" / "ca.pem", authority)
    problem = examined(installation)["certificate"]
    assert "was not signed by" in problem["message"]
    assert problem["advice"] == "start the server, which renews it"
    key.unlink()
    problem = examined(installation)["certificate"]
    code, line = installation.refused("serve")
    assert (code, problem["advice"] in line) == (1, True)


@pytest.mark.parametrize("content", [b"", b"no certificate"])
def test_a_certificate_that_is_broken_while_it_is_served_is_found(
    installation: Installation, content: bytes
) -> None:
    given = given_certificate(installation)
    file = Path(given.variables["tls_cert"])
    with given.serving():
        file.write_bytes(content)
        problems = examined(given)
    assert set(problems) == {"certificate"}
    assert str(file) in problems["certificate"]["message"]
    assert "without a restart" in problems["certificate"]["advice"]


def aged(installation: Installation, *, left: int, renewed: int = 0) -> Path:
    """A local authority with so many days left; its certificate was renewed so many days ago."""
    tls = installation.data / "tls"
    shutil.rmtree(tls)
    now = int(time.time() * 1000) + 60_000
    for ago in (3650 - left, renewed):
        ensure(tls, ["localhost"], now - ago * 86_400_000)
    return tls / "ca.pem"


@pytest.mark.parametrize("days", [80, 20])
def test_an_authority_in_its_last_months_is_found(installation: Installation, days: int) -> None:
    authority = aged(installation, left=days, renewed=10)
    problems = examined(installation)
    assert set(problems) == {"authority"}
    assert problems["authority"]["message"] == f"{authority} expires in {days} days"
    assert f"remove {authority} " in problems["authority"]["advice"]


@pytest.mark.parametrize(
    ("left", "renewed", "addresses", "said"),
    [
        (80, 400, {}, "has expired"),
        (80, 377, {}, "expires in 20 days"),
        (80, 0, {"dashboard_url": "https://dash.test"}, "does not name dash.test"),
        (20, 10, {"dashboard_url": "https://dash.test"}, "does not name dash.test"),
        (-3, 10, {}, "has expired"),
    ],
)
def test_what_its_certificate_lacks_is_found_beside_the_end_of_an_authority(
    installation: Installation, left: int, renewed: int, addresses: dict[str, str], said: str
) -> None:
    aged(installation, left=left, renewed=renewed)
    problems = examined(installation.having(**addresses))
    assert set(problems) == {"authority", "certificate"}
    assert problems["certificate"]["message"].endswith(said)
    assert problems["certificate"]["advice"] == "start the server, which renews it"


LOOKS_SELDOM = """
import sys
from portico.cli import connections
from portico.cli.main import main
connections.PATIENCE = connections.PATIENCE._replace(renewal=3600.0)
sys.exit(main(sys.argv[1:]))
"""
"""Portico, which takes a new certificate up much later than doctor comes."""


def test_a_server_that_serves_an_older_certificate_is_found(installation: Installation) -> None:
    with installation.serving(program=(sys.executable, "-c", LOOKS_SELDOM, "serve")):
        (installation.data / "tls" / "server.pem").unlink()
        ensure(installation.data / "tls", ["localhost"], int(time.time() * 1000))
        problems = examined(installation)
    assert set(problems) == {"certificate"}
    assert problems["certificate"]["message"] == "the server serves an older certificate"


def test_a_server_with_another_port_than_is_set_is_well(installation: Installation) -> None:
    with installation.serving("--port", str(free_port())):
        assert examined(installation) == {}


def test_another_program_on_the_port_is_found(installation: Installation) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", installation.port))
        other.listen()
        problems = examined(installation)
    assert set(problems) == {"server"}
    assert "another program" in problems["server"]["message"]


def test_what_keeps_a_server_from_listening_is_found(installation: Installation) -> None:
    elsewhere = installation.having(host="192.0.2.1")  # RFC 5737: nobody's
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        plain = installation.having(http_port=str(other.getsockname()[1]))
        for one, why in ((elsewhere, "cannot be used"), (plain, "in use by another program")):
            problem = examined(one)["server"]
            assert why in problem["message"]
            code, line = one.refused("serve")
            assert (code, problem["message"] in line, problem["advice"] in line) == (1, True, True)


def test_a_portico_with_another_directory_on_the_port_is_found(
    installation: Installation, tmp_path: Path
) -> None:
    other = replace(copy_of(installation, tmp_path / "other"), port=installation.port)
    with other.serving():
        problems = examined(installation)
    assert set(problems) == {"server"}
    assert "a Portico with another data directory" in problems["server"]["message"]


@pytest.mark.parametrize(
    "body", [b"hello", b'{"stores":{"database":"\xff"}}', b'{"x":' + b"[" * 4_000]
)
def test_another_program_that_answers_is_found(installation: Installation, body: bytes) -> None:
    class Handler(BaseHTTPRequestHandler):
        """Answers everything alike."""

        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

    plain = installation.having(tls="off", trusted_proxies="127.0.0.1")
    with HTTPServer(("127.0.0.1", plain.port), Handler) as other:
        thread = Thread(target=other.serve_forever, daemon=True)
        thread.start()
        problems = examined(plain)
        other.shutdown()
        thread.join()
    assert set(problems) == {"server"}
    assert "another program" in problems["server"]["message"]


def test_a_server_that_hangs_is_found(installation: Installation) -> None:
    with installation.serving() as service:
        service.process.send_signal(signal.SIGSTOP)
        try:
            problems = examined(installation)
        finally:
            service.process.send_signal(signal.SIGCONT)
    assert set(problems) == {"server"}
    assert f"process {service.process.pid} does not answer" in problems["server"]["message"]


def test_stores_that_are_away_are_found_without_their_passwords(tmp_path: Path) -> None:
    port = free_port()
    installation = Installation(tmp_path).having(
        database_url=f"postgresql://portico:hushed@127.0.0.1:{port}/portico",
        valkey_url=f"redis://:hushed@127.0.0.1:{port}/0",
    )
    installation.data.mkdir(0o700)
    problems = examined(installation)
    assert set(problems) == {"live database", "sandbox database", "Valkey"}
    assert "from this machine" in problems["live database"]["advice"]
    said = installation.run("doctor")
    assert "hushed" not in said.stdout
    assert said.stderr == "", "the findings tell it all"


def test_stores_that_answer_are_well(
    tmp_path: Path, postgres: PostgresServer, redis: RedisServer
) -> None:
    given = Installation(tmp_path).having(
        database_url=postgres.fresh_database(), valkey_url=redis.url
    )
    given.told("init")
    further = replace(given, directory=tmp_path / "further")
    further.directory.mkdir()
    further = further.having(secret_key_file=str(given.data / "secret.key"))
    beside = examined(further)
    assert set(beside) == {"data directory"}
    assert "portico serve creates it" in beside["data directory"]["advice"]
    with further.serving():
        assert examined(further) == {}
    empty = examined(given.having(database_url=postgres.fresh_database()))
    assert set(empty) == {"live database", "sandbox database"}
    assert not any("SQLite" in one["advice"] for one in empty.values())
    assert examined(given) == {}
    with given.serving():
        assert examined(given) == {}
        with redis.frozen():
            away = examined(given)
    assert set(away) == {"Valkey", "server"}
    assert away["server"]["message"].endswith("its stores are not available: limiter silent")


HAS_NO_ROOM = """
CREATE FUNCTION has_no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END $$;
CREATE TRIGGER has_no_room BEFORE INSERT ON portico_live.products
FOR EACH ROW EXECUTE FUNCTION has_no_room()"""


async def run(url: str, sql: str) -> None:
    """Runs statements in a PostgreSQL database."""
    connection = await asyncpg.connect(url)
    await connection.execute(sql)
    await connection.close()


def test_a_full_disk_of_postgresql_is_found_beside_a_server(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.fresh_database()
    given = Installation(tmp_path).having(database_url=url)
    given = replace(given, facts=given.told("init"))
    asyncio.run(run(url, HAS_NO_ROOM))
    with given.serving() as service:
        assert examined(given) == {}
        lamp = {"name": "Lamp", "category": "light", "price": 1}
        assert service.ask("/v1/products", method="POST", key=given.key, body=lamp).status == 503
        found = until(lambda: examined(given), "another answer of `/readyz`")
    assert set(found) == {"server"}
    assert found["server"]["message"].endswith("its stores are not available: database full")
    assert found["server"]["advice"] == "free some space there; the server then recovers by itself"


async def test_changed_collation_version_is_a_problem_until_it_is_refreshed(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url = postgres.fresh_database()
    name = url.rpartition("/")[2]
    given = Installation(tmp_path).having(database_url=url)
    given.told("init")
    owner = await asyncpg.connect(url)
    await owner.execute(
        "CREATE COLLATION german (provider = icu, locale = 'de');"
        "CREATE COLLATION unused (provider = icu, locale = 'fr');"
        "CREATE INDEX of_the_operator ON portico_live.users (name COLLATE german);"
        "UPDATE pg_collation SET collversion = '1' WHERE collname = 'unused'"
    )
    assert await asyncio.to_thread(examined, given) == {}
    changed = {
        "UPDATE pg_collation SET collversion = '1' WHERE collname = 'german'": (
            "ALTER COLLATION public.german REFRESH VERSION"
        )
    }
    if owner.get_server_version().major >= 15:  # 14 records no version of a database
        of_database = (
            "UPDATE pg_database SET datcollversion = '1' WHERE datname = current_database()"
        )
        changed[of_database] = f"ALTER DATABASE {name} REFRESH COLLATION VERSION"
    for change, refresh in changed.items():
        await owner.execute(change)
        problems = await asyncio.to_thread(examined, given)
        assert set(problems) == {"collation"}
        assert "had version 1 and has" in problems["collation"]["message"]
        assert problems["collation"]["advice"].endswith(refresh)
        await owner.execute(f"REINDEX DATABASE {name}")
        await owner.execute(refresh)
        assert await asyncio.to_thread(examined, given) == {}
    await owner.close()


def test_a_postgresql_that_takes_no_writes_is_found_while_nothing_serves(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    given = Installation(tmp_path).having(database_url=postgres.fresh_database())
    given.told("init")
    url = given.variables["database_url"]
    problems = examined(given.having(database_url=f"{url}?default_transaction_read_only=on"))
    assert set(problems) == {"live database", "sandbox database"}
    assert "is read-only" in problems["live database"]["message"]
    assert "primary" in problems["live database"]["advice"]
    assert examined(given) == {}


def test_a_replica_that_takes_no_counts_is_told(installation: Installation) -> None:
    with redis_servers(("--replicaof", "127.0.0.1", "1")) as (replica,):
        problems = examined(installation.having(valkey_url=replica.url))
    assert "accepts no writes" in problems["Valkey"]["message"]
    assert "Sentinels" in problems["Valkey"]["advice"]


def test_a_store_that_tells_its_user_nothing_of_itself_is_none_that_counts_nothing(
    installation: Installation,
) -> None:
    careful = "on >pw ~portico:* &* +@all -@dangerous"
    with redis_servers(("--user", "app", *careful.split())) as (server,):
        given = installation.having(valkey_url=server.url.replace("//", "//app:pw@"))
        assert examined(given) == {}


def test_a_collector_that_takes_nothing_is_told(installation: Installation) -> None:
    with collecting() as taking:
        given = installation.having(otlp_endpoint=taking.url)
        assert examined(given) == {}
        assert [post.path for post in taking.posts] == ["/v1/traces"]
        taking.status = 401
        assert examined(given)["collector"]["message"].endswith(
            "does not accept exports: it answers 401"
        )
        taking.status = 302  # such as by a gate that wants somebody to sign in
        assert examined(given)["collector"]["message"].endswith(
            "does not accept exports: it answers 302"
        )
    away = installation.having(otlp_endpoint=f"http://127.0.0.1:{free_port()}")
    assert "does not answer" in examined(away)["collector"]["message"]


def test_a_setting_that_is_wrong_is_misuse(installation: Installation) -> None:
    code, line = installation.having(port="eighty").refused("doctor")
    assert code == 2
    assert "PORTICO_PORT" in line
