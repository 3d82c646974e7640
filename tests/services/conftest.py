"""The application with the services of `declared_services`."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import valkey

from busy_machine import leave_time
from declared_services import DECLARED
from driving import Api, settings_for
from portico.core.plans import Plan
from portico.core.scopes import PERMISSIONS
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
    return {"PORTICO_DATABASE_URL": database.url, "PORTICO_VALKEY_URL": redis.url}


@pytest.fixture(autouse=True)
def _only_built_in() -> Iterator[None]:
    """Leaves nothing declared to other tests."""
    yield
    PERMISSIONS.only_built_in()


@pytest.fixture
def declared() -> str:
    """The text of `portico.toml`."""
    return DECLARED


@pytest.fixture
async def api(environ: dict[str, str], declared: str, tmp_path: Path) -> AsyncIterator[Api]:
    """The running application, with nobody in it."""
    (tmp_path / "portico.toml").write_text(declared)
    settings = settings_for(tmp_path, environ)
    plans = {**settings.plans, "monthly": Plan("monthly", 1_000, 1_000, 20)}
    async with Api(replace(settings, plans=plans)) as api:
        yield api
