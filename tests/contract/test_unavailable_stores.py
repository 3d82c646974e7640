"""Stores that do not answer: 503 with Retry-After, never a 500, and recovery by itself."""

import asyncio
import time
from pathlib import Path

import apsw
import asyncpg
import httpx
import pytest

from busy_machine import leave_time
from cut_connections import Cut, beyond, unavailable
from driving import Api, settings_for
from operating import eventually
from servers import PostgresServer, redis_server
from signing_in import PASSWORD, Visitor, client_of, login_of, tokens_of

LAMP = {"name": "Lamp", "category": "light", "price": 1}


async def test_a_database_that_another_process_locks_refuses_writes_and_still_reads(
    tmp_path: Path,
) -> None:
    async with Api(settings_for(tmp_path, {})) as api:
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
        delayed = asyncio.create_task(editor.post("/products", json=LAMP))
        await asyncio.sleep(0.1)
        assert not delayed.done()
        other.execute("ROLLBACK").fetchall()
        other.close()
        assert (await delayed).status_code == 201
        assert len((await editor.get("/products?status=draft")).json()["data"]) == 1


async def test_lost_connections_to_postgresql_are_made_again(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = postgres.fresh_database()
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    async with Api(settings_for(tmp_path, {"PORTICO_DATABASE_URL": url})) as api:
        editor = await api.caller("editor")
        other = await asyncpg.connect(url)
        made = 0
        for _ in range(3):
            await other.execute(cut)
            answers = await asyncio.gather(
                *(editor.post("/products", json=LAMP) for _ in range(10)),
                *(editor.get("/users/me") for _ in range(10)),
                other.execute(cut),
            )
            for answer in answers[:20]:
                if answer.status_code not in (200, 201):
                    unavailable(answer)
                made += answer.status_code == 201
        await other.close()
        await recovered(editor)
        total = (await editor.get("/products?status=draft")).json()["pagination"]["total_items"]
        assert total >= made
        assert (await editor.post("/products", json=LAMP)).status_code == 201


@pytest.mark.parametrize("arrives", [False, True])
@pytest.mark.parametrize(
    ("path", "body", "filters", "last"),
    [
        # One statement is the whole transaction of the one; the other commits what came before.
        ("/products", LAMP, "status=draft", b"Torch"),
        ("/users", {"email": "torch@example.com", "password": PASSWORD}, "role=viewer", b"COMMIT"),
    ],
    ids=["product", "user"],
)
async def test_a_commit_of_unknown_outcome_is_503_and_repeats_safely(
    postgres: PostgresServer,
    tmp_path: Path,
    path: str,
    body: dict[str, object],
    filters: str,
    last: bytes,
    *,
    arrives: bool,
) -> None:
    cut = Cut(postgres.port, b"Torch", last, arrives=arrives)
    async with beyond(cut, postgres, tmp_path) as api:
        admin = await api.caller("admin")
        torch = {**body, "name": "Torch"}
        key = {"Idempotency-Key": "one"}
        answer = await admin.post(path, json=torch, headers=key)
        unavailable(answer)
        assert not cut.whole
        assert "is unknown. A repeat with the same Idempotency-Key is safe" in answer.text

        async def stored() -> bool:
            listed = await admin.get(f"{path}?{filters}")
            return bool(listed.json()["pagination"]["total_items"])

        # PostgreSQL may be at it still: nobody heard the end.
        assert await eventually(stored, "the change") if arrives else not await stored()
        again = await admin.post(path, json=torch, headers=key)
        assert again.status_code == 201
        listed = await admin.get(f"{path}?{filters}")
        assert listed.json()["pagination"]["total_items"] == 1


@pytest.mark.parametrize("way", ["refresh", "token"])
async def test_an_unknown_outcome_of_a_refresh_advises_signing_in(
    postgres: PostgresServer, tmp_path: Path, way: str
) -> None:
    cut = Cut(postgres.port, b"UPDATE tokens SET used_at", b"COMMIT", arrives=True)
    async with beyond(cut, postgres, tmp_path) as api:
        visitor = Visitor(api)
        user = await api.account("editor")
        client = await client_of(api.live)
        login = await login_of(api.live, user)
        consent = await tokens_of(api.live, client.client, user)

        async def again() -> httpx.Response:
            if way == "refresh":
                return await visitor.refresh(login.refresh_token)
            return await visitor.renew(client, consent.refresh_token)

        answer = await again()
        assert answer.status_code == 503
        assert "is unknown. If a repeat is refused, sign in again." in answer.text
        for _ in range(1_000):
            answer = await again()
            if answer.status_code != 503:
                break
            await asyncio.sleep(0.005)
        assert answer.status_code == {"refresh": 401, "token": 400}[way]


async def test_without_the_store_of_its_limits_nothing_is_answered_and_nothing_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_time(monkeypatch)
    with redis_server() as redis:
        async with Api(settings_for(tmp_path, {"PORTICO_VALKEY_URL": redis.url})) as api:
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


async def recovered(client: httpx.AsyncClient) -> None:
    async def answers() -> bool:
        return (await client.get("/users/me")).status_code == 200

    await eventually(answers, "the recovery")
