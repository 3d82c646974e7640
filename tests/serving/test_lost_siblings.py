"""One of the two databases is lost: nothing makes an empty one in its place without a word."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import asyncpg
import pytest

from operating import Installation, contents, copy_of, in_database, until
from portico.app import system_clock
from portico.data.migrate import migrate
from portico.engines import LIVE, SANDBOX, database
from portico.settings import load
from servers import PostgresServer

READING = (
    ["doctor"],
    ["keys", "list"],
    ["users", "list"],
    ["users", "list", "--sandbox"],
    ["audit"],
    ["migrate", "--check"],
    ["products", "export", "products.csv"],
    ["backup", "backup.tar"],
)
STARTS = (["serve"], ["serve", "--no-migrate"], ["init"], ["migrate"], ["migrate", "--check"])
SCHEMAS = "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'portico_%' ORDER BY 1"
MANY = 1_000_000_000


def remove(file: Path) -> None:
    file.unlink()


def empty_out(file: Path) -> None:
    file.write_bytes(b"")


def leave_header(file: Path) -> None:
    file.unlink()
    in_database(file, "PRAGMA journal_mode=WAL")


def on_postgres(installation: Installation, sql: str) -> Sequence[str]:
    """The first column of what a statement gives."""

    async def run() -> Sequence[str]:
        connection = await asyncpg.connect(installation.variables["database_url"])
        try:
            return [row[0] for row in await connection.fetch(sql)]
        finally:
            await connection.close()

    return asyncio.run(run())


def require_refused(installation: Installation, place: str) -> None:
    for words in STARTS:
        code, line = installation.refused(*words)
        assert (code, f"{place}, is lost" in line) == (1, True), (words, line)
        assert "restore a backup" in line


@pytest.fixture
def shared(postgres: PostgresServer, tmp_path: Path) -> Installation:
    """A prepared installation on PostgreSQL, with a secret of its directory's own."""
    empty = Installation(tmp_path).having(database_url=postgres.fresh_database())
    return Installation(tmp_path, empty.variables, empty.told("init"), empty.port)


@pytest.fixture(params=[remove, empty_out, leave_header, "DROP SCHEMA portico_sandbox CASCADE"])
def without_sandbox(
    request: pytest.FixtureRequest, first_installation: Installation, tmp_path: Path
) -> Iterator[tuple[Installation, str]]:
    """An installation that has lost its sandbox in each way, and where that was."""
    if isinstance(request.param, str):
        installation: Installation = request.getfixturevalue("shared")
        on_postgres(installation, request.param)
        yield installation, "portico_sandbox"
        return
    installation = copy_of(first_installation, tmp_path)
    file = installation.data / "sandbox.db"
    request.param(file)
    yield installation, str(file)


def state(installation: Installation) -> object:
    schemas = on_postgres(installation, SCHEMAS) if installation.variables else None
    return contents(installation.data), schemas


def test_nothing_makes_another_sandbox_unasked(without_sandbox: tuple[Installation, str]) -> None:
    installation, place = without_sandbox
    before = state(installation)
    require_refused(installation, place)
    assert "portico sandbox reset" in installation.refused("serve")[1]
    assert state(installation) == before


def test_a_reset_makes_another_sandbox_with_numbers_of_its_own(
    without_sandbox: tuple[Installation, str],
) -> None:
    installation, _ = without_sandbox
    filled = installation.told("sandbox", "reset")
    assert (filled["users"] > 0, filled["products"] > 0, filled["mirrors"]) == (True, True, 0)
    with installation.serving() as service:
        assert service.ask("/v1/users/me", key=installation.key).status == 200
        owner = ["--owner", "admin@example.com", "--name", "New", "--type", "test"]
        key = installation.told("keys", "create", *owner)["key"]
        listed = service.ask("/sandbox/v1/products", key=key).json["data"]
        assert min(product["id"] for product in listed) > MANY
        until(lambda: service.ask("/sandbox/v1/users/me", key=key).status == 200, "the mirror")


def test_a_reset_that_was_ended_between_tables_and_numbers_is_repeated_whole(
    without_sandbox: tuple[Installation, str],
) -> None:
    installation, _ = without_sandbox
    asyncio.run(make_tables(installation, SANDBOX))
    installation.told("sandbox", "reset")
    assert MANY < lowest_product(installation) < 2 * MANY


