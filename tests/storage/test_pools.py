"""Connections for point reads, for writes and for slow reads: nobody waits for another group's."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import asyncpg
import pytest

from operating import eventually
from portico.core.errors import Unavailable
from portico.data.postgres.engine import (
    POINT_CONNECTIONS,
    SLOW_CONNECTIONS,
    WRITE_CONNECTIONS,
    PostgresDatabase,
)
from portico.features.catalogue.products import list_part
from servers import PostgresServer

WAITING = 3
WAIT = "SELECT pg_advisory_xact_lock_shared(1)"
"""Waits for as long as another connection holds the lock."""

LIST_COUNTS = "CREATE TABLE list_counts AS SELECT 'products' AS list, 'active' AS key, 1 AS version"


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    url = postgres.fresh_database()
    administrator = await asyncpg.connect(url)
    await administrator.execute("CREATE TABLE notices (number BIGINT)")
    await administrator.close()
    return url


@pytest.fixture
async def database(url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PostgresDatabase]:
    """An open one, whose callers have more time than a busy machine needs."""
    monkeypatch.setattr("portico.data.postgres.engine.STATEMENT_SECONDS", 60.0)
    monkeypatch.setattr("portico.data.postgres.engine.SLOW_TIMEOUT_SECONDS", 60.0)
    monkeypatch.setattr("portico.data.postgres.engine.CONNECT_SECONDS", 60.0)
    monkeypatch.setattr("portico.data.postgres.engine.CHECK_SECONDS", 60.0)
    database = PostgresDatabase(url, "public")
    await database.open()
    yield database
    await database.close()


async def point(database: PostgresDatabase, sql: str) -> None:
    await database.one(sql)
    await database.all(sql)


async def slow(database: PostgresDatabase, sql: str) -> None:
    await database.snapshot(lambda reader: reader.one(sql))
    await database.slow.all(sql)


async def write(database: PostgresDatabase, sql: str) -> None:
    async with database.transaction() as tx:
        await tx.one(sql)


Ask = Callable[[PostgresDatabase, str], Coroutine[object, object, None]]
GROUPS: dict[str, tuple[Ask, int]] = {
    "point": (point, POINT_CONNECTIONS),
    "slow": (slow, SLOW_CONNECTIONS),
    "write": (write, WRITE_CONNECTIONS),
}


def in_use(database: PostgresDatabase) -> dict[str, tuple[int, int]]:
    """How many have a connection of each group, and how many wait for one."""
    return {name: (use.busy, use.waiting) for name, use in database.pools().items()}


@asynccontextmanager
async def stuck(url: str, database: PostgresDatabase, group: str) -> AsyncIterator[None]:
    """Every connection of a group waits meanwhile, and callers wait for one."""
    ask, size = GROUPS[group]
    administrator = await asyncpg.connect(url)
    await administrator.execute("SELECT pg_advisory_lock(1)")
    callers = [asyncio.create_task(ask(database, WAIT)) for _ in range(size + WAITING)]
    await eventually(lambda: in_use(database)[group] == (size, WAITING), "all of them")
    yield
    await administrator.close()
    await asyncio.gather(*callers)


@pytest.mark.parametrize("group", GROUPS)
async def test_who_waits_in_one_group_holds_up_no_other(
    url: str, database: PostgresDatabase, group: str
) -> None:
    async with stuck(url, database, group), asyncio.timeout(20):
        for other in GROUPS.keys() - {group}:
            ask, size = GROUPS[other]
            await asyncio.gather(*(ask(database, "SELECT 1") for _ in range(2 * size)))
        assert in_use(database)[group] == (GROUPS[group][1], WAITING)
    assert set(in_use(database).values()) == {(0, 0)}
    assert database.pools()[group].seconds > 0


async def test_the_version_of_a_list_waits_for_nobody_and_nobody_for_it(
    url: str, database: PostgresDatabase
) -> None:
    administrator = await asyncpg.connect(url)
    await administrator.execute(LIST_COUNTS)
    part = list_part("active", None)
    async with stuck(url, database, "point"), asyncio.timeout(20):
        told = await eventually(lambda: database.version_of(part), "a version")
        assert told
    async with administrator.transaction():
        await administrator.execute("LOCK list_counts")
        assert await database.version_of(part) is None
        for ask, _ in GROUPS.values():
            await ask(database, "SELECT 1")
    await administrator.close()
    await eventually(lambda: database.version_of(part), "a version again")


async def test_who_goes_away_takes_no_connection_along(database: PostgresDatabase) -> None:
    callers = [
        asyncio.create_task(database.one("SELECT pg_sleep(60)"))
        for _ in range(POINT_CONNECTIONS + WAITING)
    ]
    all_of_them = (POINT_CONNECTIONS, WAITING)
    await eventually(lambda: in_use(database)["point"] == all_of_them, "all of them")
    for caller in reversed(callers):
        caller.cancel()
    await asyncio.gather(*callers, return_exceptions=True)
    async with asyncio.timeout(20):
        rows = await asyncio.gather(*(database.one("SELECT 7") for _ in callers))
    assert [row and row[0] for row in rows] == [7] * len(callers)
    assert in_use(database)["point"] == (0, 0)


async def test_process_that_stands_still_gets_the_connection_that_came_meanwhile(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stand_still() -> None:
        await asyncio.sleep(0)  # until the other has asked
        time.sleep(2.3)  # noqa: ASYNC251 - nothing else goes on either

    monkeypatch.setattr("portico.data.postgres.engine.CONNECT_SECONDS", 2.0)
    database = PostgresDatabase(url, "public")
    await database.open()
    await asyncio.gather(write(database, "SELECT 1"), stand_still())
    await database.close()


@asynccontextmanager
async def crowded(
    url: str, places: int, timeouts: float, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[PostgresDatabase, str]]:
    """A database whose role may have so many connections, and the role's address. Whoever gets none
    waits for `timeouts` seconds."""
    role = f"crowded_{url.rpartition('_')[2]}"
    administrator = await asyncpg.connect(url)
    await administrator.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD '{role}' CONNECTION LIMIT {places};"
        f" GRANT SELECT ON notices TO {role}"
    )
    await administrator.close()
    theirs = url.replace(url.partition("//")[2].rpartition("@")[0], f"{role}:{role}")
    monkeypatch.setattr("portico.data.postgres.engine.CONNECT_SECONDS", timeouts)
    database = PostgresDatabase(theirs, "public")
    await database.open()
    await eventually(database.listening, "the connection that listens")
    yield database, theirs
    await database.close()


async def test_who_finds_no_place_at_the_server_waits_for_a_connection_given_back(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crowded(url, 5, 60.0, monkeypatch) as (database, _):  # two of them for writes
        for _ in range(3):
            await asyncio.gather(*(write(database, "SELECT pg_sleep(0.01)") for _ in range(30)))
    assert in_use(database)["write"] == (0, 0)


async def test_who_waits_for_a_place_in_vain_is_told_what_is_short(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crowded(url, 3, 1.0, monkeypatch) as (database, _):
        writes = (write(database, "SELECT 1") for _ in range(30))
        refused = await asyncio.gather(*writes, return_exceptions=True)
        assert {str(error) for error in refused} == {"The database accepts no more connections."}
        assert in_use(database)["write"] == (0, 0)


async def test_a_refused_login_is_told_from_silence(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crowded(url, 10, 60.0, monkeypatch) as (database, theirs):
        role = theirs.partition("//")[2].partition(":")[0]
        administrator = await asyncpg.connect(url)
        await administrator.execute(f"ALTER ROLE {role} NOLOGIN")
        with pytest.raises(Unavailable, match="refuses Portico's login") as refusal:
            await write(database, "SELECT 1")
        assert refusal.value.why == "failing"
        await administrator.execute(f"ALTER ROLE {role} LOGIN")
        await write(database, "SELECT 1")
        await administrator.close()
