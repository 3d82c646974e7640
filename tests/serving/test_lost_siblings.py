"""A database that is lost: nothing makes an empty one in its place without a word, and what was
acknowledged comes back with its file."""

import asyncio
import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from operating import Installation, Service, contents, in_database, until
from portico.app import system_clock
from portico.data.migrate import migrate
from portico.engines import LIVE, SANDBOX, database
from portico.settings import load
from servers import RedisServer

READING = (
    *("doctor", "users list --sandbox", "migrate --check"),
    *("products export products.csv", "backup backup.tar"),
)
STARTS = ("serve", "serve --no-migrate", "init", "migrate", "migrate --check")
WITHOUT_TABLES = "PRAGMA journal_mode=WAL"
MANY = 1_000_000_000
COUNT = "SELECT count(*) FROM products WHERE name LIKE 'Kept %'"
KEPT = 10


def remove(file: Path) -> None:
    file.unlink()


def empty_out(file: Path) -> None:
    file.write_bytes(b"")


def leave_header(file: Path) -> None:
    file.unlink()
    in_database(file, WITHOUT_TABLES)


LOSSES = (remove, empty_out, leave_header)


async def drop(url: str, schema: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(f"DROP SCHEMA {schema} CASCADE")
    await connection.close()


async def make_tables(installation: Installation, environment: str) -> None:
    settings = load({}, installation.environment, installation.directory)
    db = database(settings, environment, create=True)
    await db.open()
    try:
        await migrate(db, system_clock)
    finally:
        await db.close()


def lose(installation: Installation, environment: str, how: Callable[[Path], None]) -> str:
    """Loses a database; where it was."""
    if "database_url" in installation.variables:
        asyncio.run(drop(installation.variables["database_url"], f"portico_{environment}"))
        return f"portico_{environment}"
    how(installation.data / f"{environment}.db")
    return str(installation.data / f"{environment}.db")


def require_refused(installation: Installation, said: str, *commands: str) -> None:
    for command in commands:
        code, line = installation.refused(*command.split())
        assert (code, said in line) == (1, True), (command, line)


@pytest.mark.parametrize(
    ("fixture", "how"), [("installation", leave_header), ("on_postgres", remove)]
)
def test_lost_sandbox_is_made_by_a_reset_alone_with_numbers_of_its_own(
    request: pytest.FixtureRequest, fixture: str, how: Callable[[Path], None]
) -> None:
    installation: Installation = request.getfixturevalue(fixture)
    place = lose(installation, "sandbox", how)
    before = contents(installation.data)
    require_refused(installation, f"{place}, is lost", *STARTS, "backup backup.tar")
    require_refused(installation, "portico sandbox reset", "serve")
    assert contents(installation.data) == before
    filled = installation.told("sandbox", "reset")
    assert (filled["users"] > 0, filled["products"] > 0, filled["mirrors"]) == (True, True, 0)
    with installation.serving() as service:
        owner = ["--owner", "admin@example.com", "--name", "New", "--type", "test"]
        key = installation.told("keys", "create", *owner)["key"]
        listed = service.ask("/sandbox/v1/products", key=key).json["data"]
        assert min(product["id"] for product in listed) > MANY
        until(lambda: service.ask("/sandbox/v1/users/me", key=key).status == 200, "the mirror")


@pytest.mark.parametrize(
    ("fixture", "times"),
    [("installation", 1), ("on_postgres", 2)],
    ids=["after one was cut off", "two at once"],
)
def test_resets_of_a_lost_sandbox_leave_out_numbers_once(
    request: pytest.FixtureRequest, fixture: str, times: int
) -> None:
    either: Installation = request.getfixturevalue(fixture)
    lose(either, "sandbox", remove)
    if times == 1:
        asyncio.run(make_tables(either, SANDBOX))
    with ThreadPoolExecutor(times) as threads:
        ended = list(threads.map(lambda _: either.run("sandbox", "reset"), range(times)))
    assert "Traceback" not in "".join(done.stderr for done in ended)
    assert 0 in {done.returncode for done in ended}
    either.told("products", "export", "sandbox.ndjson", "--sandbox")
    exported = (either.directory / "sandbox.ndjson").read_bytes().splitlines()
    assert MANY < min(int(json.loads(line)["id"]) for line in exported) < 2 * MANY


@pytest.mark.parametrize(
    ("fixture", "how"), [*(("installation", how) for how in LOSSES), ("on_postgres", remove)]
)
def test_nothing_makes_another_live_database_beside_a_sandbox(
    request: pytest.FixtureRequest, fixture: str, how: Callable[[Path], None]
) -> None:
    installation: Installation = request.getfixturevalue(fixture)
    secret = installation.directory / "secret"
    (installation.data / "secret.key").rename(secret)
    place = lose(installation, "live", how)
    before = contents(installation.data)
    given = installation.having(secret_key_file=str(secret))
    require_refused(given, f"{place}, is lost", "serve", "init", "migrate")
    assert "portico init" not in installation.run("doctor").stdout
    assert contents(installation.data) == before


def test_first_start_that_was_cut_off_between_the_databases_is_repeated(
    empty: Installation,
) -> None:
    empty.data.mkdir()
    if not empty.variables:
        in_database(empty.data / "sandbox.db", WITHOUT_TABLES)
    asyncio.run(make_tables(empty, LIVE))
    empty.told("init")
    assert empty.told("migrate") == {"applied": []}


@pytest.mark.parametrize("name", ["live.db", "sandbox.db"])
def test_what_only_reads_leaves_an_emptied_file_empty(
    installation: Installation, name: str
) -> None:
    file = installation.data / name
    empty_out(file)
    for words in READING:
        done = installation.run(*words.split())
        assert (done.returncode, str(file) in done.stdout + done.stderr) == (1, True), words
        assert file.read_bytes() == b""
        assert not list(installation.directory.glob("*.*"))


def test_files_without_tables_beside_a_secret_are_no_place_for_another_installation(
    installation: Installation,
) -> None:
    for name in ("live.db", "sandbox.db"):
        leave_header(installation.data / name)
    before = contents(installation.data)
    require_refused(installation, "has the secret of a server but no database", *STARTS)
    require_refused(installation, "There is no Portico in", "backup backup.tar")
    assert contents(installation.data) == before


# A file that is moved while a server runs


def store(service: Service, **options: str) -> None:
    """Has products stored, none of which goes into the file before its log is full."""
    for number in range(KEPT):
        service.make_product(f"Kept {number}", **options)


def move(file: Path) -> Path:
    return file.rename(file.with_name("moved.db"))


def test_no_command_and_no_start_makes_a_file_in_the_place_of_one_that_is_gone(
    installation: Installation,
) -> None:
    file = installation.data / "sandbox.db"
    with installation.serving() as service:
        store(service, path="/sandbox/v1/products", key=installation.facts["keys"]["test"])
        moved = move(file)
        require_refused(installation, f"There is no {file}", "users list", "users list --sandbox")
        assert service.stop()[0] == 0
    require_refused(installation, f"{file}-wal", "serve", "migrate")
    assert not file.exists()
    moved.rename(file)
    assert in_database(file, COUNT) == KEPT


def test_new_worker_makes_no_file_in_the_place_of_one_that_is_gone(
    installation: Installation, redis: RedisServer
) -> None:
    file = installation.data / "live.db"
    shared = installation.having(valkey_url=redis.url, workers="2")
    with shared.serving() as service:
        store(service)
        moved = move(file)
        os.kill(service.workers()[0], signal.SIGKILL)
        until(lambda: f"There is no {file}" in service.text, "the refusal")
        assert not file.exists()
        moved.rename(file)
        until(lambda: len(service.workers()) == 2, "the replacement")
        assert service.ask("/v1/users/me", key=shared.key).status == 200
        service.end()
    assert in_database(file, COUNT) == KEPT


def test_server_starts_with_the_file_that_took_the_place_of_one(
    installation: Installation,
) -> None:
    file, copied = installation.data / "live.db", installation.data / "copy.db"
    with installation.serving() as service:
        in_database(file, "VACUUM INTO ?", str(copied))
        store(service)
        copied.rename(file)
        until(lambda: list(installation.data.glob("live.db-wal.lost-*")), "the log's move")
        service.stop(signal.SIGKILL)
    with installation.serving() as service:
        store(service)
        assert service.stop()[0] == 0
    assert in_database(file, COUNT) == KEPT
    assert in_database(file, "PRAGMA integrity_check") == "ok"
