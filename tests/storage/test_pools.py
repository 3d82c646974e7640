"""Connections for point reads, for writes and for slow reads: nobody waits for another group's."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, closing, suppress

import asyncpg
import pytest

from answering import answering
from operating import eventually
from portico.core.errors import Unavailable
from portico.data.postgres.engine import (
    POINT_CONNECTIONS,
    SLOW_CONNECTIONS,
    WRITE_CONNECTIONS,
    PostgresDatabase,
)
from portico.data.postgres.hosts import Hosts
from portico.data.postgres.pool import FULL_SECONDS, Pool
from portico.data.postgres.versions import PAUSE_SECONDS
from portico.features.catalogue.storage import list_part
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
    monkeypatch.setattr("portico.data.postgres.engine.SLOW_PATIENCE_SECONDS", 60.0)
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


async def test_after_a_version_that_was_not_told_one_in_a_while_asks_for_all(url: str) -> None:
    now = 0.0
    database = PostgresDatabase(url, "public", clock=lambda: now)
    await database.open()
    administrator = await asyncpg.connect(url)
    await administrator.execute(LIST_COUNTS)
    part = list_part("active", None)
    async with administrator.transaction():
        await administrator.execute("LOCK list_counts")
        assert await database.version_of(part) is None
        now += PAUSE_SECONDS
        first = asyncio.create_task(database.version_of(part))
        await asyncio.sleep(0)
        assert await database.version_of(part) is None
        assert not first.done()
        assert await first is None
    assert await database.version_of(part) is None

    async def later() -> object:
        nonlocal now
        now += PAUSE_SECONDS
        return await database.version_of(part)

    assert await eventually(later, "a version") == await database.version_of(part)
    await administrator.close()
    await database.close()


async def test_no_more_connections_are_opened_than_are_needed(database: PostgresDatabase) -> None:
    async def connections() -> int:
        row = await database.one(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend'"  # autovacuum is there at times
        )
        assert row
        return int(row[0])

    await eventually(database.listening, "the connection that listens")
    assert await connections() == 3  # what asks, the listener, and what looks after it
    for _ in range(10):
        await asyncio.gather(*(ask(database, "SELECT 1") for ask, _ in GROUPS.values()))
    assert await connections() == 5


async def test_a_caller_that_goes_away_waits_no_more(url: str, database: PostgresDatabase) -> None:
    async with stuck(url, database, "slow"):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await database.slow.one("SELECT 1")
        assert in_use(database)["slow"] == (SLOW_CONNECTIONS, WAITING)


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


async def test_connections_are_replaced_once_nobody_uses_them(database: PostgresDatabase) -> None:
    me = "SELECT pg_backend_pid()"
    async with database.transaction() as tx:
        before = await tx.all(me)
        await database._writes.expire()  # noqa: SLF001 - a failover is dear to make
        assert await tx.all(me) == before
    async with database.transaction() as tx:
        assert await tx.all(me) != before


CANCELED = b"SERROR\0C57014\0Mcanceling statement due to user request\0\0"
REFUSED = b"E" + (len(CANCELED) + 4).to_bytes(4) + CANCELED + b"Z\0\0\0\5I"
"""What PostgreSQL says to a statement that it has cancelled outside a transaction."""


class Refusing:
    """A way to PostgreSQL on which the next BEGIN does not arrive, once it is told to refuse it.
    The first of each connection does: it asks whom that leads to."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.refuses_next = False

    async def between(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """One connection."""
        server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        back = asyncio.create_task(self._pass(server, to_client))
        is_first = True
        with closing(to_server), suppress(ConnectionError):
            while asked := await client.read(2**16):
                begins = b"BEGIN" in asked
                if begins and self.refuses_next and not is_first:
                    self.refuses_next = False
                    to_client.write(REFUSED)
                else:
                    to_server.write(asked)
                is_first = is_first and not begins
        await back

    async def _pass(self, server: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        with closing(to_client), suppress(ConnectionError):
            while told := await server.read(2**16):
                to_client.write(told)


@pytest.mark.parametrize("ask", [slow, write])
async def test_a_connection_on_which_no_transaction_began_is_not_used_again(
    ask: Ask, url: str, postgres: PostgresServer
) -> None:
    way = Refusing(postgres.port)
    async with answering(way.between) as port:
        database = PostgresDatabase(url.replace(f":{postgres.port}/", f":{port}/"), "public")
        await database.open()
        await ask(database, "SELECT 1")
        way.refuses_next = True
        with pytest.raises(Unavailable):
            await ask(database, "SELECT 1")
        assert not way.refuses_next
        await ask(database, "SELECT 1")
        await database.close()


@asynccontextmanager
async def crowded(
    url: str, places: int, patience: float, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[PostgresDatabase, str]]:
    """A database whose role may have so many connections, and the role's address. Whoever gets none
    waits for `patience` seconds."""
    role = f"crowded_{url.rpartition('_')[2]}"
    administrator = await asyncpg.connect(url)
    await administrator.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD '{role}' CONNECTION LIMIT {places};"
        f" GRANT SELECT ON notices TO {role}"
    )
    await administrator.close()
    theirs = url.replace(url.partition("//")[2].rpartition("@")[0], f"{role}:{role}")
    monkeypatch.setattr("portico.data.postgres.engine.CONNECT_SECONDS", patience)
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


async def test_who_finds_none_at_all_waits_until_another_process_leaves_its_own(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crowded(url, 4, 60.0, monkeypatch) as (database, theirs):
        other = await asyncpg.connect(theirs)
        writes = [asyncio.create_task(write(database, "SELECT 1")) for _ in range(30)]
        await eventually(lambda: in_use(database)["write"] == (0, 30), "all of them")
        await other.close()
        await asyncio.gather(*writes)


@asynccontextmanager
async def one_connection(url: str, role: str) -> AsyncIterator[tuple[Pool, asyncpg.Connection]]:
    """A pool of several whose role may have one, for now, and somebody who may change that."""
    administrator = await asyncpg.connect(url)
    await administrator.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{role}' CONNECTION LIMIT 1")
    theirs = url.replace(url.partition("//")[2].rpartition("@")[0], f"{role}:{role}")
    settings = {"search_path": "public"}
    pool = Pool(Hosts(theirs, settings, {}), settings, 4, 60.0)
    yield pool, administrator
    await pool.close()
    await administrator.close()


async def asked(pool: Pool) -> object:
    async with pool.connection() as connection:
        return await connection.fetchval("SELECT 1")


async def test_what_was_given_back_while_the_server_refused_another_is_used(url: str) -> None:
    async with one_connection(url, "one_given_back") as (pool, _), asyncio.timeout(20):
        async with pool.connection():
            caller = asyncio.create_task(asked(pool))
            await asyncio.sleep(0)  # it asks the server
        assert await caller == 1


async def test_who_waits_gets_a_place_that_the_server_has_again(url: str) -> None:
    async with (
        one_connection(url, "one_for_now") as (pool, administrator),
        asyncio.timeout(20),
        pool.connection(),
    ):
        caller = asyncio.create_task(asked(pool))
        await eventually(lambda: pool._full_until, "a refusal")  # noqa: SLF001 - nobody else tells
        await administrator.execute("ALTER ROLE one_for_now CONNECTION LIMIT 10")
        assert await caller == 1


@pytest.mark.parametrize("pause", [FULL_SECONDS, 0.0])
async def test_who_waits_for_a_place_in_vain_is_told_what_is_short(
    url: str, monkeypatch: pytest.MonkeyPatch, pause: float
) -> None:
    """Also where their time ends while the server is asked once more."""
    monkeypatch.setattr("portico.data.postgres.pool.FULL_SECONDS", pause)
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


async def test_a_connection_that_nobody_uses_leaves_its_place_to_others(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.data.postgres.pool.IDLE_SECONDS", 0.05)
    async with crowded(url, 4, 60.0, monkeypatch) as (database, theirs):
        await write(database, "SELECT 1")
        async with asyncio.timeout(20):
            while True:
                try:
                    other = await asyncpg.connect(theirs)
                except asyncpg.TooManyConnectionsError:
                    await asyncio.sleep(0.01)
                else:
                    break
        await other.close()


REFUSED_READ = """
ALTER TABLE notices RENAME TO kept;
CREATE FUNCTION refused() RETURNS BIGINT LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'canceling statement due to conflict with recovery' USING ERRCODE = '40001';
END $$;
CREATE VIEW notices AS SELECT refused() AS number"""
READ_AGAIN = "DROP VIEW notices; ALTER TABLE kept RENAME TO notices"


async def test_a_server_that_refuses_to_tell_the_number_of_notices_is_asked_again(url: str) -> None:
    database = PostgresDatabase(url, "public")
    await database.open()
    await eventually(database.listening, "the connection that listens")
    administrator = await asyncpg.connect(url)
    await administrator.execute(REFUSED_READ)
    await eventually(lambda: not database.listening(), "the refusal")
    await administrator.execute(READ_AGAIN)
    await eventually(database.listening, "the connection that listens")
    await administrator.close()
    await database.close()
