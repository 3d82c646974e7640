"""`portico doctor` finds what is wrong, says what to do, and changes nothing."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import asyncpg
import pytest

from collecting import collecting
from operating import (
    COMMAND,
    Installation,
    contents,
    copy_of,
    damage,
    free_port,
    in_database,
)
from own_certificates import own_pair
from portico.data.vault import Vault
from portico.features.operations.certificates import ensure
from portico.features.operations.commands.checks import data_directory
from portico.secret_file import read_secrets
from portico.settings import load
from servers import PostgresServer, RedisServer, redis_servers

Problems = dict[str, dict[str, Any]]
Break = Callable[[Installation], object]
"""Breaks an installation, or returns the one that is broken."""

KEYS, LIVE, SANDBOX = "live signing keys", "live database", "sandbox database"
BOTH = {LIVE, SANDBOX}
DAY = 86_400_000
WAIVED = "-dac_override,-dac_read_search"
OWNER = () if os.getuid() else ("setpriv", f"--bounding-set={WAIVED}", f"--inh-caps={WAIVED}")


def problems_in(output: str, code: int) -> Problems:
    findings = json.loads(output)
    problems = {one["check"]: one for one in findings["findings"] if not one["ok"]}
    assert code == (1 if problems else 0)
    assert findings["ok"] is (not problems)
    assert all(one["advice"] for one in problems.values())
    return problems


def examined(installation: Installation) -> Problems:
    """The problems that doctor finds, by check."""
    before = contents(installation.data)
    done = installation.run("doctor", "--json")
    assert contents(installation.data) == before, "doctor changes nothing"
    return problems_in(done.stdout, done.returncode)


def examined_as_owner(installation: Installation) -> Problems:
    """The same for an account that permissions hold for, which for root they do not."""
    done = subprocess.run(
        [*OWNER, *COMMAND, "doctor", "--json"],
        cwd=installation.directory,
        env=installation.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return problems_in(done.stdout, done.returncode)


def sql(url: str, statements: str) -> None:
    """Runs statements in a PostgreSQL database."""

    async def run() -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(statements)
        await connection.close()

    asyncio.run(run())


def test_healthy_installation_has_no_problem_before_and_while_it_serves(
    installation: Installation,
) -> None:
    assert examined(installation) == {}
    with installation.serving("--port", str(free_port())) as service:
        assert examined(installation) == {}
        said = installation.run("doctor").stdout
        assert f"process {service.process.pid}" in said
        assert said.endswith("No problems found.\n")


def test_unprepared_directory_is_told_to_init_and_not_created(tmp_path: Path) -> None:
    problems = examined(Installation(tmp_path))
    assert set(problems) == {"data directory"} | BOTH
    assert all("portico init" in one["advice"] for one in problems.values())
    assert not (tmp_path / "data").exists()


# The data directory and its databases


def replace_live_by_directory(it: Installation) -> None:
    (it.data / "live.db").unlink()
    (it.data / "live.db" / "within").mkdir(parents=True)


def set_another_secret(it: Installation) -> Installation:
    (it.directory / "secret").write_text("ab" * 32)
    (it.directory / "secret").chmod(0o600)
    return it.having(secret_key_file=str(it.directory / "secret"))


def archived(place: str) -> Break:
    return lambda it: it.having(audit_days="90", audit_archive=place)


def in_live(statement: str, *values: Any) -> Break:
    return lambda it: in_database(it.data / "live.db", statement, *values)


NEWER = in_live("INSERT INTO schema_migrations VALUES (9999, 'of_tomorrow', 'x', 1, NULL)")
OF_TOMORROW = in_live(
    "INSERT INTO audit (at, action, credential, details) VALUES (?, 'x', 'command', '{}')",
    int(time.time() * 1000) + DAY,
)


@pytest.mark.parametrize(
    ("breaks", "check", "said", "start"),
    [
        (lambda it: (it.data / ".restoring").mkdir(), "restore", "interrupted", "interrupted"),
        (lambda it: it.having(data="/proc/self"), "data directory", "cannot be written", None),
        (lambda it: (it.data / "secret.key").write_text("x"), KEYS, "secret.key", "is damaged"),
        (set_another_secret, KEYS, "another secret", "another secret"),
        (lambda it: damage(it.data / "live.db", "users_by_name"), LIVE, "restore a backup", None),
        (replace_live_by_directory, LIVE, "restore a backup", "live.db"),
        (NEWER, LIVE, "of_tomorrow", "newer Portico"),
        (lambda it: (it.data / "sandbox.db").unlink(), SANDBOX, "sandbox reset", "sandbox reset"),
        (lambda it: (it.data / "live.db").unlink(), LIVE, "or start anew", "or start anew"),
        (archived("/proc/self"), "audit archive", "cannot be written", None),
        (archived("/dev/null/below"), "audit archive", "/dev/null is not a directory", None),
        (OF_TOMORROW, "clock", "correct-times", "behind the newest stored change"),
    ],
)
def test_broken_data_is_found_and_a_start_says_the_same(
    installation: Installation, breaks: Break, check: str, said: str, start: str | None
) -> None:
    made = breaks(installation)
    given = made if isinstance(made, Installation) else installation
    problem = examined(given)[check]
    assert said in problem["message"] + problem["advice"]
    if start:
        code, line = given.refused("serve")
        assert (code, start in line) == (1, True), line


def test_lost_secret_is_a_problem_until_what_it_opens_is_opened_or_gone(
    installation: Installation,
) -> None:
    installation.told("webhooks", "create", "--url", "https://example.com/a", "--types", "*")
    secret, kept = installation.data / "secret.key", installation.directory / "kept"
    live = installation.data / "live.db"
    sealed = Vault(lambda: read_secrets(secret), os.urandom).seal(b"seed", "authenticator of 1")
    row = "INSERT INTO authenticators (user_id, name, secret, last_step, created_at)"
    in_database(live, f"{row} VALUES (1, 'phone', ?, 0, 0)", sealed)
    secret.rename(kept)
    problems = examined(installation)
    assert set(problems) == {KEYS, "sandbox signing keys", "live secrets"}
    assert "portico secret reset" in problems["live signing keys"]["advice"]
    code, line = installation.refused("serve")
    assert (code, "put back secret.key" in line, secret.exists()) == (1, True, False)
    installation.told("secret", "reset")
    problems = examined(installation)
    assert set(problems) == {"live secrets"}
    assert problems["live secrets"]["message"].endswith(": webhooks, authenticator apps")
    made = secret.read_bytes()
    secret.write_bytes(made + kept.read_bytes())
    assert examined(installation) == {}, "it was found again"
    secret.write_bytes(made)
    for table in ("authenticators", "webhooks"):
        in_database(live, f"DELETE FROM {table}")  # noqa: S608 - one of two names
    assert examined(installation) == {}


def test_full_disk_is_seen_coming(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=2**28))
    settings = load({"data": str(installation.data)}, {}, installation.directory)
    found = {one.check: one for one in data_directory(settings)}
    assert (found["data directory"].ok, found["disk space"].ok) == (True, False)
    assert "256 MiB" in found["disk space"].message


def test_wrong_setting_is_misuse(installation: Installation) -> None:
    code, line = installation.having(port="eighty").refused("doctor")
    assert (code, "PORTICO_PORT" in line) == (2, True)


# Permissions


def test_files_that_others_can_read_are_named(installation: Installation) -> None:
    installation.data.chmod(0o750)
    key = installation.data / "tls" / "ca.key"
    key.chmod(0o640)
    problems = examined(installation)
    assert set(problems) == {"data directory", "secret files"}
    advice = {one["advice"] for one in problems.values()}
    assert advice == {f"chmod 700 {installation.data}", f"chmod 600 {key}"}
    plain = installation.run("doctor")
    assert plain.stdout.endswith("Problems: 2.\n")
    assert all(f"-> {one}\n" in plain.stdout for one in advice)


def test_settings_file_with_a_secret_may_not_be_read_by_others(installation: Installation) -> None:
    file = installation.directory / "portico.toml"
    secret = 'valkey_url = "redis://:hush@127.0.0.1:1/0"\n'
    for text, mode, found in (("", 0o644, False), (secret, 0o644, True), (secret, 0o640, False)):
        file.write_text(text)
        file.chmod(mode)
        assert ("secret files" in examined(installation)) == found


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("tls/ca.key", {"authority"}),
        ("", {"data directory", "restore", "secret files", "certificate"} | BOTH),
    ],
)
def test_what_may_not_be_read_is_a_problem_of_its_check(
    installation: Installation, name: str, checks: set[str]
) -> None:
    (installation.data / name).chmod(0)
    problems = examined_as_owner(installation)
    (installation.data / name).chmod(0o700)
    assert set(problems) == checks
    for check in checks - {"data directory"}:
        assert problems[check]["advice"].startswith("make the account that serves its owner")


def test_what_may_not_be_written_is_found_with_its_chmod(installation: Installation) -> None:
    live = installation.data / "live.db"
    live.chmod(0o400)
    installation.data.chmod(0o500)
    problems = examined_as_owner(installation)
    installation.data.chmod(0o700)
    assert set(problems) == BOTH | {"data directory"}
    assert problems[LIVE]["message"].endswith(f" {live}")
    assert problems["data directory"]["advice"] == f"chmod 700 {installation.data}"
    assert {path.name for path in installation.data.glob("live.db*")} == {"live.db"}


# Certificates


def given_certificate(installation: Installation, **options: Any) -> Installation:
    """The installation with a certificate of its operator's, with these options of `own_pair`."""
    paths = [installation.directory / "given.pem", installation.directory / "given.key"]
    for path, content in zip(paths, own_pair(**options), strict=True):
        path.write_bytes(content)
    paths[1].chmod(0o600)
    return installation.having(tls_cert=str(paths[0]), tls_key=str(paths[1]))


