"""The application in process, and a browser without a screen."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from driving import Api, settings_for
from shared_database import SharedDatabase


@pytest.fixture
def environ() -> dict[str, str]:
    """Variables of the application: SQLite and counters in memory, unless a file says else."""
    return {}


@pytest.fixture(params=["sqlite", "postgres"])
def each_database(request: pytest.FixtureRequest) -> dict[str, str]:
    """Variables that choose an empty database of either engine."""
    if request.param == "sqlite":
        return {}
    database: SharedDatabase = request.getfixturevalue("empty_database")
    return {"PORTICO_DATABASE_URL": database.url}


@pytest.fixture
async def api(environ: dict[str, str], tmp_path: Path) -> AsyncIterator[Api]:
    """The running application, with nobody in it."""
    async with Api(settings_for(tmp_path, environ)) as api:
        yield api
