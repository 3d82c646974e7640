"""Standbys that answer lists: everybody sees their own writes, and no trouble of theirs."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from busy_machine import within
from driving import FakeClock
from operating import eventually, free_port, until
from portico.core.errors import Unavailable
from portico.data.database import ReplicaState, Row, acting_for
from portico.data.migrate import migrate
from portico.data.postgres import engine, replicas
from portico.data.postgres.engine import PostgresDatabase
from portico.data.postgres.positions import MemoryPositions
from portico.data.search import tokens
from portico.features.catalogue.storage import ProductFilter, Products, list_part
from reliability.boundless import boundless
from servers import PostgresServer, RedisServer, postgres_server
from storage.lamp import LAMP

pytestmark = pytest.mark.xdist_group("replicas")  # they share their servers

PORT = "SELECT inet_server_port()"
WAITS = "SELECT wait_event IS NOT DISTINCT FROM 'SyncRep' FROM pg_stat_activity WHERE pid = $1"
PROMPT_SECONDS = 8.0
"""How long a read may take while a replica is in trouble, on a machine with much else to do."""


@pytest.fixture(scope="module")
def primary() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="module")
def replica(primary: PostgresServer) -> Iterator[PostgresServer]:
    with postgres_server(primary=primary) as server:
        yield server


Open = Callable[[], Awaitable[PostgresDatabase]]


@pytest.fixture
async def another(primary: PostgresServer, replica: PostgresServer) -> AsyncIterator[Open]:
    """Opens the same database as one more host does, which reads from the replica by then."""
    url, positions = primary.fresh_database(), MemoryPositions()
    # As where roles move, the primary is among them.
    read_url = url.replace("127.0.0.1:", f"127.0.0.1:{replica.port},127.0.0.1:")
    opened: list[PostgresDatabase] = []

    async def open_one() -> PostgresDatabase:
        database = PostgresDatabase(url, "public", read_url=read_url, positions=positions)
        opened.append(database)
        await database.open()
        await becomes(database, replica, "ok")
        return database

    yield open_one
    for database in opened:
        await database.close()


@pytest.fixture
async def database(another: Open) -> PostgresDatabase:
    """An open one with one table of numbers."""
    database = await another()
    async with database.transaction() as tx:
        await tx.script("CREATE TABLE numbers (number INTEGER)")
    return database


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No replica is too far behind, but for those who must see what they have written, nor silent;
    and a commit that waits for one does so for as long as a busy machine needs."""
    monkeypatch.setattr(replicas, "LAG_SECONDS", 1_000.0)
    monkeypatch.setattr(replicas, "PATIENCE_SECONDS", 60.0)
    monkeypatch.setattr(replicas, "SILENT_SECONDS", 60.0)
    monkeypatch.setitem(engine._OPTIONS, "command_timeout", 60.0)  # noqa: SLF001 - no setting


def state(database: PostgresDatabase, server: PostgresServer) -> ReplicaState:
    return database.replicas()[f"127.0.0.1:{server.port}"]


async def becomes(database: PostgresDatabase, server: PostgresServer, word: str) -> None:
    await eventually(lambda: state(database, server).word == word, word)


async def asked(database: PostgresDatabase) -> int:
    """The port of the server that answers a list."""
    row = await database.shown.one(PORT)
    assert row
    return int(row[0])


async def moves(database: PostgresDatabase, port: int) -> None:
    async def is_asked() -> bool:
        return await asked(database) == port

    await eventually(is_asked, "a list from that server")


async def add(database: PostgresDatabase, number: int) -> None:
    async with database.transaction() as tx:
        await tx.run("INSERT INTO numbers VALUES (:number)", {"number": number})


async def listed(database: PostgresDatabase) -> set[int]:
    return {row[0] for row in await database.shown.all("SELECT number FROM numbers")}


@asynccontextmanager
async def paused(replica: PostgresServer) -> AsyncIterator[None]:
    """The replica receives everything, and shows nothing new."""
    connection = await asyncpg.connect(replica.url)
    await connection.execute("SELECT pg_wal_replay_pause()")
    async with asyncio.timeout(20):
        while await connection.fetchval("SELECT pg_get_wal_replay_pause_state()") != "paused":
            pass
    try:
        yield
    finally:
        await connection.execute("SELECT pg_wal_replay_resume()")
        await connection.close()


