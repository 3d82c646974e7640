"""The application on both engines and both limiter stores, fresh for every test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import valkey

from driving import Api, settings_for
from operating import PATIENCE_SECONDS
from servers import RedisServer
from shared_database import SharedDatabase


@pytest.fixture(params=["sqlite+memory", "postgres+redis"])
def environ(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables that choose the stores."""
    if request.param == "sqlite+memory":
        return {}
    for module in ("valkey", "valkey_client"):  # for a second, a busy machine keeps silent too
        monkeypatch.setattr(f"portico.state.{module}.ANSWER_SECONDS", PATIENCE_SECONDS)
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
