"""A server that does not migrate: it listens, and serves once somebody has migrated."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from driving import Api, FakeClock, InProcess, settings_for
from operating import eventually
from portico.app import Portico
from portico.data.migrate import MigrationError
from portico.server import Server


class Waiting:
    """Waits for a second of the test's."""

    def __init__(self) -> None:
        self.looks = asyncio.Semaphore(0)
        self.looked = asyncio.Event()

    async def __call__(self, _seconds: float) -> None:
        self.looked.set()
        await self.looks.acquire()

    async def again(self) -> None:
        """Lets it look once more, and returns when it rests again."""
        self.looked.clear()
        self.looks.release()
        await self.looked.wait()


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The application on databases without any table."""
    api = Api(settings_for(tmp_path, {}))
    api.portico = Portico(api.settings, clock=FakeClock(), create=True)
    await api.portico.connect()
    api.server = Server(api.portico)
    api.application = api.server.pipeline
    yield api
    await api.stop()


async def asked(api: Api, path: str, method: str = "GET") -> httpx.Response:
    """The answer to one request."""
    return await InProcess(api).exchange(method, path, [("host", "localhost")])


async def migrated(api: Api) -> None:
    """Somebody else migrates."""
    other = Portico(api.settings, clock=FakeClock())
    await other.open()
    await other.close()


async def test_until_somebody_migrates_it_is_healthy_not_ready_and_answers_503(api: Api) -> None:
    waiting = Waiting()
    starting = asyncio.create_task(api.server.start_once_migrated(waiting))
    await waiting.looked.wait()
    for _ in range(2):
        assert (await asked(api, "/healthz")).status_code == 200
        ready = await asked(api, "/readyz")
        assert ready.status_code == 503
        assert ready.headers["retry-after"] == "1"
        assert ready.json()["ready"] is False
        assert ready.json()["stores"] == {"database": "behind", "limiter": "ok"}
        for method, path in (
            ("GET", "/v1/products"),
            ("OPTIONS", "/v1/products"),
            ("POST", "/auth/token"),
            ("GET", "/dashboard"),
        ):
            refused = await asked(api, path, method)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "5"), path
        assert (await asked(api, "/metrics")).status_code == 200
        await waiting.again()
    await migrated(api)
    waiting.looks.release()
    await starting

    async def is_well() -> bool:
        ready = await asked(api, "/readyz")
        assert ready.status_code == 200
        return bool(ready.json()["stores"]["database"] == "ok")

    await eventually(is_well, "the database's word")
    assert (await asked(api, "/v1/products")).status_code == 401
    published = (await asked(api, "/auth/.well-known/jwks.json")).json()["keys"]
    assert len(published) == 1, "it has a key to sign with"
    assert any(runs.job == "flush" for runs in api.server._runner.runs), "its jobs run"  # noqa: SLF001 - they show nowhere else yet


async def test_it_ends_where_a_newer_program_has_migrated(api: Api) -> None:
    waiting = Waiting()
    starting = asyncio.create_task(api.server.start_once_migrated(waiting))
    await waiting.looked.wait()
    await migrated(api)
    async with api.live.db.transaction() as tx:
        await tx.run("INSERT INTO schema_migrations VALUES (9999, 'of_tomorrow', 'x', 1, NULL)")
    waiting.looks.release()
    with pytest.raises(MigrationError, match="newer Portico"):
        await starting
    assert (await asked(api, "/readyz")).status_code == 503
