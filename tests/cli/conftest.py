"""Portico's command line, beside its running server and without.

The servers run for all tests, so every test makes users, keys and products of its own.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from beside import Running, prepared
from operating import Installation, copy_of
from servers import PostgresServer

LOOPBACK = "127.0.0.0/8"
"""Where the tests' own receivers of webhooks are."""


@pytest.fixture(scope="session")
def first_installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """A prepared data directory on SQLite."""
    return prepared(tmp_path_factory.mktemp("prepared"))


@pytest.fixture
def installation(first_installation: Installation, tmp_path: Path) -> Installation:
    """A copy of it for one test, without a server."""
    return copy_of(first_installation, tmp_path)


@contextmanager
def _running(installation: Installation) -> Iterator[Running]:
    with installation.serving() as service:
        yield Running(installation, service)


@pytest.fixture(scope="session")
def on_sqlite(
    first_installation: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """A server on SQLite."""
    directory = tmp_path_factory.mktemp("sqlite")
    shutil.copy(first_installation.directory / "portico.toml", directory)
    installation = copy_of(first_installation, directory).having(webhooks_allow=LOOPBACK)
    with _running(installation) as running:
        yield running


@pytest.fixture(scope="session")
def on_postgres(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """A server on PostgreSQL."""
    directory = tmp_path_factory.mktemp("postgres")
    database_url = postgres.fresh_database()
    installation = prepared(directory, database_url=database_url, webhooks_allow=LOOPBACK)
    with _running(installation) as running:
        yield running


@pytest.fixture
def running(on_sqlite: Running) -> Running:
    """A server, where the storage does not matter."""
    return on_sqlite


@pytest.fixture
def laptop(running: Running, tmp_path: Path) -> Installation:
    """A directory with nothing in it, whose variables name the API."""
    return Installation(tmp_path).having(
        base_url=f"https://localhost:{running.installation.port}/v1",
        api_key=running.installation.key,
        ca=str(running.installation.data / "tls/ca.pem"),
    )


@pytest.fixture(params=["on_sqlite", "on_postgres"])
def on_each(request: pytest.FixtureRequest) -> Running:
    """A server on each engine."""
    running: Running = request.getfixturevalue(request.param)
    return running
