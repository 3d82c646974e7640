"""Installations to serve: the first is prepared once, and every test has a copy of its own."""

from pathlib import Path

import pytest

from operating import Installation, copy_of
from servers import PostgresServer


@pytest.fixture(scope="session")
def first_installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """What `portico init` makes."""
    empty = Installation(tmp_path_factory.mktemp("prepared"))
    return Installation(empty.directory, facts=empty.told("init"))


@pytest.fixture
def installation(first_installation: Installation, tmp_path: Path) -> Installation:
    """A prepared installation on SQLite, whose first admin's keys are known."""
    return copy_of(first_installation, tmp_path)


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest, postgres: PostgresServer, tmp_path: Path) -> Installation:
    """An installation that nothing has prepared, on each engine."""
    installation = Installation(tmp_path)
    if request.param == "sqlite":
        return installation
    return installation.having(database_url=postgres.fresh_database())
