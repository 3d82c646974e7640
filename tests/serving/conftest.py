"""Installations to serve: the first is prepared once, and every test has a copy of its own."""

from pathlib import Path

import pytest

from operating import Installation, copy_of
from servers import PostgresServer


@pytest.fixture(scope="session")
def first_installation(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """What `portico init` makes."""
    return Installation(tmp_path_factory.mktemp("prepared")).prepared()


@pytest.fixture(scope="session")
def first_on_postgres(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Installation:
    """What `portico init` makes on PostgreSQL."""
    empty = Installation(tmp_path_factory.mktemp("on_postgres"))
    return empty.having(database_url=postgres.fresh_database()).prepared()


@pytest.fixture
def installation(first_installation: Installation, tmp_path: Path) -> Installation:
    """A prepared installation on SQLite, whose first admin's keys are known."""
    return copy_of(first_installation, tmp_path)


@pytest.fixture
def on_postgres(
    first_on_postgres: Installation, postgres: PostgresServer, tmp_path: Path
) -> Installation:
    """A prepared installation on PostgreSQL."""
    url = postgres.fresh_database(first_on_postgres.variables["database_url"])
    return copy_of(first_on_postgres, tmp_path).having(database_url=url)


@pytest.fixture(params=["installation", "on_postgres"], ids=["sqlite", "postgres"])
def either(request: pytest.FixtureRequest) -> Installation:
    """A prepared installation on each engine."""
    made: Installation = request.getfixturevalue(request.param)
    return made


@pytest.fixture(params=["sqlite", "postgres"])
def empty(request: pytest.FixtureRequest, postgres: PostgresServer, tmp_path: Path) -> Installation:
    """An installation that nothing has prepared, on each engine."""
    installation = Installation(tmp_path)
    if request.param == "sqlite":
        return installation
    return installation.having(database_url=postgres.fresh_database())


@pytest.fixture
def archive(installation: Installation) -> Path:
    """A backup of the installation on SQLite."""
    path = installation.directory / "backup.tar"
    installation.told("backup", str(path))
    return path


@pytest.fixture
def restored(first_installation: Installation, tmp_path: Path) -> Installation:
    """Where a backup of it can be restored to: nothing is there yet."""
    (tmp_path / "restored").mkdir()
    return Installation(tmp_path / "restored", facts=first_installation.facts)
