"""Standbys that answer lists: everybody sees their own writes, and no trouble of theirs."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from busy_machine import within
from driving import Api, settings_for
from operating import eventually, until
from pages.visiting import held, signed_in
from portico.core.errors import Unavailable
from portico.data.database import ReplicaState, Row, acting_for
from portico.data.postgres import engine, replicas
from portico.data.postgres.engine import PostgresDatabase
from portico.data.postgres.replicas import MemoryPositions
from portico.features.people.storage import Users
from reliability.boundless import boundless
from servers import PostgresServer, RedisServer, postgres_server

pytestmark = pytest.mark.xdist_group("replicas")  # they share their servers

PORT = "SELECT inet_server_port()"
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


Open = Callable[..., Awaitable[PostgresDatabase]]


@pytest.fixture
async def another(primary: PostgresServer, replica: PostgresServer) -> AsyncIterator[Open]:
    """Opens the same database as one more host does, which reads from the replica by then."""
    url, positions = primary.fresh_database(), MemoryPositions()
    # As where roles move, the primary is among them.
    read_url = url.replace("127.0.0.1:", f"127.0.0.1:{replica.port},127.0.0.1:")
    opened: list[PostgresDatabase] = []

    async def open_one(given: MemoryPositions = positions) -> PostgresDatabase:
        database = PostgresDatabase(url, "public", read_url=read_url, positions=given)
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
    monkeypatch.setattr(replicas, "TIMEOUT_SECONDS", 60.0)
    monkeypatch.setattr(replicas, "SILENT_SECONDS", 60.0)
    monkeypatch.setitem(engine._OPTIONS, "command_timeout", 60.0)  # noqa: SLF001 - no setting


def state(database: PostgresDatabase, server: PostgresServer) -> ReplicaState:
    return database.replicas()[f"127.0.0.1:{server.port}"]


async def becomes(database: PostgresDatabase, server: PostgresServer, word: str) -> None:
    await eventually(lambda: state(database, server).word == word, word)


async def asked(database: PostgresDatabase) -> int:
    """The port of the server that answers a list."""
    row = await database.replica.one(PORT)
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
    return {row[0] for row in await database.replica.all("SELECT number FROM numbers")}


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
    assert await database.replica.all(PORT) == [there]
    assert await database.replica.slow.one(PORT) == there
    assert await database.replica.snapshot(lambda reader: reader.one(PORT)) == there
    assert await database.one(PORT) == await database.slow.one(PORT) == here
    assert await database.snapshot(lambda reader: reader.one(PORT)) == here
    async with database.transaction() as tx:
        assert await tx.one(PORT) == here
    acting_for.set(None)  # of a job, whose own writes nobody keeps in mind
    assert await database.replica.one(PORT) == here


async def test_replica_of_another_database_is_not_read(
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
        name = await database.replica.one("SELECT current_database()")
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


async def test_replica_that_is_more_than_a_second_behind_is_left_out(
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


class Away(MemoryPositions):
    """A store that cannot be told any position."""

    async def note(self, caller: int, position: int) -> None:  # noqa: ARG002 - of `Positions`
        raise Unavailable("The store of positions does not answer.")


async def test_nobody_misses_their_own_write_while_the_store_of_positions_is_away(
    another: Open, replica: PostgresServer
) -> None:
    database = await another(Away())
    async with database.transaction() as tx:
        await tx.script("CREATE TABLE numbers (number INTEGER)")
    acting_for.set(1)
    await moves(database, replica.port)
    async with paused(replica):
        await add(database, 1)
        assert await listed(database) == {1}


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
        assert await database.replica.all("SELECT word FROM words") == []


@pytest.mark.parametrize("trouble", ["freezes", "dies"])
async def test_replica_in_trouble_costs_nobody_an_error(
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
            amid.append(asyncio.create_task(database.replica.slow.one(slow)))
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


DRAFT = {"name": "Lamp", "category": "mine", "price": 1, "status": "draft"}


@pytest.mark.usefixtures("patient")
async def test_account_sees_what_its_page_has_written_by_its_key(
    primary: PostgresServer, replica: PostgresServer, tmp_path: Path
) -> None:
    url = primary.fresh_database()
    read_url = url.replace(f":{primary.port}/", f":{replica.port}/")
    variables = {"PORTICO_DATABASE_URL": url, "PORTICO_DATABASE_READ_URL": read_url}
    async with Api(settings_for(tmp_path, variables)) as api:
        await api.account()
        user, visitor = await signed_in(api, "editor")
        key = await api.caller(key_type="test", user=user)
        mirror = await api.sandbox[Users].by_account(user.id)
        assert mirror is not None
        assert mirror.id != user.id
        form = {f"f-{name}": str(value) for name, value in DRAFT.items()} | {"f-currency": "USD"}
        page = await visitor.get("/sandbox/products/new")
        await eventually(
            lambda: "ok" in {one.word for one in api.sandbox.db.replicas().values()}, "the standby"
        )
        async with paused(replica):
            fields = {"f-stock_quantity": "0", "f-description": "", "once": held(page, "once")}
            made = await visitor.post("/sandbox/products/new", **form, **fields)
            assert made.status_code == 303
            shown = await key.get("/products?category=mine&status=draft")
            assert len(shown.json()["data"]) == 1


def test_server_tells_of_its_replica_and_reads_without_it(
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

        def write_and_list() -> None:
            made = service.make_product()
            listed = service.ask("/v1/products?status=draft&category=light", key=key).json["data"]
            assert made in {one["id"] for one in listed}

        until(lambda: word() == "ok", "the replica")
        assert used() == 1
        assert examined()["ok"]
        for _ in range(5):
            write_and_list()
        with replica.frozen():
            write_and_list()
            until(lambda: word() == "silent", "its word")
            until(lambda: used() == 0, "its word of the other environment")
            assert "does not answer" in examined()["message"]
            write_and_list()
        until(lambda: word() == "ok", "the replica")
        assert "Traceback" not in service.text


async def test_replica_that_was_promoted_is_left_out_and_one_that_follows_it_is_read(
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
