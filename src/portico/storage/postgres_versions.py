"""The versions of PostgreSQL's lists, by a connection of their own: whoever reads a list goes on
without one rather than wait."""

from collections.abc import Callable

import asyncpg

from portico.domain.errors import Unavailable
from portico.storage.filtered_totals import list_versions
from portico.storage.parts import ListPart, Part
from portico.storage.postgres_batches import Rows
from portico.storage.postgres_pool import Pool

CALLERS = 1_024
"""Who are told the version of a list by one statement: there are few lists."""

VERSION_SECONDS = 0.5
"""How long the version of a list is waited for, before the list is read without: twice, where the
connection has to be made or given back."""

PAUSE_SECONDS = 2.0
"""For how long nobody asks after a version that was not told; then one caller does."""


class ListVersions:
    """Those of one schema."""

    def __init__(self, pool: Pool, clock: Callable[[], float]) -> None:
        """`clock` is in seconds, and never goes back."""
        self._rows = Rows(pool, CALLERS, VERSION_SECONDS)
        self._clock = clock
        self._known: dict[Part, str] = {}
        """Of each list by its key: so that one text stands on all that is kept under it."""
        self._pause_ends = 0.0
        """0 where the last one was told."""

    async def of(self, part: ListPart) -> str | None:
        """The version that a list has now. None where it is not told in time."""
        if self._pause_ends:
            if self._clock() < self._pause_ends:
                return None
            self._pause()  # for all others: this one may wait
        try:
            row = await self._rows.one(list_versions(part.table), part.key)
        except (Unavailable, asyncpg.PostgresError):
            self._pause()
            return None
        self._pause_ends = 0.0
        if row is None:
            return None
        version: str = row[1]
        if (known := self._known.get(part[:2])) == version:
            return known
        self._known[part[:2]] = version
        return version

    def _pause(self) -> None:
        self._pause_ends = self._clock() + PAUSE_SECONDS
