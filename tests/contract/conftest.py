"""The application on both engines and both limiter stores, fresh for every test."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest
import valkey

from driving import Api, settings_for
from servers import PostgresServer, RedisServer

EMPTY = """
TRUNCATE users, products, product_words, api_keys, rate_counters, list_counts, oauth_clients,
    grants, authorization_codes, tokens, sessions, known_addresses, email_tokens, daily_use,
    idempotency_keys
    RESTART IDENTITY;
ALTER TABLE audit DISABLE TRIGGER USER;
TRUNCATE audit RESTART IDENTITY;
ALTER TABLE audit ENABLE TRIGGER USER"""
"""Signing keys stay: nothing refers to them, and to make one takes a tenth of a second."""


@pytest.fixture(scope="session")
def contract_database(postgres: PostgresServer) -> str:
    """One PostgreSQL database for all: emptying it is quicker than making another."""
    return postgres.fresh_database()


@pytest.fixture(params=["sqlite+memory", "postgres+redis"])
def environ(request: pytest.FixtureRequest) -> dict[str, str]:
    """The variables that choose the stores."""
    if request.param == "sqlite+memory":
        return {}
    redis = cast(RedisServer, request.getfixturevalue("redis"))
    with valkey.Valkey.from_url(redis.url) as client:
        client.flushdb()
    return {
        "PORTICO_DATABASE_URL": request.getfixturevalue("contract_database"),
        "PORTICO_VALKEY_URL": redis.url,
    }


@pytest.fixture
async def api(environ: dict[str, str], tmp_path: Path) -> AsyncIterator[Api]:
    """The running application, with nobody in it."""
    api = Api(settings_for(tmp_path, environ))
    await api.start()
    if environ:
        for environment in api.portico.environments:
            async with environment.db.transaction() as tx:
                await tx.script(EMPTY)
    yield api
    await api.aclose()
    await api.stop()