@pytest.mark.parametrize(
    ("certificate", "message"),
    [
        ({"starts": -367, "ends": 30}, None),
        ({"starts": -367, "ends": 29}, "expires in 29 days"),
        ({"name": "other.example"}, "does not name localhost"),
    ],
)
def test_given_certificate_is_judged_by_time_and_name(
    installation: Installation, certificate: dict[str, Any], message: str | None
) -> None:
    problems = examined(given_certificate(installation, **certificate))
    assert set(problems) == ({"certificate"} if message else set())
    assert message is None or problems["certificate"]["message"].endswith(message)


def test_key_of_another_certificate_and_one_open_to_all_are_found(
    installation: Installation,
) -> None:
    given = given_certificate(installation)
    certificate, key = (Path(given.variables[name]) for name in ("tls_cert", "tls_key"))
    key.chmod(0o604)
    assert set(examined(given)) == {"secret files"}
    key.chmod(0o600)
    authority = (installation.data / "tls" / "ca.pem").read_bytes()
    certificate.write_bytes(authority + certificate.read_bytes())
    problem = examined(given)["certificate"]
    assert "is not the private key of" in problem["message"]
    assert "own certificate before those of its chain" in problem["advice"]


def age(installation: Installation, *, left: int, renewed: int = 0) -> None:
    """Makes a local authority with so many days left, whose certificate was renewed so many days
    ago."""
    tls = installation.data / "tls"
    shutil.rmtree(tls)
    now = int(time.time() * 1000) + 60_000
    for ago in (3650 - left, renewed):
        ensure(tls, ["localhost"], now - ago * DAY)