@pytest.mark.usefixtures("patient")
async def test_what_is_shown_is_read_from_the_replica_and_all_else_from_the_primary(
    database: PostgresDatabase, primary: PostgresServer, replica: PostgresServer
) -> None:
    acting_for.set(1)
    await moves(database, replica.port)
    there, here = (replica.port,), (primary.port,)
    assert await database.shown.all(PORT) == [there]
    assert await database.shown.slow.one(PORT) == there
    assert await database.shown.snapshot(lambda reader: reader.one(PORT)) == there
    assert await database.one(PORT) == await database.slow.one(PORT) == here
    assert await database.snapshot(lambda reader: reader.one(PORT)) == here
    async with database.transaction() as tx:
        assert await tx.one(PORT) == here
    acting_for.set(None)  # of a job, whose own writes nobody keeps in mind
    assert await database.shown.one(PORT) == here


async def test_a_replica_is_read_by_an_account_that_may_know_less_of_its_server(
    primary: PostgresServer, replica: PostgresServer
) -> None:
    url = primary.fresh_database()
    name = url.rpartition("/")[2]
    read_url = f"postgresql://narrow:word@127.0.0.1:{replica.port}/{name}"
    database = PostgresDatabase(url, "public", read_url=read_url, positions=MemoryPositions())
    administrator = await asyncpg.connect(url)
    try:
        await administrator.execute("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC")
        await administrator.execute("CREATE ROLE narrow LOGIN PASSWORD 'word'")
        await database.open()
        await becomes(database, replica, "ok")
    finally:
        await database.close()
        await administrator.execute("DROP ROLE narrow")
        await administrator.close()


async def test_a_replica_of_another_database_is_not_read(
    primary: PostgresServer, replica: PostgresServer
) -> None:
    ours, others = primary.fresh_database(), primary.fresh_database()
    read_url = others.replace("127.0.0.1:", f"127.0.0.1:{replica.port},127.0.0.1:")
    database = PostgresDatabase(ours, "public", read_url=read_url, positions=MemoryPositions())
    await database.open()
    try:
        for server in (replica, primary):
            await becomes(database, server, "foreign")
        acting_for.set(1)
        name = await database.shown.one("SELECT current_database()")
        assert name == (ours.rpartition("/")[2],)
    finally:
        await database.close()


@pytest.mark.usefixtures("patient")
async def test_nobody_misses_their_own_writes_on_any_host(
    database: PostgresDatabase, another: Open, primary: PostgresServer, replica: PostgresServer
) -> None:
    acting_for.set(1)
    other = await another()
    await moves(database, replica.port)
    await moves(other, replica.port)
    async with paused(replica):
        await add(database, 1)
        for host in (database, other):
            assert await asked(host) == primary.port
            assert await listed(host) == {1}
        acting_for.set(2)  # who has written nothing
        for host in (database, other):
            assert await asked(host) == replica.port
            assert await listed(host) == set()
    acting_for.set(1)
    await moves(other, replica.port)
    assert await listed(other) == {1}


async def test_nobody_misses_their_own_writes_while_many_write(
    database: PostgresDatabase, another: Open, replica: PostgresServer
) -> None:
    acting_for.set(1)
    hosts = (database, await another())
    ports: set[int] = set()

    async def write_and_look(caller: int) -> None:
        acting_for.set(caller)
        for turn in range(40):
            number = 1_000 * caller + turn
            await add(hosts[turn % 2], number)
            assert number in await listed(hosts[(turn + 1) % 2])
            ports.add(await asked(hosts[turn % 2]))

    await asyncio.gather(*(asyncio.create_task(write_and_look(caller)) for caller in range(1, 6)))
    assert replica.port in ports


class Away(MemoryPositions):
    """A store that cannot be told any position."""

    async def note(self, caller: int, position: int) -> None:  # noqa: ARG002 - of `Positions`
        """See `Positions`."""
        raise Unavailable("The store of positions does not answer.")


