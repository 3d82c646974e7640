"""An installation on SQLite is moved to PostgreSQL, by a backup of the one that is restored to the
other."""

import asyncio
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import apsw
import asyncpg
import pytest

from driving import FakeClock
from operating import COMMAND, Installation, Service, in_database, until
from portico.data.migrate import migrate
from portico.data.postgres.engine import PostgresDatabase
from portico.features.operations.commands.moving import move, size
from servers import PostgresServer, free_port

SEARCHES = ("search=oak", "search=wide+oak", "search=tab", "status=draft", "category=c3", "")
TOTALS = "SELECT list, key, sum(total) FROM {} WHERE total != 0 GROUP BY list, key ORDER BY 1, 2"
MOVED = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'"
OWN = ("product_words", "sqlite")
OTHERS = {"schema_migrations", "list_counts", "list_blocks", "leases", "sqlite_schema"}
PRODUCTS = 77
"""No table has as many rows of its own."""
ALL = "SELECT {} FROM {}"
ORPHAN = """
INSERT INTO api_keys (user_id, name, type, hint, key_hash, created_at)
VALUES (999, 'n', 'live', 'h', x'00', 0)"""


def fill(service: Service) -> dict[str, Any]:
    """Something in many tables, and what is needed to ask for it again."""

    def post(path: str, body: dict[str, Any], **headers: str) -> Any:
        answer = service.ask(
            path, method="POST", key=service.installation.key, body=body, headers=headers
        )
        assert answer.status in (201, 202), answer.json
        return answer.json["data"]

    for number in range(30):
        words = "Wide oak table" if number % 3 else "Täble of ﬁr, 100 %"
        status = ("active", "draft", "archived")[number % 3]
        body = {"name": f"{words} {number}", "category": f"c{number % 5}", "price": f"{number}.50"}
        made = post("/v1/products", {**body, "price": number + 0.5, "status": "draft"})
        service.ask(
            f"/v1/products/{made['id']}",
            method="PATCH",
            key=service.installation.key,
            body={"status": status, "metadata": {"a": "ü"}},
        )
    login = {"email": "grace@example.com", "password": "Compiler1"}
    post("/v1/users", {"name": "Grace", "role": "viewer", **login})
    key = post("/v1/api-keys", {"name": "till", "type": "live", "scopes": ["read:products"]})["key"]
    post("/v1/webhooks", {"url": "https://shop.example/hook", "types": ["product.*"]})
    post("/v1/products", {"name": "Once", "category": "c", "price": 1}, **{"idempotency-key": "o"})
    tokens = service.ask("/auth/login", method="POST", body=login).json
    return {"key": key, "access": tokens["access_token"], "refresh": tokens["refresh_token"]}


def answers(service: Service) -> list[Any]:
    key = service.installation.key
    found = [service.ask(f"/v1/products?{query}", key=key).json for query in SEARCHES]
    others = (
        "/v1/users",
        "/v1/users/me",
        "/v1/api-keys",
        "/v1/webhooks",
        "/v1/events?after=0&limit=50",
    )
    listed = [service.ask(path, key=key).json["data"] for path in others]
    for one in listed[2]:
        del one["last_used_at"]  # which these questions change
    return found + listed