RENEWED = "start the server, which renews it"
DASHBOARD = {"dashboard_url": "https://dash.test"}


@pytest.mark.parametrize(
    ("left", "renewed", "addresses", "messages"),
    [
        (20, 10, DASHBOARD, {"authority": "20 days", "certificate": "does not name dash.test"}),
        (-3, 10, {}, {"authority": "has expired", "certificate": "has expired"}),
    ],
)
def test_local_authority_in_its_last_months_is_found_beside_its_certificate(
    installation: Installation,
    left: int,
    renewed: int,
    addresses: dict[str, str],
    messages: dict[str, str],
) -> None:
    age(installation, left=left, renewed=renewed)
    problems = examined(installation.having(**addresses))
    assert {check: one["message"].endswith(messages[check]) for check, one in problems.items()} == (
        dict.fromkeys(messages, True)
    )
    assert f"remove {installation.data / 'tls' / 'ca.pem'} " in problems["authority"]["advice"]
    assert problems.get("certificate", {}).get("advice", RENEWED) == RENEWED


def test_local_authority_that_can_sign_no_more_is_found(installation: Installation) -> None:
    tls, other = installation.data / "tls", installation.directory / "other"
    authority, key = tls / "ca.pem", tls / "ca.key"
    key.unlink()
    assert examined(installation) == {}, "nothing is wrong before the renewal"
    added = examined(installation.having(**DASHBOARD))
    assert set(added) == {"certificate"}
    assert f"remove {authority} " in added["certificate"]["advice"]
    ensure(other, ["localhost"], int(time.time() * 1000))
    shutil.copy(other / "ca.key", key)
    assert "is not the private key of" in examined(installation)["authority"]["message"]
    shutil.copy(other / "ca.pem", authority)
    problem = examined(installation)["certificate"]
    assert ("was not signed by" in problem["message"], problem["advice"]) == (True, RENEWED)
    key.unlink()
    problem = examined(installation)["certificate"]
    code, line = installation.refused("serve")
    assert (code, problem["advice"] in line) == (1, True)


