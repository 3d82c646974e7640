"""The application on both engines and both limiter stores, fresh for every test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import NamedTuple, cast

import asyncpg
import pytest
import valkey

from driving import Api, settings_for
from servers import PostgresServer, RedisServer

EMPTY = """
DO $$
DECLARE
    one record;
BEGIN
    -- No trigger counts, tells or refuses, and no reference is looked up.
    PERFORM set_config('session_replication_role', 'replica', true);
    FOR one IN SELECT schemaname, tablename FROM pg_tables WHERE schemaname LIKE 'portico_%'
        AND tablename NOT IN ('schema_migrations', 'signing_keys')
    LOOP
        EXECUTE format('DELETE FROM %I.%I', one.schemaname, one.tablename);
    END LOOP;
    FOR one IN SELECT schemaname, sequencename FROM pg_sequences
        WHERE schemaname LIKE 'portico_%' AND last_value IS NOT NULL
    LOOP
        PERFORM setval(format('%I.%I', one.schemaname, one.sequencename)::regclass, 1, false)
            WHERE one.sequencename NOT LIKE 'signing_keys%';
    END LOOP;
END $$"""
"""Signing keys stay: nothing refers to them, and to make one takes a tenth of a second. Deleting a
few rows is ten times as quick as truncating every table."""


class Shared(NamedTuple):
    """A PostgreSQL database that many tests use, one after the other."""

    url: str
    empty: Callable[[], object]
    """Removes what tests left."""


@pytest.fixture(scope="session")
def contract_database(postgres: PostgresServer) -> Iterator[Shared]:
    """One PostgreSQL database for all: emptying it is quicker than making another."""
    url = postgres.fresh_database()
    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(url))
    yield Shared(url, lambda: loop.run_until_complete(connection.execute(EMPTY)))
    loop.run_until_complete(connection.close())
    loop.close()


@pytest.fixture(params=["sqlite+memory", "postgres+redis"])
def environ(request: pytest.FixtureRequest) -> dict[str, str]:
    """The variables that choose the stores."""
    if request.param == "sqlite+memory":
        return {}
    redis = cast(RedisServer, request.getfixturevalue("redis"))
    with valkey.Valkey.from_url(redis.url) as client:
        client.flushdb()
    database: Shared = request.getfixturevalue("contract_database")
    database.empty()
    return {
        "PORTICO_DATABASE_URL": database.url,
        "PORTICO_VALKEY_URL": redis.url,
    }


@pytest.fixture
async def api(environ: dict[str, str], tmp_path: Path) -> AsyncIterator[Api]:
    """The running application, with nobody in it."""
    api = Api(settings_for(tmp_path, environ))
    await api.start()
    yield api
    await api.aclose()
    await api.stop()