async def test_nobody_misses_their_own_write_while_the_store_of_positions_is_away(
    primary: PostgresServer, replica: PostgresServer
) -> None:
    url = primary.fresh_database()
    read_url = url.replace(f":{primary.port}/", f":{replica.port}/")
    database = PostgresDatabase(url, "public", read_url=read_url, positions=Away())
    await database.open()
    async with database.transaction() as tx:
        await tx.script("CREATE TABLE numbers (number INTEGER)")
    await becomes(database, replica, "ok")
    acting_for.set(1)
    await moves(database, replica.port)
    async with paused(replica):
        await add(database, 1)
        assert await listed(database) == {1}
    await database.close()


async def test_a_replica_that_is_more_than_a_second_behind_is_left_out(
    database: PostgresDatabase, primary: PostgresServer, replica: PostgresServer
) -> None:
    acting_for.set(1)
    await moves(database, replica.port)
    async with paused(replica):
        await add(database, 1)
        acting_for.set(2)
        await becomes(database, replica, "behind")
        assert await asked(database) == primary.port
        assert state(database, replica).lag > 0
        assert state(database, primary) == ReplicaState("primary", 0.0)
    await becomes(database, replica, "ok")
    await moves(database, replica.port)
    assert await listed(database) == {1}


@pytest.mark.usefixtures("patient")
async def test_totals_are_those_of_the_rows_whichever_server_is_asked(
    another: Open, replica: PostgresServer
) -> None:
    acting_for.set(1)
    database = await another()
    await migrate(database, FakeClock())
    products = Products(database)

    async def pages() -> list[int]:
        found = []
        for chosen, words in (
            (ProductFilter(status="active", category=LAMP.category), []),
            (ProductFilter(status="active"), tokens("lamp")),
            (ProductFilter(status="active"), []),
        ):
            page = await products.page(chosen, words=words, offset=0, limit=9)
            assert len(page.rows) == page.total
            found.append(page.total)
        return found

    async with database.transaction() as tx:
        await products.insert(tx, LAMP)
    await moves(database, replica.port)
    async with paused(replica):
        async with database.transaction() as tx:
            await products.insert(tx, LAMP)
        for caller, total in ((1, 2), (2, 1), (1, 2), (2, 1)):
            acting_for.set(caller)
            assert await pages() == [total] * 3
            assert await database.version_of(list_part("active", None)) is None  # none is kept


@asynccontextmanager
async def waiting_commits(primary: PostgresServer) -> AsyncIterator[None]:
    """Commits wait for a standby that is not there: replicas show them before the primary does."""

    async def wait_for(standbys: str) -> None:
        await connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{standbys}'")
        await connection.execute("SELECT pg_reload_conf()")

    async def one_waits() -> bool:
        pid = connection.get_server_pid()
        commit = asyncio.create_task(
            connection.execute("SELECT pg_logical_emit_message(true, '', '')")
        )
        while not commit.done():
            if await observer.fetchval(WAITS, pid):
                await observer.execute("SELECT pg_cancel_backend($1)", pid)
                await commit  # it is stored, and was told to wait no longer
                return True
        return False

    connection, observer = [await asyncpg.connect(primary.url) for _ in range(2)]
    await wait_for("nobody")
    async with asyncio.timeout(20):
        while not await one_waits():
            pass
    try:
        yield
    finally:
        await wait_for("")
        await connection.close()
        await observer.close()


