"""An installation on SQLite is moved to PostgreSQL, by a backup of the one that is restored to the
other."""

import asyncio
import json
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

import forking
from operating import Installation, Service, in_database, until
from servers import PostgresServer, free_port

TOTALS = "SELECT list, key, sum(total) FROM {} WHERE total != 0 GROUP BY list, key ORDER BY 1, 2"
TABLES = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
OWN = ("product_words", "sqlite")
OTHERS = {"schema_migrations", "list_counts", "list_blocks", "leases", "sqlite_schema"}
ALL = "SELECT {} FROM {}"
ORPHAN = """
INSERT INTO api_keys (user_id, name, type, hint, key_hash, created_at)
VALUES (999, 'n', 'live', 'h', x'00', 0)"""
SHOWN = (
    *("/v1/products?search=oak", "/v1/products?search=wide+oak", "/v1/products?search=tab"),
    *("/v1/products?status=draft", "/v1/products?category=c3", "/v1/products"),
    *("/v1/users", "/v1/users/me", "/v1/webhooks", "/v1/events?after=0&limit=50"),
)


def post(service: Service, path: str, body: dict[str, Any], **headers: str) -> Any:
    answer = service.post(path, body, headers=headers)
    assert answer.status in (200, 201, 202), answer.json
    return answer.json.get("data", answer.json)


def fill(service: Service) -> dict[str, Any]:
    """Something in many tables, and the credentials to ask for it again."""
    for number in range(30):
        name = "Wide oak table" if number % 3 else "Täble of ﬁr, 100 %"
        status = ("active", "draft", "archived")[number % 3]
        product = {"name": f"{name} {number}", "category": f"c{number % 5}", "price": number + 0.5}
        post(service, "/v1/products", {**product, "status": status, "metadata": {"a": "ü"}})
    login = {"email": "grace@example.com", "password": "Compiler1"}
    post(service, "/v1/users", {"name": "Grace", "role": "viewer", **login})
    key = {"name": "till", "type": "live", "scopes": ["read:products"]}
    post(service, "/v1/webhooks", {"url": "https://shop.example/hook", "types": ["product.*"]})
    post(service, "/v1/products", ONCE, **{"idempotency-key": "o"})
    return {
        "key": post(service, "/v1/api-keys", key)["key"],
        **post(service, "/auth/login", login),
    }


ONCE = {"name": "Once", "category": "c", "price": 1}


def answers(service: Service) -> list[Any]:
    key = service.installation.key
    return [service.ask(path, key=key).json["data"] for path in SHOWN]


async def fetch(url: str, sql: str) -> list[tuple[Any, ...]]:
    """What a statement finds on PostgreSQL."""
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(sql)]
    finally:
        await connection.close()


@pytest.fixture
def target(
    installation: Installation, restored: Installation, postgres: PostgresServer
) -> Installation:
    """Where to, at the same address: nothing is there yet."""
    return replace(restored, port=installation.port).having(database_url=postgres.fresh_database())


def require_the_same(file: Path, url: str, schema: str) -> None:
    """Asserts that every table of a SQLite database is in a schema on PostgreSQL."""
    connection = apsw.Connection(str(file))
    tables = [row[0] for row in connection.execute(TABLES)]
    moved = [one for one in tables if one not in OTHERS and not one.startswith(OWN)]
    assert len(moved) > 30
    for table in moved:
        names = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
        columns = ", ".join(f'"{name}"' for name in names)
        there = asyncio.run(fetch(url, ALL.format(columns, f'{schema}."{table}"')))
        here = list(connection.execute(ALL.format(columns, f'"{table}"')))
        if table == "events":  # and the one that marks the end of a restore
            there = [row for row in there if row[0] < 1_000_000_000]
        assert sorted(map(repr, there)) == sorted(map(repr, here)), table
    counted = [(a, b, int(c)) for a, b, c in connection.execute(TOTALS.format("list_counts"))]
    there = asyncio.run(fetch(url, TOTALS.format(f"{schema}.list_counts")))
    assert [(a, b, int(c)) for a, b, c in there] == counted
    connection.close()


