"""Stores that do not answer: 503 with Retry-After, never a 500, and recovery by itself."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import asyncpg
import httpx
import pytest

from driving import Api, refused, settings_for
from servers import PostgresServer, redis_server

LAMP = {"name": "Lamp", "category": "light", "price": 1}


@pytest.fixture
async def sqlite_api(tmp_path: Path) -> AsyncIterator[Api]:
    """The application on SQLite and memory."""
    api = Api(settings_for(tmp_path, {}))
    await api.start()
    yield api
    await api.aclose()
    await api.stop()


def unavailable(answer: httpx.Response) -> None:
    refused(answer, 503, "SERVICE_UNAVAILABLE")
    assert int(answer.headers["retry-after"]) >= 1


async def test_a_database_that_another_process_locks_refuses_writes_and_still_reads(
    sqlite_api: Api, tmp_path: Path
) -> None:
    api = sqlite_api
    editor = await api.caller("editor")
    product = await api.product()
    other = apsw.Connection(str(tmp_path / "live.db"))
    other.execute("BEGIN IMMEDIATE").fetchall()
    writes = [asyncio.create_task(editor.post("/products", json=LAMP)) for _ in range(5)]
    slowest = 0.0
    while not all(write.done() for write in writes):
        started = time.perf_counter()
        assert (await editor.get(f"/products/{product.id}")).status_code == 200
        slowest = max(slowest, time.perf_counter() - started)
        await asyncio.sleep(0.05)
    for write in writes:
        unavailable(await write)
    assert slowest < 3, "a read waited for the locked writer"
    other.execute("ROLLBACK").fetchall()
    other.close()
    assert (await editor.get("/products?status=draft")).json()["data"] == []
    assert (await editor.post("/products", json=LAMP)).status_code == 201


async def test_a_short_lock_only_delays_a_write(sqlite_api: Api, tmp_path: Path) -> None:
    editor = await sqlite_api.caller("editor")
    other = apsw.Connection(str(tmp_path / "live.db"))
    other.execute("BEGIN IMMEDIATE").fetchall()
    write = asyncio.create_task(editor.post("/products", json=LAMP))
    await asyncio.sleep(0.1)
    assert not write.done()
    other.execute("COMMIT").fetchall()
    other.close()
    assert (await write).status_code == 201


async def test_lost_connections_to_postgresql_are_made_again(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.fresh_database()
    api = Api(settings_for(tmp_path, {"PORTICO_DATABASE_URL": url}))
    await api.start()
    editor = await api.caller("editor")
    product = await api.product()
    other = await asyncpg.connect(url)
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    made = 0
    for _ in range(3):
        await other.execute(cut)
        answers = await asyncio.gather(
            *(editor.post("/products", json=LAMP) for _ in range(10)),
            *(editor.get(f"/products/{product.id}") for _ in range(10)),
            other.execute(cut),
        )
        for answer in answers[:20]:
            if answer.status_code not in (200, 201):
                unavailable(answer)
        made += sum(answer.status_code == 201 for answer in answers[:20])
    await other.close()
    await recovered(editor)
    total = (await editor.get("/products?status=draft")).json()["pagination"]["total_items"]
    assert total >= made
    assert (await editor.post("/products", json=LAMP)).status_code == 201
    await api.aclose()
    await api.stop()


async def test_without_the_store_of_its_limits_nothing_is_answered_and_nothing_done(
    tmp_path: Path,
) -> None:
    with redis_server() as redis:
        api = Api(settings_for(tmp_path, {"PORTICO_VALKEY_URL": redis.url}))
        await api.start()
        editor = await api.caller("editor")
        assert (await editor.get("/users/me")).status_code == 200
        redis.stop()
        async with api.unchanged():
            unavailable(await editor.post("/products", json=LAMP))
            unavailable(await editor.get("/users/me"))
            unavailable(await api.stranger().get("/users/me"))
        redis.start()
        await recovered(editor)
        assert (await editor.post("/products", json=LAMP)).status_code == 201
        await api.aclose()
        await api.stop()


async def recovered(client: httpx.AsyncClient) -> None:
    for _ in range(1_000):
        if (await client.get("/users/me")).status_code == 200:
            return
        await asyncio.sleep(0.005)
    pytest.fail("the service did not recover by itself")
