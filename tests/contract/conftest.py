"""The application on both engines and both limiter stores, fresh for every test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import valkey

from busy_machine import leave_time
from driving import Api, settings_for
from servers import RedisServer
from shared_database import SharedDatabase


@pytest.fixture(params=["sqlite+memory", "postgres+redis"])
def environ(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables that choose the stores."""
    if request.param == "sqlite+memory":
        return {}
    leave_time(monkeypatch)
    redis: RedisServer = request.getfixturevalue("redis")
    with valkey.Valkey.from_url(redis.url) as client:
        client.flushdb()
    database: SharedDatabase = request.getfixturevalue("empty_database")
    return {
        "PORTICO_DATABASE_URL": database.url,
        "PORTICO_VALKEY_URL": redis.url,
    }


@pytest.fixture
async def api(environ: dict[str, str], tmp_path: Path) -> AsyncIterator[Api]:
    """The running application, with nobody in it."""
    async with Api(settings_for(tmp_path, environ)) as api:
        yield api