LOOKS_SELDOM = """
import sys
from portico.cli import connections
from portico.cli.main import main
connections.CONNECTION_TIMEOUTS = connections.CONNECTION_TIMEOUTS._replace(renewal=3600.0)
sys.exit(main(sys.argv[1:]))
"""
"""Portico, which takes a new certificate up much later than doctor comes."""


def test_server_that_serves_an_older_certificate_is_found(installation: Installation) -> None:
    with installation.serving(program=(sys.executable, "-c", LOOKS_SELDOM, "serve")):
        (installation.data / "tls" / "server.pem").unlink()
        ensure(installation.data / "tls", ["localhost"], int(time.time() * 1000))
        problems = examined(installation)
    assert set(problems) == {"certificate"}
    assert problems["certificate"]["message"] == "the server serves an older certificate"


# The server and its port


def test_another_program_that_answers_on_the_port_is_found(installation: Installation) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello")

    plain = installation.having(tls="off", trusted_proxies="127.0.0.1")
    with HTTPServer(("127.0.0.1", plain.port), Handler) as other:
        Thread(target=other.serve_forever, args=(0.01,), daemon=True).start()
        problems = examined(plain)
        other.shutdown()
    assert set(problems) == {"server"}
    assert "another program" in problems["server"]["message"]


