"""`/readyz`: whether to send requests here, how the stores are, and what it costs them to ask."""

import asyncio
import socket
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import httpx

from busy_machine import within
from driving import Api, InProcess, settings_for
from operating import eventually
from portico.app import Portico
from portico.core.errors import Unavailable
from portico.data.postgres.engine import FULL_SECONDS
from portico.features.operations.endpoints import PROBE_PERIOD, PROBE_SECONDS, Probe
from portico.server import Server
from servers import PostgresServer, RedisServer, redis_server

WELL = {"ready": True, "stores": {"database": "ok", "limiter": "ok"}}


class Store:
    """Something to ask, which counts how often it was."""

    def __init__(self) -> None:
        self.asked = 0
        self.now = 1000.0
        self.error: Exception | None = None
        self.thawed = asyncio.Event()
        self.thawed.set()

    async def ask(self) -> None:
        self.asked += 1
        await self.thawed.wait()
        if self.error:
            raise self.error

    def probe(self) -> Probe:
        return Probe(self.ask, lambda: self.now)


async def readiness(api: Api) -> httpx.Response:
    """What `/readyz` answers."""
    return await InProcess(api).exchange("GET", "/readyz", [])


async def test_however_many_ask_a_store_is_asked_once_a_period() -> None:
    store = Store()
    probe = store.probe()
    assert await asyncio.gather(*(probe.state() for _ in range(50))) == ["ok"] * 50
    store.now += PROBE_PERIOD - 0.01
    assert await probe.state() == "ok"
    assert store.asked == 1
    store.now += 0.01
    store.error = Unavailable("It is full.", why="full")
    assert await probe.state() == "full"
    assert store.asked == 2


async def test_store_that_hangs_is_silent_and_not_asked_again_until_it_answers() -> None:
    store = Store()
    probe = store.probe()
    store.thawed.clear()
    store.now += 1
    waiting = asyncio.ensure_future(probe.state())
    await asyncio.sleep(0)
    store.now += 10 * PROBE_SECONDS
    with within(PROBE_SECONDS / 2):
        assert [await probe.state() for _ in range(3)] == ["silent"] * 3
    assert store.asked == 1
    store.thawed.set()
    assert await waiting == "ok"
    assert await probe.state() == "ok"
    assert store.asked == 2


async def test_process_that_is_about_to_stop_is_not_ready_and_still_serves(
    tmp_path: Path,
) -> None:
    async with Api(settings_for(tmp_path, {})) as api:
        ready = await readiness(api)
        assert (ready.status_code, ready.json()) == (200, WELL)
        api.server.leave()
        leaving = await readiness(api)
        assert (leaving.status_code, leaving.json()) == (503, {**WELL, "ready": False})
        assert leaving.headers["retry-after"] == "1"
        assert (await InProcess(api).exchange("GET", "/healthz", [])).status_code == 200


async def test_read_only_file_is_told(tmp_path: Path) -> None:
    async with Api(settings_for(tmp_path, {})) as api:
        writer: apsw.Connection = api.live.db._writer  # type: ignore[attr-defined]  # noqa: SLF001 - root may write any file
        writer.execute("PRAGMA query_only = on")
        answer = await readiness(api)
        assert answer.status_code == 200
        assert answer.json()["stores"] == {"database": "read_only", "limiter": "ok"}
        writer.execute("PRAGMA query_only = off")


def replicating(server: RedisServer, *of: str) -> None:
    """Makes a server a replica, or its own primary again."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(f"REPLICAOF {' '.join(of)}\r\n".encode())
        assert connection.recv(64).startswith(b"+OK")


async def test_stores_that_answer_and_take_no_writes_are_told(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.fresh_database()
    with redis_server() as redis:
        stores: dict[str, Any] = {"PORTICO_DATABASE_URL": url, "PORTICO_VALKEY_URL": redis.url}
        before = Portico(settings_for(tmp_path, stores))
        await before.open()
        await before.close()
        stores["PORTICO_DATABASE_URL"] = f"{url}?default_transaction_read_only=on"
        portico = Portico(settings_for(tmp_path, stores))
        await portico.connect()
        replicating(redis, "127.0.0.1", "1")
        api = Api(settings_for(tmp_path, stores))
        api.application = Server(portico).pipeline
        answer = await readiness(api)
        assert answer.status_code == 200
        assert answer.json()["stores"] == {"database": "read_only", "limiter": "read_only"}
        replicating(redis, "NO", "ONE")
        await portico.close()


HAS_NO_ROOM = """
CREATE FUNCTION has_no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END $$;
CREATE TRIGGER has_no_room BEFORE INSERT ON products FOR EACH ROW EXECUTE FUNCTION has_no_room()"""


async def test_full_disk_of_postgresql_is_told_though_small_writes_find_room(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.fresh_database()
    async with Api(settings_for(tmp_path, {"PORTICO_DATABASE_URL": url})) as api:
        now = 1000.0
        database: Any = api.live.db
        database._clock = lambda: now  # noqa: SLF001 - those of real servers are nobody's to move
        client = await api.caller()
        product = {"name": "Lamp", "category": "light", "price": 1}
        assert (await client.post("/products", json=product)).status_code == 201
        assert (await readiness(api)).json() == WELL
        async with database.transaction() as tx:
            await tx.script(HAS_NO_ROOM)
        assert (await client.post("/products", json=product)).status_code == 503
        told = await eventually(partial(told_otherwise, api, WELL), "another answer")
        assert told == {"ready": True, "stores": {"database": "full", "limiter": "ok"}}
        now += FULL_SECONDS
        assert await eventually(partial(told_otherwise, api, told), "another answer") == WELL


async def told_otherwise(api: Api, before: Any) -> Any:
    """What `/readyz` tells, once it is not the same any more."""
    answer = await readiness(api)
    assert answer.status_code == 200
    return answer.json() if answer.json() != before else None


async def test_probes_leave_one_row_for_each_process(tmp_path: Path) -> None:
    async with Api(settings_for(tmp_path, {})) as api:
        for process in (api, api.beside()):
            assert (await readiness(process)).json() == WELL
        named = "SELECT count(*) FROM leases WHERE name LIKE 'readiness:%'"
        assert await api.live.db.one(named) == (2,)