@pytest.mark.usefixtures("patient")
async def test_totals_of_one_version_are_not_taken_for_those_of_another_server(
    another: Open, primary: PostgresServer, replica: PostgresServer
) -> None:
    database = await another()
    await migrate(database, FakeClock())
    products = Products(database)
    locked: list[int] = []

    async def insert(category: str, commit: str) -> None:
        async with database.transaction() as tx:
            row = await tx.one("SELECT pg_backend_pid() % 16")  # by which totals are apart
            assert row
            if row[0] in locked:
                await insert(category, commit)  # by another connection
                return
            locked.append(row[0])
            await tx.run(f"SET LOCAL synchronous_commit = '{commit}'")
            await products.insert(tx, msgspec.structs.replace(LAMP, category=category))

    async def total(caller: int | None) -> int:
        acting_for.set(caller)
        chosen = ProductFilter(status="active", category="light")
        page = await products.page(chosen, words=[], offset=0, limit=9)
        assert len(page.rows) == page.total
        return page.total

    acting_for.set(2)
    await moves(database, replica.port)
    async with waiting_commits(primary):
        acting_for.set(1)
        first = asyncio.create_task(insert("light", "on"))
        await eventually(lambda: total(2), "the first on the replica")
        async with paused(replica):
            acting_for.set(1)
            await insert("dark", "local")
            # As many changes on each, and not the same ones.
            assert [await total(caller) for caller in (2, None, 2, None)] == [1, 0, 1, 0]
    await first


@pytest.mark.usefixtures("patient")
async def test_what_a_replica_does_not_know_yet_is_read_from_the_primary(
    database: PostgresDatabase, replica: PostgresServer
) -> None:
    acting_for.set(1)
    await moves(database, replica.port)
    async with paused(replica):
        acting_for.set(None)
        async with database.transaction() as tx:  # as a migration does
            await tx.script("CREATE TABLE words (word TEXT)")
        acting_for.set(2)
        assert await database.shown.all("SELECT word FROM words") == []


@pytest.mark.usefixtures("patient")
async def test_nobody_waits_for_a_lock_that_a_replica_alone_holds_on_to(
    database: PostgresDatabase, replica: PostgresServer
) -> None:
    acting_for.set(1)
    await moves(database, replica.port)
    name = (await database.all("SELECT current_database()"))[0][0]
    reader = await asyncpg.connect(replica.url.removesuffix("postgres") + name)
    await eventually(lambda: reader.fetchval("SELECT to_regclass('numbers') IS NOT NULL"))
    waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
    async with reader.transaction(isolation="repeatable_read", readonly=True):
        await reader.fetch("SELECT number FROM numbers")
        acting_for.set(None)
        async with database.transaction() as tx:
            await tx.script("ALTER TABLE numbers ADD COLUMN word TEXT")
        async with asyncio.timeout(20):
            while not await reader.fetchval(waiting):
                pass
        acting_for.set(2)
        assert await asked(database) == replica.port
        with within(PROMPT_SECONDS):
            assert await listed(database) == set()
    await reader.close()


@pytest.mark.parametrize("trouble", ["freezes", "dies"])
async def test_a_replica_in_trouble_costs_nobody_an_error(
    database: PostgresDatabase, primary: PostgresServer, replica: PostgresServer, trouble: str
) -> None:
    acting_for.set(1)
    await moves(database, replica.port)
    name = (await database.all("SELECT current_database()"))[0][0]
    holder = await asyncpg.connect(replica.url.removesuffix("postgres") + name)
    await holder.execute("SELECT pg_advisory_lock(1)")  # which nobody has on the primary
    slow = "SELECT inet_server_port() FROM pg_advisory_xact_lock(1)"
    amid: list[asyncio.Task[Row | None]] = []

    def three_wait() -> bool:
        """One that the replica did not answer in time does not: it was answered by the primary."""
        if sum(not one.done() for one in amid) < 3:
            amid.append(asyncio.create_task(database.shown.slow.one(slow)))
        return database.pools()["replica_slow"].busy == 3

    await eventually(three_wait, "the readers")
    with ExitStack() as stack:
        if trouble == "freezes":
            stack.enter_context(replica.frozen())
        else:
            replica.stop(signal.SIGKILL)
            stack.callback(replica.start)
        with within(PROMPT_SECONDS):
            assert {await one for one in amid} == {(primary.port,)}
            assert (
                await asyncio.gather(*(asked(database) for _ in range(20))) == [primary.port] * 20
            )
        holder.terminate()
        await becomes(database, replica, "silent")
        with within(PROMPT_SECONDS):
            await add(database, 1)
            assert await listed(database) == {1}
    await becomes(database, replica, "ok")
    await moves(database, replica.port)


def test_a_server_tells_of_its_replica_and_reads_without_it(
    primary: PostgresServer,
    replica: PostgresServer,
    redis: RedisServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    url = primary.fresh_database()
    read_url = url.replace(f":{primary.port}/", f":{replica.port}/")
    stores = {"database_url": url, "database_read_url": read_url, "valkey_url": redis.url}
    directory = tmp_path_factory.mktemp("replicas")
    with boundless(directory, **stores, key_prefix=directory.name).serving() as service:
        key = service.installation.key

        def word() -> str:
            answer = service.ask("/readyz")
            assert answer.status == 200
            return str(answer.json["stores"]["database_read"])

        def used() -> float:
            text = service.ask("/metrics").text
            labels = f'{{environment="live",replica="127.0.0.1:{replica.port}"}}'
            assert f"portico_database_replica_lag_seconds{labels} " in text
            line = text.partition(f"portico_database_replica_used{labels} ")[2]
            return float(line.partition("\n")[0])

        def examined() -> dict[str, Any]:
            said = json.loads(service.installation.run("doctor", "--json").stdout)["findings"]
            return next(one for one in said if one["check"] == f"standby 127.0.0.1:{replica.port}")

        def write_and_list(number: int) -> None:
            product = {"name": f"Lamp {number}", "description": "", "category": "c", "price": 1}
            made = service.ask("/v1/products", method="POST", body=product, key=key)
            assert made.status == 201
            listed = service.ask("/v1/products?status=draft&category=c", key=key).json["data"]
            assert made.json["data"]["id"] in {one["id"] for one in listed}

        until(lambda: word() == "ok", "the replica")
        assert used() == 1
        assert examined()["ok"]
        for number in range(5):
            write_and_list(number)
        with replica.frozen():
            write_and_list(5)
            until(lambda: word() == "silent", "its word")
            until(lambda: used() == 0, "its word of the other environment")
            assert "does not answer" in examined()["message"]
            write_and_list(6)
        until(lambda: word() == "ok", "the replica")
        assert "Traceback" not in service.text


def test_the_doctor_says_why_a_replica_refuses(
    primary: PostgresServer, replica: PostgresServer, tmp_path: Path
) -> None:
    url = primary.fresh_database()
    nowhere = f"{replica.url.rpartition('/')[0]}/nowhere"
    nothing = f"postgresql://127.0.0.1:{free_port()}/nowhere"
    installation = boundless(tmp_path, database_url=url)
    for read_url, why in (
        (nowhere, 'database "nowhere" does not exist'),
        (nothing, "nothing listens there"),
    ):
        ran = installation.having(database_read_url=read_url).run("doctor", "--json")
        found = next(
            one for one in json.loads(ran.stdout)["findings"] if one["check"].startswith("standby")
        )
        told = f"does not answer ({why}): the primary answers in its place"
        assert (found["ok"], found["message"]) == (False, told)


async def test_a_replica_that_was_promoted_is_left_out_and_one_that_follows_it_is_read(
    database: PostgresDatabase, primary: PostgresServer, replica: PostgresServer
) -> None:
    acting_for.set(1)
    await moves(database, replica.port)
    with postgres_server(primary=primary) as follower:
        connection = await asyncpg.connect(follower.url)
        follows = f"host=127.0.0.1 port={replica.port} user=postgres password={replica.password}"
        await connection.execute(f"ALTER SYSTEM SET primary_conninfo = '{follows}'")
        await connection.execute("SELECT pg_reload_conf()")
        from_where = "SELECT sender_port FROM pg_stat_wal_receiver"
        async with asyncio.timeout(20):
            while await connection.fetchval(from_where) != replica.port:
                pass
        await connection.close()
        replica.promote()  # the last of these tests: nothing follows the primary any more
        await becomes(database, replica, "primary")
        assert await asked(database) == primary.port
        await add(database, 1)
        assert await listed(database) == {1}
        successor = PostgresDatabase(replica.url, "public", read_url=follower.url)
        await successor.open()
        await becomes(successor, follower, "ok")  # long before its next checkpoint
        await moves(successor, follower.port)
        await successor.close()