def test_what_keeps_a_server_from_listening_is_found_as_a_start_says_it(
    installation: Installation,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        for given, message in (
            (installation.having(host="192.0.2.1"), "cannot be used"),  # RFC 5737: nobody's
            (installation.having(http_port=port), "in use by another program"),
        ):
            problem = examined(given)["server"]
            assert message in problem["message"]
            code, line = given.refused("serve")
            assert (code, problem["message"] in line, problem["advice"] in line) == (1, True, True)


def test_portico_of_another_directory_on_the_port_is_found(
    installation: Installation, tmp_path: Path
) -> None:
    other = replace(copy_of(installation, tmp_path / "other"), port=installation.port)
    with other.serving():
        problems = examined(installation)
    assert set(problems) == {"server"}
    assert "a Portico with another data directory" in problems["server"]["message"]


def test_server_that_hangs_is_found(installation: Installation) -> None:
    with installation.serving() as service:
        service.process.send_signal(signal.SIGSTOP)
        try:
            problems = examined(installation)
        finally:
            service.process.send_signal(signal.SIGCONT)
    assert set(problems) == {"server"}
    assert f"process {service.process.pid} does not answer" in problems["server"]["message"]


# Stores elsewhere


def test_stores_that_are_away_are_found_without_their_passwords(tmp_path: Path) -> None:
    at = f"hushed@127.0.0.1:{free_port()}"
    given = Installation(tmp_path).having(
        database_url=f"postgresql://portico:{at}/portico", valkey_url=f"redis://:{at}/0"
    )
    given.data.mkdir(0o700)
    assert set(examined(given)) == BOTH | {"Valkey"}
    said = given.run("doctor")
    assert ("hushed" in said.stdout, said.stderr) == (False, "")


def test_host_of_shared_stores_is_well_until_one_is_silent(
    on_postgres: Installation, postgres: PostgresServer, redis: RedisServer
) -> None:
    given = on_postgres.having(valkey_url=redis.url)
    further = replace(given, directory=given.directory / "further")
    further.directory.mkdir()
    further = further.having(secret_key_file=str(given.data / "secret.key"))
    assert "portico serve creates it" in examined(further)["data directory"]["advice"]
    empty = examined(given.having(database_url=postgres.fresh_database()))
    assert set(empty) == BOTH
    assert not any("SQLite" in one["advice"] for one in empty.values())
    assert examined(given) == {}
    with given.serving():
        assert examined(given) == {}
        with redis.frozen():
            away = examined(given)
    assert set(away) == {"Valkey", "server"}
    assert away["server"]["message"].endswith("its stores are not available: limiter silent")


COLLATED = """
CREATE COLLATION german (provider = icu, locale = 'de');
CREATE COLLATION unused (provider = icu, locale = 'fr');
CREATE INDEX of_the_operator ON portico_live.users (name COLLATE german);
UPDATE pg_collation SET collversion = '1' WHERE collname = 'unused'"""


def test_changed_collation_version_is_a_problem_until_it_is_refreshed(
    on_postgres: Installation,
) -> None:
    given = on_postgres
    url = given.variables["database_url"]
    sql(url, COLLATED)
    sql(url, "UPDATE pg_collation SET collversion = '1' WHERE collname = 'german'")
    problems = examined(given)
    assert set(problems) == {"collation"}
    assert "had version 1 and has" in problems["collation"]["message"]
    refresh = "ALTER COLLATION public.german REFRESH VERSION"
    assert problems["collation"]["advice"].endswith(refresh)
    sql(url, refresh)
    assert examined(given) == {}


def test_postgresql_that_takes_no_writes_is_found(on_postgres: Installation) -> None:
    url = f"{on_postgres.variables['database_url']}?default_transaction_read_only=on"
    problems = examined(on_postgres.having(database_url=url))
    assert set(problems) == BOTH
    assert "is read-only" in problems["live database"]["message"]
    assert "primary" in problems["live database"]["advice"]


def test_valkey_replica_is_found_and_a_restricted_user_is_well(installation: Installation) -> None:
    restricted = ("--user", "app", "on", ">pw", "~portico:*", "&*", "+@all", "-@dangerous")
    with redis_servers(("--replicaof", "127.0.0.1", "1"), restricted) as (replica, careful):
        problem = examined(installation.having(valkey_url=replica.url))["Valkey"]
        assert "accepts no writes" in problem["message"]
        assert "Sentinels" in problem["advice"]
        url = careful.url.replace("//", "//app:pw@")
        assert examined(installation.having(valkey_url=url)) == {}


def test_collector_that_takes_nothing_is_found(installation: Installation) -> None:
    with collecting() as taking:
        given = installation.having(otlp_endpoint=taking.url)
        assert examined(given) == {}
        assert [post.path for post in taking.posts] == ["/v1/traces"]
        for taking.status in (401, 302):
            message = examined(given)["collector"]["message"]
            assert message.endswith(f"does not accept exports: it answers {taking.status}")
    away = installation.having(otlp_endpoint=f"http://127.0.0.1:{free_port()}")
    assert "does not answer" in examined(away)["collector"]["message"]
