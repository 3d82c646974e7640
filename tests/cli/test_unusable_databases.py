"""A database that is there and is not as it must be: one line, which names what it is about."""

import asyncio
import json
import re
from pathlib import Path

import asyncpg

from beside import prepared
from operating import Installation, in_database, until
from servers import PostgresServer

PAGE = 4096


def commands(installation: Installation) -> list[tuple[str, ...]]:
    """What cannot go on without the accounts."""
    backup = str(installation.directory / "backup.tar")
    words = ("users list", "sandbox reset", f"backup {backup}", "init", "serve")
    return [tuple(each.split()) for each in words]


def problems(installation: Installation) -> dict[str, str]:
    """What doctor finds wrong, by check."""
    findings = json.loads(installation.run("doctor", "--json").stdout)["findings"]
    assert findings[-1]["check"] == "server", "the checks that follow go on"
    return {one["check"]: one["message"] for one in findings if not one["ok"]}


def test_commands_tell_of_a_file_that_is_damaged_in_the_middle(
    installation: Installation,
) -> None:
    file = installation.data / "live.db"
    with file.open("r+b") as pages:
        pages.seek(3 * PAGE)
        pages.write(b"\xff" * 5 * PAGE)
    for command in commands(installation):
        code, line = installation.refused(*command)
        assert (command, code, line.startswith(f"{file} ")) == (command, 1, True)
        assert "database disk image is malformed" in line
    assert not (installation.directory / "backup.tar").exists()


def test_a_server_goes_on_beside_what_is_damaged_and_names_the_file_in_its_log(
    installation: Installation,
) -> None:
    file = installation.data / "live.db"
    with installation.serving() as service:
        in_database(file, "DROP TABLE webhooks")
        answer = service.ask("/v1/webhooks", key=installation.key)
        assert answer.error == (503, "SERVICE_UNAVAILABLE")
        assert str(file) not in answer.text
        told = f"{file} is incomplete: no such table: webhooks."
        wanted = answer.headers["x-request-id"]
        until(
            lambda: told in [e["event"] for e in service.lines if e.get("request_id") == wanted],
            "the log's line",
        )
        assert service.ask("/v1/products", key=installation.key).status == 200


async def test_commands_tell_what_the_account_may_not_read(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.fresh_database()
    name = url.rpartition("/")[2]
    installation = prepared(tmp_path, database_url=url)
    owner = await asyncpg.connect(url)
    await owner.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'x'")
    restricted = installation.having(database_url=re.sub("//[^@]*@", f"//{name}:x@", url))
    try:
        tells(restricted, "schema portico_live", ["schema portico_live", "schema portico_sandbox"])
        await owner.execute(
            f"GRANT USAGE ON SCHEMA portico_live, portico_sandbox TO {name};"
            "GRANT SELECT ON portico_live.schema_migrations, portico_sandbox.schema_migrations"
            f" TO {name}"
        )
        tells(restricted, "table users", ["table signing_keys"] * 2)
    finally:
        await owner.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")
        await owner.close()


async def encoded(postgres: PostgresServer, encoding: str) -> str:
    """The address of an empty database in this encoding."""
    url = f"{postgres.url.rpartition('/')[0]}/in_{encoding.lower()}"
    owner = await asyncpg.connect(postgres.url)
    libc = "LOCALE_PROVIDER libc" if owner.get_server_version().major >= 15 else ""
    name = url.rpartition("/")[2]
    await owner.execute(f"DROP DATABASE IF EXISTS {name}")
    await owner.execute(
        f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' {libc} TEMPLATE template0"
    )
    await owner.close()
    return url


async def test_a_database_whose_encoding_lacks_letters_is_refused_as_a_setting(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    encoding = "LATIN1"
    url = await encoded(postgres, encoding)
    installation = Installation(tmp_path).having(database_url=url)
    what = (
        f"PostgreSQL at {url.rpartition('@')[2]} has the encoding {encoding}, which lacks letters"
    )
    advice = (
        "name a database in database_url that was created with ENCODING 'UTF8' TEMPLATE template0"
    )
    for command in ("init", "serve", "users list"):
        refusal = await asyncio.to_thread(installation.refused, *command.split())
        assert (command, *refusal) == (command, 2, f"{what}: {advice}.")
    found = await asyncio.to_thread(installation.run, "doctor", "--json")
    findings = {one["check"]: one for one in json.loads(found.stdout)["findings"]}
    assert findings["live database"]["message"] == what
    assert findings["live database"]["advice"] == advice
    owner = await asyncpg.connect(url)
    made = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'portico%'"
    assert await owner.fetchval(made) == 0
    await owner.close()


def tells(installation: Installation, denied: str, examined: list[str]) -> None:
    """Holds that commands name what is denied, and doctor what is of each environment."""
    told = "PostgreSQL refuses Portico's account: permission denied for"
    for command in ("users list", "migrate --check", "init", "sandbox reset"):
        refusal = installation.refused(*command.split())
        assert (command, *refusal) == (command, 1, f"{told} {denied}.")
    live, sandbox = (f"{told} {what}" for what in examined)
    assert problems(installation) == {"live database": live, "sandbox database": sandbox}
