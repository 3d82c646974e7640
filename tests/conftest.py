"""The servers that tests share. A test that stops its server starts its own, from `servers`."""

from collections.abc import Iterator

import pytest

from servers import PostgresServer, RedisServer, postgres_server, redis_server


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL server; every test takes a `fresh_database()` of it."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisServer]:
    """A running Redis or Valkey server; tests keep apart by the names of their callers."""
    with redis_server() as server:
        yield server
