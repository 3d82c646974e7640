"""The versions of lists on PostgreSQL, read by their own connection. If a version does not come in
time, the list is read without it."""

from collections.abc import Callable

import asyncpg

from portico.core.errors import Unavailable
from portico.data.database import Dependency, ListDependency
from portico.data.filtered_totals import list_versions
from portico.data.postgres.batches import Rows
from portico.data.postgres.pool import Pool

CALLERS = 1_024
"""The most callers that share a statement, which stays short, since there are few lists."""

VERSION_SECONDS = 0.5
"""How long to wait for the version of a list before the list is read without it; up to twice that
if the connection must be opened or is in use."""

PAUSE_SECONDS = 2.0
"""After a version did not come, no caller asks for this long; then one does."""


class ListVersions:
    """The versions of the lists of one schema."""

    def __init__(self, pool: Pool, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds."""
        self._rows = Rows(pool, CALLERS, VERSION_SECONDS)
        self._clock = clock
        self._known: dict[Dependency, str] = {}
        """The last version of each list by key, so that all cached answers share one string."""
        self._pause_ends = 0.0
        """0 if the last version came."""

    async def of(self, part: ListDependency) -> str | None:
        """The current version of a list, or None if it does not come in time."""
        if self._pause_ends:
            if self._clock() < self._pause_ends:
                return None
            self._pause()  # for all other callers: this one may wait
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
