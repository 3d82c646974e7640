"""`portico init` prepares what nobody has prepared, and leaves everything else as it is."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from operating import Installation, contents
from portico.app import system_clock
from portico.engines import LIVE, SANDBOX, database
from portico.settings import load
from portico.storage.migrate import migrate, shipped
from servers import PostgresServer

ADMIN = """
INSERT INTO users (name, name_key, email, email_key, role, plan, theme, language, notifications,
    created_at, updated_at)
VALUES ('Ada', 'ada', 'ada@example.com', 'ada@example.com', 'admin', 'free', 'dark', 'en', 1, 1, 1)
"""


def is_refused(installation: Installation, *more: str) -> bool:
    place = "database" if "database_url" in installation.variables else "data directory"
    told = f"This {place} is prepared already; nothing was changed."
    return installation.refused("init", *more) == (1, told)


async def of_the_first_release(installation: Installation) -> None:
    """Has an admin, in databases as the first migration made them."""
    settings = load({}, installation.environment, installation.directory)
    for environment in (LIVE, SANDBOX):
        db = database(settings, environment)
        await db.open()
        try:
            await migrate(db, system_clock, shipped(db.engine)[:1])
            async with db.transaction() as tx:
                await tx.run(ADMIN)
        finally:
            await db.close()


def test_authority_and_keys_stay_when_an_address_is_another_by_now(empty: Installation) -> None:
    empty.told("init")
    before = contents(empty.data)

    elsewhere = empty.having(base_url="https://api.example.com/v1")

    assert is_refused(elsewhere, "--json")
    assert contents(empty.data) == before


def test_migrations_that_are_pending_stay_pending(empty: Installation) -> None:
    empty.data.mkdir()
    asyncio.run(of_the_first_release(empty))
    before = contents(empty.data)
    pending = json.loads(empty.run("migrate", "--check", "--json").stdout)

    assert is_refused(empty)
    assert contents(empty.data) == before
    assert json.loads(empty.run("migrate", "--check", "--json").stdout) == pending


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
        assert told.startswith(f"{host.data} has the secret of a server and no database;")
    code, told = without_settings.refused("users", "list")
    assert code == 1
    assert "run this with its server's settings (portico.toml and PORTICO_ variables)" in told
    assert set(contents(host.data)) == before


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


@pytest.mark.parametrize("email", ["nobody", "a@b"])
def test_an_email_that_is_none_is_misuse_and_makes_nothing(tmp_path: Path, email: str) -> None:
    done = Installation(tmp_path).run("init", "--admin-email", email)

    assert (done.returncode, done.stdout) == (2, "")
    assert "argument --admin-email: must be" in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []
