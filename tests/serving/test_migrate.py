"""`portico migrate` brings both databases up to the program, however many do it at once."""

import json
from pathlib import Path
from typing import Any

from operating import Installation, at_once, in_database, until
from servers import PostgresServer


def test_several_at_once_apply_each_migration_once(empty: Installation) -> None:
    done = at_once(lambda _: empty.run("migrate"), 2)
    assert [one.returncode for one in done] == [0, 0], done
    lines = [line for one in done for line in one.stdout.splitlines() if ": 0" in line]
    assert len(lines) == len(set(lines)), "none twice"
    assert {line.strip().split(":")[0] for line in lines} == {"live", "sandbox"}
    assert empty.told("migrate") == {"applied": []}


def test_pending_migrations_are_told_before_and_applied_after(empty: Installation) -> None:
    def check() -> tuple[int, list[dict[str, Any]]]:
        done = empty.run("migrate", "--check", "--json")
        return done.returncode, json.loads(done.stdout)["pending"]

    code, due = check()
    assert (code, empty.data.exists()) == (1, False)
    text = empty.run("migrate", "--check").stdout
    assert text.startswith(f"Pending:\n  live: 0001 {due[0]['name']}\n")
    assert empty.told("migrate")["applied"] == due
    numbers = {env: [one["number"] for one in due if one["environment"] == env] for env in ENVS}
    assert numbers["live"] == numbers["sandbox"] == sorted(numbers["live"])
    assert check() == (0, [])
    assert empty.run("migrate").stdout == "Up to date.\n"
    with empty.serving() as service:
        assert "sk_live_" in service.said, "the first admin is made at the first start"


ENVS = ("live", "sandbox")


def test_newer_database_and_a_changed_migration_are_refused(installation: Installation) -> None:
    file = installation.data / "live.db"
    in_database(file, "INSERT INTO schema_migrations VALUES (9999, 'of_tomorrow', 'x', 1, NULL)")
    code, line = installation.refused("migrate")
    assert (code, "newer Portico" in line) == (1, True)
    in_database(file, "DELETE FROM schema_migrations WHERE number = 9999")
    in_database(file, "UPDATE schema_migrations SET checksum = 'other'")
    before = file.read_bytes()
    code, line = installation.refused("migrate")
    assert (code, "another text" in line, file.read_bytes() == before) == (1, True, True)


def test_server_told_not_to_migrate_serves_once_somebody_has(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    with installation.serving("--no-migrate") as service:
        assert service.ask("/healthz").status == 200
        assert service.ask("/readyz").status == 503
        findings = json.loads(installation.run("doctor", "--json").stdout)["findings"]
        advice = [one["advice"] for one in findings if one["check"] == "server"]
        assert advice == ["run portico migrate"]
        installation.told("migrate")
        until(lambda: service.ask("/readyz").status == 200, "the start")
        key = installation.told("init")["keys"]["live"]
        assert service.ask("/v1/users/me", key=key).status == 200


def test_no_command_makes_a_secret_for_a_database_that_hosts_share(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    shared = Installation(tmp_path).having(database_url=postgres.fresh_database())
    shared.told("migrate")
    hook = ("webhooks", "create", "--url", "https://example.com/", "--types", "*")
    code, line = shared.refused(*hook)
    assert (code, "portico init or portico serve" in line) == (1, True)
    assert not (shared.data / "secret.key").exists()
