"""A host that stops amid a transaction, or vanishes: its locks are soon free, and it is told. And a
session of the server that falls silent alone."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress

import pytest

from portico.core.errors import OutcomeUnknown, Unavailable
from portico.data.database import Reader
from portico.data.postgres import engine as engine
from portico.data.postgres.engine import PostgresDatabase
from servers import PgBouncer, PostgresServer, pgbouncer, postgres_binaries

Silence = Callable[[Reader], Awaitable[None]]
Ask = Callable[[PostgresDatabase, Silence], Awaitable[None]]

LEFT = """
SELECT 1 FROM pg_stat_activity AS activity JOIN pg_locks USING (pid)
JOIN pg_class ON pg_class.oid = relation
WHERE activity.state = 'idle in transaction' AND activity.datname = current_database()
    AND relname = 'numbers'"""
BRIEF_SECONDS = 4.0
"""How long a statement may take where that is waited for."""

ADD = "UPDATE numbers SET number = number + 1"


@pytest.fixture(scope="module")
def pooler(postgres: PostgresServer) -> Iterator[PgBouncer]:
    with pgbouncer(postgres, "") as server:
        yield server


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "STOPPED_SECONDS", 0.5)


@pytest.fixture
def _briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(engine._OPTIONS, "command_timeout", BRIEF_SECONDS)  # noqa: SLF001 - no setting
    monkeypatch.setattr(engine, "STOPPED_SECONDS", 60.0)


@pytest.fixture(scope="module")
def url(postgres: PostgresServer) -> str:
    return postgres.fresh_database()


@pytest.fixture(params=["direct", "pooled"])
async def hosts(
    request: pytest.FixtureRequest, postgres: PostgresServer, url: str
) -> AsyncIterator[list[PostgresDatabase]]:
    """Two hosts' ways to one number."""
    listen_url, prepared = None, True
    way = url
    if request.param == "pooled":
        pooler: PgBouncer = request.getfixturevalue("pooler")
        way = url.replace(f":{postgres.port}/", f":{pooler.port}/")
        listen_url, prepared = url, False
    found = [
        PostgresDatabase(way, "portico_live", listen_url=listen_url, prepared=prepared)
        for _ in range(2)
    ]
    for database in found:
        await database.open()
        await database.prepare()
    async with found[0].transaction() as tx:
        await tx.script(
            "DROP TABLE IF EXISTS numbers;"
            "CREATE TABLE numbers (number BIGINT); INSERT INTO numbers VALUES (0)"
        )
    yield found
    for database in found:
        await database.close()


async def number(database: Reader) -> int:
    row = await database.one("SELECT number FROM numbers")
    assert row is not None
    return int(row[0])


def stand_still(url: str) -> None:
    """Lets this process go on once no transaction is left that has looked at the numbers, and that
    nobody goes on with. Others, just begun, hold nothing; they end as this process goes on."""
    binaries, _ = postgres_binaries()
    while subprocess.run(
        [binaries / "psql", url, "-Atc", LEFT],
        capture_output=True,
        check=True,
    ).stdout:
        pass


async def test_what_a_stopped_host_has_locked_is_free_for_others(
    hosts: list[PostgresDatabase],
) -> None:
    stopped, other = hosts

    async def write() -> None:
        async with stopped.transaction() as tx:
            await tx.run(ADD)
            async with other.transaction() as its:
                await its.run(ADD)
            await tx.run(ADD)

    with pytest.raises(Unavailable):
        await write()
    assert await number(other) == 1


@pytest.mark.parametrize("last", ["statement", "commit"])
async def test_a_host_that_goes_on_is_refused_and_can_write_again(
    hosts: list[PostgresDatabase], url: str, last: str
) -> None:
    stopped, other = hosts

    async def write() -> None:
        async with stopped.transaction() as tx:
            await tx.run(ADD)
            stand_still(url)
            if last == "statement":
                await tx.run(ADD)

    with pytest.raises(Unavailable) as refused:
        await write()
    assert refused.value.retry_after
    assert last == "commit" or not isinstance(refused.value, OutcomeUnknown)
    assert await number(other) == 0
    async with asyncio.timeout(20):
        while not await number(other):
            with suppress(Unavailable):
                async with stopped.transaction() as tx:
                    await tx.run(ADD)


async def write_in(database: PostgresDatabase, silence: Silence) -> None:
    async with database.transaction() as tx:
        await tx.run(ADD)
        await silence(tx)
        await tx.run(ADD)


async def read_in(database: PostgresDatabase, silence: Silence) -> None:
    async def work(reader: Reader) -> None:
        await silence(reader)
        await number(reader)

    await database.snapshot(work)


@pytest.mark.usefixtures("_briefly")
@pytest.mark.parametrize(
    ("hosts", "ask"), [("direct", write_in), ("pooled", read_in)], indirect=["hosts"]
)
async def test_whoever_waits_for_a_session_that_fell_silent_waits_for_one_statement(
    hosts: list[PostgresDatabase], ask: Ask
) -> None:
    database, _ = hosts
    session = 0

    async def silence(reader: Reader) -> None:
        nonlocal session
        row = await reader.one("SELECT pg_backend_pid()")
        assert row is not None
        session = row[0]
        os.kill(session, signal.SIGSTOP)

    try:
        with pytest.raises(Unavailable):
            async with asyncio.timeout(1.5 * BRIEF_SECONDS):
                await ask(database, silence)
    finally:
        os.kill(session, signal.SIGCONT)
    async with database.transaction() as tx:
        await tx.run(ADD)
    assert await number(database) == 1
