"""PgBouncer between Portico and PostgreSQL, which gives each transaction the session of another."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import cast

import asyncpg
import pytest

from operating import eventually
from portico import engines
from portico.core.errors import Unavailable
from portico.data.postgres.engine import POINT_CONNECTIONS, WRITE_CONNECTIONS, PostgresDatabase
from portico.settings import load
from servers import PgBouncer, PostgresServer, pgbouncer

DROPPED = (
    "search_path,jit,random_page_cost,enable_hashjoin,enable_mergejoin,"
    "default_transaction_isolation"
)


@pytest.fixture(scope="module", params=["", DROPPED], ids=["refuses settings", "drops settings"])
def pooler(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[PgBouncer]:
    with pgbouncer(postgres, request.param) as server:
        yield server


@pytest.fixture
def urls(postgres: PostgresServer, pooler: PgBouncer) -> tuple[str, str]:
    """The way to a database through the pooler, and the one past it."""
    url = postgres.fresh_database()
    return url.replace(f":{postgres.port}/", f":{pooler.port}/"), url


@pytest.fixture
async def environments(
    urls: tuple[str, str], tmp_path: Path
) -> AsyncIterator[list[PostgresDatabase]]:
    """Both environments, which share sessions of PostgreSQL."""
    given = {"DATABASE_URL": urls[0], "DATABASE_LISTEN_URL": urls[1], "PREPARED_STATEMENTS": "off"}
    settings = load({}, {f"PORTICO_{name}": value for name, value in given.items()}, tmp_path)
    found = [
        cast(PostgresDatabase, engines.database(settings, name)) for name in ("live", "sandbox")
    ]
    for database in found:
        await database.open()
        await database.prepare()
        async with database.transaction() as tx:
            await tx.script("CREATE TABLE notices (number BIGINT)")
    yield found
    for database in found:
        await database.close()


async def test_environments_keep_apart_whoever_had_the_session_before(
    environments: list[PostgresDatabase], urls: tuple[str, str]
) -> None:
    async def use(database: PostgresDatabase, number: int, word: str) -> None:
        row = {"number": number, "word": word}
        async with database.transaction() as tx:
            await tx.run("INSERT INTO words VALUES (:number, :word)", row)
        found = await database.all("SELECT word FROM words WHERE number = :number", row)
        assert [tuple(one) for one in found] == [(word,)]
        others = "SELECT count(*) FROM words WHERE word <> :word"
        assert await database.snapshot(lambda reader: reader.one(others, row)) == (0,)
        assert await database.one("SELECT current_setting('jit')") == ("off",)

    for database in environments:
        async with database.transaction() as tx:
            await tx.script("CREATE TABLE words (number BIGINT, word TEXT)")
    await asyncio.gather(
        *(
            use(database, number, word)
            for number in range(2 * WRITE_CONNECTIONS)
            for database, word in zip(environments, ("live", "sandbox"), strict=True)
        )
    )
    connection = await asyncpg.connect(urls[1])
    schemas = await connection.fetch("SELECT DISTINCT schemaname FROM pg_tables")
    await connection.close()
    found = {row[0] for row in schemas} - {"pg_catalog", "information_schema"}
    assert found == {"portico_live", "portico_sandbox"}


async def test_notices_come_past_the_pooler(
    environments: list[PostgresDatabase], urls: tuple[str, str]
) -> None:
    live, _ = environments
    unheard = PostgresDatabase(urls[0], "portico_live", prepared=False)
    await unheard.open()
    await eventually(lambda: live.version() == live.version(), "the connection that listens")
    assert unheard.version() != unheard.version()  # so that nothing is kept
    before = live.version()
    connection = await asyncpg.connect(urls[1])
    await connection.execute("SELECT pg_notify('portico_live', 'users')")
    await connection.close()
    await eventually(lambda: live.version() != before, "the notice")
    await unheard.close()


async def test_a_pooler_that_keeps_no_prepared_statements_is_told(urls: tuple[str, str]) -> None:
    database = PostgresDatabase(urls[0], "portico_live")

    async def ask() -> None:
        for _ in range(100):  # until one statement gets the session of another
            at_once = (database.one("SELECT 1") for _ in range(100 * POINT_CONNECTIONS))
            await asyncio.gather(*at_once)

    await database.open()
    with pytest.raises(Unavailable, match="keeps no prepared statements"):
        await ask()
    await database.close()


async def test_an_address_for_notices_that_leads_elsewhere_is_refused(
    urls: tuple[str, str], postgres: PostgresServer
) -> None:
    for url, why in (
        (urls[0], "name PostgreSQL itself"),
        (postgres.fresh_database(), "another database than database_url"),
    ):
        database = PostgresDatabase(urls[0], "portico_live", listen_url=url, prepared=False)
        with pytest.raises(Unavailable, match=why):
            await database.open()
        await database.close()
