"""On PostgreSQL the audit log goes by whole ranges, where others let it, and has some ahead."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from driving import NOON, FakeClock, settings_for
from portico.app import Portico
from portico.core.audit import Entry
from portico.core.times import DAY
from portico.data.database import Reader
from portico.environment import Environment
from portico.features.events.audit import RANGE, Audit, AuditRanges
from portico.features.events.audit_removal import (
    DROP_PAUSE_SECONDS,
    DROP_TRIES,
    PAUSE_SECONDS,
    MakeAuditRanges,
    RemoveAudit,
)
from portico.features.events.schemas import entry_out, rows
from portico.jobs.runner import Lease
from portico.settings import Settings
from servers import PostgresServer

pytestmark = pytest.mark.xdist_group("ranges")  # they share their database

BOUND = NOON // DAY * DAY + 70 * DAY
FULL = 50
MANY = 450
LINES = partial(rows, "ndjson")

_NAMES = """
SELECT CAST(inhrelid::regclass AS TEXT) FROM pg_inherits WHERE inhparent = 'audit'::regclass"""
_NOTE = """
INSERT INTO audit (id, at, action, credential, details) OVERRIDING SYSTEM VALUE
VALUES (:id, :at, 'sign_out', 'none', '{}')"""


async def at_once(_seconds: float) -> None:
    """Lets no time pass."""


async def removed(env: Environment) -> None:
    await RemoveAudit(env, "this", LINES, at_once).run()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="module")
async def prepared(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The settings of an installation whose database is copied for each test."""
    url = {"PORTICO_DATABASE_URL": postgres.fresh_database()}
    settings = settings_for(tmp_path_factory.mktemp("ranges"), url)
    portico = Portico(settings, clock=FakeClock(), create=True)
    await portico.open()
    await portico.close()
    return settings


@pytest.fixture
async def env(
    postgres: PostgresServer, prepared: Settings, clock: FakeClock
) -> AsyncIterator[Environment]:
    """An environment a hundred days after its start, on a database of its own, without its jobs.
    Entries older than thirty days go, of which it has none."""
    url = postgres.fresh_database(prepared.database_url)
    portico = Portico(replace(prepared, database_url=url), clock=clock)
    await portico.open()
    clock.advance(days=100)
    portico.live.settings = replace(portico.live.settings, audit_days=30)
    await removed(portico.live)
    yield portico.live
    await portico.close()


@pytest.fixture
async def full(env: Environment) -> Environment:
    """One with a range of which all is old, an old entry of the next, and one that is not old."""
    ids = [*(FULL * RANGE + n for n in range(MANY)), (FULL + 1) * RANGE]
    old = [{"id": id_, "at": BOUND - 1} for id_ in ids]
    async with env.db.transaction() as tx:
        await env[AuditRanges].make(tx, FULL)
        await tx.run_many(_NOTE, [*old, {"id": ids[-1] + 1, "at": BOUND}])
    return env


async def kept(env: Environment) -> list[Entry]:
    return list(reversed(await env[Audit].page(limit=2 * MANY)))


async def has_range(env: Environment, number: int = FULL) -> bool:
    names = {row[0] for row in await env.db.all(_NAMES)}
    return f"audit_{number}" in names


async def test_a_range_goes_at_once(full: Environment, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    full.settings = replace(full.settings, audit_archive=archive)
    before = await kept(full)
    pauses = []

    async def wait(seconds: float) -> None:
        pauses.append(seconds)

    assert await has_range(full)
    await RemoveAudit(full, "this", LINES, wait).run()
    assert not await has_range(full)
    assert await kept(full) == before[-1:]
    assert pauses == [PAUSE_SECONDS], "for the entry that is not of the range"
    (file,) = archive.glob("*")
    exported = [msgspec.json.encode(entry_out(entry)) for entry in before[:-1]]
    assert gzip.decompress(file.read_bytes()).splitlines() == exported


async def test_whoever_reads_the_log_is_waited_for(full: Environment) -> None:
    reading, read = asyncio.Event(), asyncio.Event()
    pauses = []

    async def read_until(reader: Reader) -> None:
        await reader.all("SELECT 1 FROM audit LIMIT 1")
        reading.set()
        await read.wait()

    async def wait(seconds: float) -> None:
        pauses.append(seconds)
        read.set()
        await reader

    reader = asyncio.create_task(full.db.snapshot(read_until))
    await reading.wait()
    await RemoveAudit(full, "this", LINES, wait).run()
    assert not await has_range(full)
    assert pauses == [DROP_PAUSE_SECONDS, PAUSE_SECONDS]


async def test_where_somebody_reads_for_long_entries_go_in_batches(full: Environment) -> None:
    async def beside(reader: Reader) -> None:
        await reader.all("SELECT 1 FROM audit LIMIT 1")
        await removed(full)

    await full.db.snapshot(beside)
    assert [entry.at for entry in await kept(full)] == [BOUND]
    assert await has_range(full)
    await removed(full)
    assert not await has_range(full), "empty, it goes the next time"


async def test_what_keeps_a_range_from_its_end_keeps_no_entry(
    full: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    async with full.db.transaction() as tx:
        await tx.script(f"CREATE VIEW report AS TABLE audit_{FULL}")
    pauses = []

    async def wait(seconds: float) -> None:
        pauses.append(seconds)

    await RemoveAudit(full, "this", LINES, wait).run()
    assert [entry.at for entry in await kept(full)] == [BOUND]
    assert f"audit_{FULL} cannot be dropped" in caplog.text
    assert "depend" in caplog.text
    assert pauses.count(DROP_PAUSE_SECONDS) == DROP_TRIES


async def test_ranges_are_made_by_whoever_has_the_lease(env: Environment) -> None:
    assert await env[AuditRanges].missing() == [2]
    async with Lease(env, "audit_ranges", "elsewhere").held():
        await MakeAuditRanges(env, "this").run()
    assert await env[AuditRanges].missing() == [2]
    await asyncio.gather(*(MakeAuditRanges(env, f"host {n}").run() for n in range(4)))
    assert await env[AuditRanges].missing() == []
