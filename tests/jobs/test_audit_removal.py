"""Old entries of the audit log go into the archive, and only then out of the database."""

import asyncio
import gzip
import random
import resource
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pytest

from driving import NOON, Api
from jobs.conftest import Waiting
from portico.core.audit import Entry
from portico.core.errors import Unavailable
from portico.core.times import DAY
from portico.data.table import BATCH
from portico.features.events import audit_removal
from portico.features.events.audit import Audit
from portico.features.events.audit_removal import PAUSE_SECONDS, RemoveAudit
from portico.features.events.schemas import entry_out, rows

TODAY = NOON // DAY * DAY + 100 * DAY
BOUND = TODAY - 30 * DAY
OLD = 2 * BATCH + 50
LINES = partial(rows, "ndjson")


async def at_once(_seconds: float) -> None:
    """Lets no time pass."""


@pytest.fixture
async def empty_archive(api: Api, tmp_path: Path) -> Path:
    """Where entries older than thirty days go, of which there are none."""
    api.clock.advance(days=100)
    api.live.settings = replace(api.live.settings, audit_days=30)
    await RemoveAudit(api.live, "this", LINES, at_once).run()  # what the start has left
    api.live.settings = replace(api.live.settings, audit_archive=tmp_path / "archive")
    return tmp_path / "archive"


@pytest.fixture
async def archive(api: Api, empty_archive: Path) -> Path:
    """As `empty_archive`, with many entries of one day, three of the next."""
    await note(api, [BOUND - 2 * DAY] * OLD + [BOUND - 1] * 3 + [BOUND, TODAY])
    return empty_archive


async def note(api: Api, times: list[int]) -> None:
    """Writes entries of these times."""
    async with api.live.db.transaction() as tx:
        await tx.run_many(
            "INSERT INTO audit (at, action, credential, details)"
            " VALUES (:at, 'sign_out', 'none', '{}')",
            [{"at": at} for at in times],
        )


async def kept(api: Api) -> list[Entry]:
    return list(reversed(await api.live[Audit].page(limit=9 * BATCH)))


def archived(archive: Path) -> dict[str, list[bytes]]:
    """The lines of each file, by its name."""
    return {
        file.name: gzip.decompress(file.read_bytes()).splitlines()
        for file in sorted(archive.glob("*"))
    }


def exported(entries: Iterable[Entry]) -> list[bytes]:
    return [msgspec.json.encode(entry_out(entry)) for entry in entries]


async def test_each_day_goes_into_a_file_and_then_out_of_the_log(api: Api, archive: Path) -> None:
    before = await kept(api)
    first, second, rest = before[:OLD], before[OLD : OLD + 3], before[OLD + 3 :]
    await RemoveAudit(api.live, "this", LINES, at_once).run()
    assert archived(archive) == {
        f"live-2026-05-22-{first[0].id}-{first[-1].id}.jsonl.gz": exported(first),
        f"live-2026-05-23-{second[0].id}-{second[-1].id}.jsonl.gz": exported(second),
    }
    assert await kept(api) == rest
    await RemoveAudit(api.live, "this", LINES, at_once).run()
    assert len(archived(archive)) == 2
    assert await kept(api) == rest


async def test_whoever_is_killed_amid_the_removal_is_followed_without_another_file(
    api: Api, archive: Path, waiting: Waiting
) -> None:
    before = await kept(api)
    removing = asyncio.create_task(RemoveAudit(api.live, "this", LINES, waiting).run())
    seconds, _ = await waiting.next()
    assert seconds == PAUSE_SECONDS
    assert await kept(api) == before[BATCH:], "a batch at a time"
    removing.cancel()
    await asyncio.gather(removing, return_exceptions=True)
    whole = archived(archive)
    assert list(whole.values()) == [exported(before[:OLD])]
    await RemoveAudit(api.live, "another", LINES, at_once).run()
    assert [*archived(archive).values()] == [
        exported(before[:OLD]),
        exported(before[OLD : OLD + 3]),
    ]
    assert await kept(api) == before[OLD + 3 :]


@pytest.mark.one_engine
async def test_an_export_is_alone_however_long_it_takes(
    api: Api, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_removal, "EXPORT_BATCH", BATCH)
    before = await kept(api)
    others: list[asyncio.Task[None]] = []

    def idle(_entries: Iterable[Entry]) -> bytes:
        raise AssertionError

    def slow(entries: Iterable[Entry]) -> bytes:
        api.clock.advance(seconds=40)  # of the minute that the lease lasts
        others.append(asyncio.create_task(RemoveAudit(api.live, "other", idle, at_once).run()))
        return LINES(entries)

    await RemoveAudit(api.live, "this", slow, at_once).run()
    await asyncio.gather(*others)
    assert [*archived(archive).values()] == [
        exported(before[:OLD]),
        exported(before[OLD : OLD + 3]),
    ]


@pytest.mark.one_engine
async def test_a_full_disk_gets_no_part_of_a_file(
    api: Api, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await kept(api)
    monkeypatch.setattr(audit_removal, "EXPORT_BATCH", BATCH)
    limits, left = resource.getrlimit(resource.RLIMIT_FSIZE), 4 * 2**20
    sizes = iter((left - 5_000, 7_000, 7_000))

    def incompressible(_entries: Iterable[Entry]) -> bytes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (left, limits[1]))
        return random.randbytes(next(sizes))  # noqa: S311 - nothing secret

    try:
        with pytest.raises(Unavailable, match="cannot be written: File too large"):
            await RemoveAudit(api.live, "this", incompressible, at_once).run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert archived(archive) == {}
    assert await kept(api) == before


@pytest.mark.one_engine
async def test_without_an_archive_they_go_and_without_a_bound_they_stay(
    api: Api, archive: Path
) -> None:
    api.live.settings = replace(api.live.settings, audit_archive=None)
    before = await kept(api)
    await RemoveAudit(api.sandbox, "this", LINES, at_once).run()
    days = api.live.settings.audit_days
    api.live.settings = replace(api.live.settings, audit_days=None)
    await RemoveAudit(api.live, "this", LINES, at_once).run()
    assert await kept(api) == before
    api.live.settings = replace(api.live.settings, audit_days=days)
    await RemoveAudit(api.live, "this", LINES, at_once).run()
    assert await kept(api) == before[OLD + 3 :]
    assert archived(archive) == {}
