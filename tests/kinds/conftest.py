"""The application with kinds of its own, from files that a test writes."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import valkey

from driving import Api, settings_for
from portico.core.events import EVENTS
from portico.core.scopes import PERMISSIONS
from servers import RedisServer
from shared_database import SharedDatabase

FILES = Path(__file__).with_name("files")


@pytest.fixture(autouse=True)
def _forget_kinds() -> Iterator[None]:
    """Other tests of this process have Portico's own scopes and events alone."""
    yield
    PERMISSIONS.only_built_in()
    EVENTS.only_built_in()


@pytest.fixture(params=["sqlite", "postgres"])
def environ(request: pytest.FixtureRequest) -> dict[str, str]:
    """The variables that choose the stores, and the directory of the files."""
    kinds = {"PORTICO_KINDS": str(FILES)}
    if request.param == "sqlite":
        return kinds
    redis: RedisServer = request.getfixturevalue("redis")
    with valkey.Valkey.from_url(redis.url) as client:
        client.flushdb()
    database: SharedDatabase = request.getfixturevalue("empty_database")
    return {"PORTICO_DATABASE_URL": database.url, "PORTICO_VALKEY_URL": redis.url, **kinds}


@pytest.fixture
async def _tables(environ: dict[str, str], request: pytest.FixtureRequest) -> AsyncIterator[None]:
    """Drops the tables of kinds that are left in the shared database."""
    shared = "PORTICO_DATABASE_URL" in environ
    database = request.getfixturevalue("empty_database") if shared else None
    yield
    if database is not None:
        await database.drop_kinds()


@pytest.fixture
async def api(environ: dict[str, str], _tables: None, tmp_path: Path) -> AsyncIterator[Api]:
    """The running application, with nobody in it."""
    async with Api(settings_for(tmp_path, environ)) as api:
        yield api