def test_two_resets_at_once_leave_out_numbers_once(
    without_sandbox: tuple[Installation, str],
) -> None:
    installation, _ = without_sandbox
    with ThreadPoolExecutor(2) as both:
        ended = list(both.map(lambda _: installation.run("sandbox", "reset"), range(2)))
    assert "Traceback" not in "".join(done.stderr for done in ended)
    assert 0 in {done.returncode for done in ended}
    assert MANY < lowest_product(installation) < 2 * MANY


def lowest_product(installation: Installation) -> int:
    file = installation.directory / "sandbox.ndjson"
    done = installation.run("products", "export", str(file), "--sandbox")
    assert done.returncode == 0, done.stderr
    return min(int(json.loads(line)["id"]) for line in file.read_bytes().splitlines())


async def make_tables(installation: Installation, environment: str) -> None:
    settings = load({}, installation.environment, installation.directory)
    db = database(settings, environment, create=True)
    await db.open()
    try:
        await migrate(db, system_clock)
    finally:
        await db.close()


@pytest.mark.parametrize("lose", [remove, empty_out, leave_header])
def test_nothing_makes_another_live_database_beside_a_sandbox(
    installation: Installation, lose: Callable[[Path], None]
) -> None:
    secret = installation.directory / "secret"
    (installation.data / "secret.key").rename(secret)
    file = installation.data / "live.db"
    lose(file)
    before = contents(installation.data)
    require_refused(installation.having(secret_key_file=str(secret)), str(file))
    assert contents(installation.data) == before


def test_nothing_makes_another_live_schema_beside_that_of_a_sandbox(shared: Installation) -> None:
    on_postgres(shared, "DROP SCHEMA portico_live CASCADE")
    before = state(shared)
    require_refused(shared, "portico_live")
    assert state(shared) == before


@pytest.mark.parametrize("command", ["init", "migrate"])
def test_a_first_start_that_was_cut_off_between_the_databases_is_repeated(
    empty: Installation, command: str
) -> None:
    empty.data.mkdir()
    if not empty.variables:
        in_database(empty.data / "sandbox.db", "PRAGMA journal_mode=WAL")
    asyncio.run(make_tables(empty, LIVE))
    empty.told(command)
    assert empty.told("migrate") == {"applied": []}


def test_a_first_start_that_was_cut_off_after_the_first_file_is_repeated(tmp_path: Path) -> None:
    first = Installation(tmp_path)
    first.data.mkdir()
    in_database(first.data / "live.db", "PRAGMA journal_mode=WAL")
    assert first.told("init")["keys"]["test"]


@pytest.mark.parametrize("words", READING, ids=" ".join)
@pytest.mark.parametrize("name", ["live.db", "sandbox.db"])
def test_what_only_reads_leaves_an_emptied_file_empty(
    installation: Installation, name: str, words: list[str]
) -> None:
    file = installation.data / name
    empty_out(file)
    done = installation.run(*words)
    assert done.returncode == 1
    assert str(file) in done.stdout + done.stderr
    assert done.stderr.count("\n") == (0 if words == ["doctor"] else 1)
    assert file.read_bytes() == b""
    assert not list(installation.directory.glob("*.*"))


def test_files_without_tables_beside_a_secret_are_no_place_for_another_installation(
    installation: Installation,
) -> None:
    for name in ("live.db", "sandbox.db"):
        leave_header(installation.data / name)
    before = contents(installation.data)
    for words in STARTS:
        code, line = installation.refused(*words)
        assert (code, "has the secret of a server but no database" in line) == (1, True)
    code, line = installation.refused("backup", "backup.tar")
    assert (code, "There is no Portico in" in line, "restore a backup" in line) == (1, True, True)
    assert "portico init" not in line
    assert contents(installation.data) == before


def test_no_backup_is_made_of_one_database(without_sandbox: tuple[Installation, str]) -> None:
    installation, place = without_sandbox
    code, line = installation.refused("backup", "backup.tar")
    assert (code, f"{place}, is lost" in line) == (1, True)
    assert not (installation.directory / "backup.tar").exists()


@pytest.mark.parametrize("lose", [remove, empty_out, leave_header])
def test_doctor_advises_no_second_installation_beside_a_secret(
    installation: Installation, lose: Callable[[Path], None]
) -> None:
    lose(installation.data / "live.db")
    done = installation.run("doctor")
    assert (done.returncode, "restore a backup" in done.stdout) == (1, True)
    assert "portico init" not in done.stdout
