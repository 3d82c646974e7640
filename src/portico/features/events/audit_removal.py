"""Removes old entries of the audit log, after writing them to the archive if there is one.

A day's entries are written to a file, which is complete and on disk before they are released.
Released entries are then removed, a few rows at a time. If a process is killed in between, the file
is written again with the same content, or the rest of the released entries are removed without
another file. A process that loses the lease during an export leaves no file, since another process
may be removing what it reads.
"""

import asyncio
import gzip
import logging
import os
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from portico.core.audit import Entry
from portico.core.errors import Unavailable
from portico.core.times import DAY, date
from portico.data.disk import replace_durably
from portico.environment import Environment
from portico.features.events.audit import EXPORT_BATCH, Audit, AuditRanges
from portico.jobs.runner import Lease, Wait

PAUSE_SECONDS = 0.01
"""The pause between two batches, for other writers."""

DROP_TRIES = 5
"""How often dropping a partition in use is tried, before its entries are removed in batches."""

DROP_PAUSE_SECONDS = 2.0
"""Between two tries."""

log = logging.getLogger(__name__)

Lines = Callable[[Iterable[Entry]], bytes]
"""Encodes entries for an export, one line each."""


class RemoveAudit:
    """Removes old entries of one environment, in one process at a time."""

    def __init__(
        self, env: Environment, holder: str, lines: Lines, wait: Wait = asyncio.sleep
    ) -> None:
        """`holder` is a name that no other process uses."""
        self._env = env
        self._lease = Lease(env, "audit", holder)
        self._lines = lines
        self._wait = wait

    async def run(self) -> None:
        """Removes all entries of days that are more than `audit_days` past. Raises `Unavailable`;
        then the next run does the rest."""
        env = self._env
        if env.settings.audit_days is None:
            return
        before = (env.clock() // DAY - env.settings.audit_days) * DAY
        is_due = await env[Audit].oldest_time(0, before) is not None
        if not is_due and not await env[AuditRanges].released():  # one could not be dropped before
            return
        async with self._lease.held() as mine:
            while mine:
                released = await env[Audit].released()
                mine = await self._remove(released) and await self._release(released, before)

    async def _remove(self, up_to: int) -> bool:
        """Removes released entries; returns whether the lease was kept."""
        for number in await self._env[AuditRanges].released():
            if not await self._drop(number):
                return False
        last = 0
        while True:
            async with self._env.db.transaction() as tx:
                if not await self._lease.renewed(tx):
                    return False
                last = await self._env[Audit].remove(tx, last, up_to)
            if not last:
                return True
            await self._wait(PAUSE_SECONDS)

    async def _drop(self, number: int) -> bool:
        """Drops a partition, or leaves it, so that its entries are removed in batches; returns
        whether the lease was kept."""
        for _ in range(DROP_TRIES):
            try:
                async with self._env.db.transaction() as tx:
                    if mine := await self._lease.renewed(tx):
                        await self._env[AuditRanges].drop(tx, number)
            except Exception as error:  # noqa: BLE001 - a lock, or a view made by an operator
                refusal = error
                await self._wait(DROP_PAUSE_SECONDS)
            else:
                return mine
        log.warning("audit_%d cannot be dropped, so its entries are removed: %s", number, refusal)
        return True

    async def _release(self, released: int, before: int) -> bool:
        """Archives and releases the next day's entries; False if none is old enough, or if another
        process has the lease."""
        env = self._env
        oldest = await env[Audit].oldest_time(released, before)
        if oldest is None:
            return False
        day = oldest // DAY
        try:
            last = await self._archived(released, day)
        except OSError as error:
            raise Unavailable(
                f"The audit archive {env.settings.audit_archive} cannot be written:"
                f" {error.strerror}."
            ) from error
        if last is None:
            return False
        async with env.db.transaction() as tx:
            if mine := await self._lease.renewed(tx):
                await env[Audit].release(tx, last)
        return mine

    async def _archived(self, released: int, day: int) -> int | None:
        """Writes a day's entries to the archive; returns the id of the last one.
        None if another process has taken the lease."""
        file = None
        if self._env.settings.audit_archive is not None:
            file = await asyncio.to_thread(_File, self._env.settings.audit_archive, self._env.name)
        first, last = 0, released
        try:
            while batch := await self._env[Audit].oldest(last, (day + 1) * DAY, EXPORT_BATCH):
                first, last = first or batch[0].id, batch[-1].id
                if file is not None:
                    await asyncio.to_thread(file.write, self._lines(batch))
                # Still having the lease proves that no other process removed entries before the
                # read.
                async with self._env.db.transaction() as tx:
                    if not await self._lease.renewed(tx):
                        return None
            if file is not None:
                name = f"{self._env.name}-{date(day)}-{first}-{last}.jsonl.gz"
                await asyncio.to_thread(file.keep, name)
        finally:
            if file is not None:
                await asyncio.to_thread(file.close)
        return last


class MakeAuditRanges:
    """Creates the partitions for one environment's next entries, in one process at a time."""

    def __init__(self, env: Environment, holder: str) -> None:
        """`holder` is a name that no other process uses."""
        self._env = env
        self._lease = Lease(env, "audit_ranges", holder)

    async def run(self) -> None:
        """Creates all missing partitions, or leaves that to the next run if a reader of the log
        takes long. Raises `Unavailable`."""
        ranges = self._env[AuditRanges]
        if not await ranges.missing():
            return
        async with self._lease.held() as mine:
            for number in await ranges.missing() if mine else ():
                try:
                    async with self._env.db.transaction() as tx:
                        if not await self._lease.renewed(tx):
                            return
                        await ranges.make(tx, number)
                except Unavailable as error:
                    if error.why != "locked":
                        raise
                    return


class _File:
    """A file that appears in a directory only once it is complete and on disk."""

    def __init__(self, directory: Path, environment: str) -> None:
        """Also removes parts of earlier exports of this environment that were cut off."""
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._directory = directory
        for left in directory.glob(f"audit-{environment}-*.part"):
            left.unlink(missing_ok=True)
        number, name = tempfile.mkstemp(".part", f"audit-{environment}-", directory)
        self._part = Path(name)
        self._file = os.fdopen(number, "wb")
        self._packed = gzip.GzipFile("", "wb", fileobj=self._file, mtime=0)

    def write(self, content: bytes) -> None:
        self._packed.write(content)

    def keep(self, name: str) -> None:
        """Gives the file its name, replacing any file of that name."""
        self._packed.close()
        self._file.flush()
        replace_durably(self._part, self._directory / name)

    def close(self) -> None:
        """Removes the file unless it was kept, also if the disk is full."""
        self._part.unlink(missing_ok=True)
        with suppress(OSError):
            self._packed.close()
        self._file.close()