async def rows_of(url: str, schema: str, table: str, columns: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    try:
        found = await connection.fetch(ALL.format(columns, f'{schema}."{table}"'))
        return [tuple(row) for row in found]
    finally:
        await connection.close()


async def totals(url: str, schema: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(url)
    try:
        found = await connection.fetch(TOTALS.format(f"{schema}.list_counts"))
        return [(one[0], one[1], int(one[2])) for one in found]
    finally:
        await connection.close()


def by_text(rows: list[tuple[Any, ...]]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.fixture
def target(installation: Installation, postgres: PostgresServer, tmp_path: Path) -> Installation:
    """Where to: nothing is there yet."""
    directory = tmp_path / "elsewhere"
    directory.mkdir()
    variables = {"database_url": postgres.fresh_database()}
    return Installation(directory, variables, installation.facts, installation.port)


async def steps(file: Path, url: str) -> list[int]:
    """The numbers of rows by which a move goes on."""
    database = PostgresDatabase(url, "moved")
    await database.open()
    try:
        await migrate(database, FakeClock())
        found: list[int] = []
        await move(file, database, found.append)
        return found
    finally:
        await database.close()


def test_the_progress_of_a_move_ends_with_the_words_of_its_products(
    installation: Installation, postgres: PostgresServer
) -> None:
    lamps = installation.directory / "lamps.ndjson"
    lamps.write_text('{"name": "Lamp", "category": "light", "price": 1}\n' * PRODUCTS)
    installation.told("products", "import", str(lamps))
    file = installation.data / "live.db"

    found = asyncio.run(steps(file, postgres.fresh_database()))

    assert found[-1] == PRODUCTS
    assert found.count(PRODUCTS) == 2, "they are moved, and at last their words are indexed"
    assert sum(found) == size(file)


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
    url = target.variables["database_url"]
    for environment in ("live", "sandbox"):
        file, schema = copied / f"{environment}.db", f"portico_{environment}"
        connection = apsw.Connection(str(file))
        tables = [row[0] for row in connection.execute(MOVED)]
        moved = [one for one in tables if one not in OTHERS and not one.startswith(OWN)]
        assert len(moved) > 30
        for table in moved:
            names = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
            columns = ", ".join(f'"{name}"' for name in names)
            there = asyncio.run(rows_of(url, schema, table, columns))
            here = list(connection.execute(ALL.format(columns, f'"{table}"')))
            if table == "events":  # and the one that marks the end of a restore
                there = [row for row in there if row[0] < 1_000_000_000]
            assert by_text(there) == by_text(here), table
        counted = [(a, b, int(c)) for a, b, c in connection.execute(TOTALS.format("list_counts"))]
        assert asyncio.run(totals(url, schema)) == counted
        connection.close()
    with target.serving() as service:
        assert answers(service) == before
        assert service.ask("/v1/products", key=held["key"]).status == 200
        assert service.ask("/v1/users/me", key=held["access"]).status == 200
        body = {"refresh_token": held["refresh"]}
        assert service.ask("/auth/refresh", method="POST", body=body).status == 200
        again = service.ask(
            "/v1/products",
            method="POST",
            key=service.installation.key,
            body={"name": "Once", "category": "c", "price": 1},
            headers={"idempotency-key": "o"},
        )
        assert again.headers["idempotent-replayed"] == "true"
        next_ = {"name": "Next", "category": "c", "price": 1, "status": "active"}
        made = service.ask("/v1/products", method="POST", key=service.installation.key, body=next_)
        assert made.json["data"]["id"] > 1_000_000_000
        found = service.ask("/v1/products?search=next", key=service.installation.key).json
        assert found["pagination"]["total_items"] == 1
        until(lambda: service.ask("/readyz").status == 200, "ready")


def test_what_postgresql_does_not_take_is_told_and_leaves_nothing(
    installation: Installation, target: Installation
) -> None:
    in_database(installation.data / "sandbox.db", ORPHAN)
    archive = installation.directory / "backup.tar"
    installation.told("backup", str(archive))
    code, line = target.refused("restore", str(archive))
    assert code == 1
    assert "sandbox.db cannot be moved: PostgreSQL rejects a row of api_keys" in line
    assert not target.data.exists()
    assert target.refused("users", "list")[1].startswith("The database is not prepared")
    assert json.loads(target.run("init", "--json").stdout)["admin"], "it is empty"
    again = Installation(installation.directory, target.variables, target.facts, free_port())
    assert "already holds a Portico" in again.refused("--data", "new", "restore", str(archive))[1]


def test_the_name_of_a_table_is_no_statement(
    installation: Installation, target: Installation, tmp_path: Path
) -> None:
    another = tmp_path / "another.db"
    apsw.Connection(str(another)).execute("CREATE TABLE kept (id)").close()
    attached = f"ATTACH '{another}' AS a; DROP TABLE a.kept; SELECT 0"
    name = f'users"" WHERE 0 GROUP BY id; {attached}; --'
    in_database(installation.data / "live.db", f'CREATE TABLE "{name}" (a)')
    archive = installation.directory / "backup.tar"
    installation.told("backup", str(archive))
    assert target.told("restore", str(archive))["engine"] == "postgres"
    assert list(apsw.Connection(str(another)).execute(MOVED + " AND name = 'kept'"))


def test_a_move_that_is_killed_leaves_no_installation_and_is_repeated(
    installation: Installation, target: Installation
) -> None:
    archive = installation.directory / "backup.tar"
    installation.told("backup", str(archive))
    url = target.variables["database_url"]
    words = [*COMMAND, "--data", "killed", "restore", str(archive)]
    with subprocess.Popen(words, cwd=target.directory, env=target.environment) as moving:
        until(lambda: asyncio.run(has_schema(url, "portico_live_moving")), "it has begun")
        moving.kill()
    assert target.refused("users", "list")[1].startswith("The database is not prepared")
    assert target.told("restore", str(archive))["engine"] == "postgres"
    assert not asyncio.run(has_schema(url, "portico_live_moving"))
    assert target.run("doctor").returncode == 0


async def has_schema(url: str, name: str) -> bool:
    connection = await asyncpg.connect(url)
    try:
        found = await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", name)
        return found is not None
    finally:
        await connection.close()


@pytest.mark.parametrize("command", [["serve"], ["init"], ["migrate"]])
def test_nothing_is_begun_on_postgresql_beside_an_installation_on_sqlite(
    installation: Installation, target: Installation, command: list[str]
) -> None:
    both = Installation(installation.directory, target.variables, target.facts, free_port())
    code, line = both.refused(*command)
    assert (code, "holds an installation on SQLite" in line) == (1, True)
    assert installation.run("users", "list").returncode == 0


def test_doctor_says_how_an_installation_on_sqlite_comes_into_an_empty_database(
    installation: Installation, target: Installation
) -> None:
    both = Installation(installation.directory, target.variables, target.facts, free_port())
    found = both.run("doctor", "--json")
    assert found.returncode == 1
    empty = {one["check"]: one for one in json.loads(found.stdout)["findings"] if not one["ok"]}
    assert set(empty) == {"live database", "sandbox database"}
    for finding in empty.values():
        assert f"on SQLite, {installation.data / 'live.db'}" in finding["advice"]
        assert "restore the backup with database_url and a new data directory" in finding["advice"]