def test_all_that_sqlite_held_is_there_on_postgresql(
    installation: Installation, target: Installation
) -> None:
    with installation.serving() as service:
        held = fill(service)
    with installation.serving() as service:
        before = answers(service)
    archive, copied = installation.directory / "backup.tar", installation.directory / "copied"
    shutil.copytree(installation.data, copied)  # before the backup is recorded in it
    installation.told("backup", str(archive))
    assert target.told("restore", str(archive))["engine"] == "postgres"
    assert not list(target.data.glob("*.db*")), "nothing of SQLite's is left beside it"
    for environment in ("live", "sandbox"):
        url, schema = target.variables["database_url"], f"portico_{environment}"
        require_the_same(copied / f"{environment}.db", url, schema)
    with target.serving() as service:
        assert answers(service) == before
        assert service.ask("/v1/products", key=held["key"]).status == 200
        assert service.ask("/v1/users/me", key=held["access_token"]).status == 200
        post(service, "/auth/refresh", {"refresh_token": held["refresh_token"]})
        again = service.post("/v1/products", ONCE, headers={"idempotency-key": "o"})
        assert again.headers["idempotent-replayed"] == "true"
        assert service.make_product("Next") > 1_000_000_000
        found = service.ask("/v1/products?search=next&status=draft", key=target.key).json
        assert found["pagination"]["total_items"] == 1


NOTES = """
from portico.kinds import Kind, Record, text

class Note(Record):
    title: str = text(1, 40, search=True)
    {field}

notes = Kind(Note, one="note", many="notes", readers=["viewer"], writers=["editor"])
"""


def test_records_of_kinds_are_moved_with_what_is_hidden_and_are_found(
    installation: Installation, target: Installation, tmp_path: Path
) -> None:
    file, archive = tmp_path / "notes.py", tmp_path / "backup.tar"
    source = installation.having(kinds=str(tmp_path))
    file.write_text(NOTES.format(field='colour: str = text(0, 9, default="")'))
    with source.serving() as service:
        note = post(service, "/v1/notes", {"title": "Wide oak", "colour": "red"})
    file.write_text(NOTES.format(field=""))
    source.told("backup", str(archive))
    code, line = target.refused("restore", str(archive))
    assert (code, "holds notes, which no file of kinds declares here" in line) == (1, True)
    there = target.having(kinds=str(tmp_path))
    there.told("restore", str(archive))
    states = {one["name"]: one["state"] for one in there.told("kinds")}
    assert states["notes.colour"] == "hidden"
    with there.serving() as service:
        found = service.ask("/v1/notes?search=oak", key=there.key).json
        assert [one["id"] for one in found["data"]] == [note["id"]]
        assert found["pagination"]["total_items"] == 1
    file.write_text(NOTES.format(field='colour: str = text(0, 9, default="")'))
    with there.serving() as service:
        assert service.ask("/v1/notes/1", key=there.key).json["data"]["colour"] == "red"


def test_row_that_postgresql_rejects_is_told_and_leaves_nothing(
    installation: Installation, target: Installation
) -> None:
    in_database(installation.data / "sandbox.db", ORPHAN)
    archive = installation.directory / "backup.tar"
    installation.told("backup", str(archive))
    code, line = target.refused("restore", str(archive))
    assert code == 1
    assert "sandbox.db cannot be moved: PostgreSQL rejects a row of api_keys" in line
    assert not target.data.exists()
    assert target.told("init")["admin"], "the database is empty"


def test_move_that_is_killed_leaves_no_installation_and_is_repeated(
    archive: Path, target: Installation
) -> None:
    begun = "SELECT FROM pg_namespace WHERE nspname = 'portico_live_moving'"
    url = target.variables["database_url"]
    words = ["--data", "killed", "restore", str(archive)]
    with tempfile.TemporaryFile() as said:
        moving = forking.Forked(words, target.directory, target.environment, said, said)
        until(lambda: asyncio.run(fetch(url, begun)), "it has begun")
        moving.kill()
        moving.wait()
    assert target.refused("users", "list")[1].startswith("The database is not prepared")
    assert target.told("restore", str(archive))["engine"] == "postgres"
    assert not asyncio.run(fetch(url, begun))
    assert target.run("doctor").returncode == 0


def test_nothing_is_begun_on_postgresql_beside_an_installation_on_sqlite(
    installation: Installation, target: Installation
) -> None:
    both = replace(installation, variables=target.variables, port=free_port())
    for command in ("serve", "init", "migrate"):
        code, line = both.refused(command)
        assert (code, "holds an installation on SQLite" in line) == (1, True)
    found = json.loads(both.run("doctor", "--json").stdout)["findings"]
    advice = [one["advice"] for one in found if not one["ok"]]
    assert len(advice) == 2
    assert all("restore the backup with database_url and a new data" in one for one in advice)
    assert installation.run("users", "list").returncode == 0
