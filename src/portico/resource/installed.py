"""The installation's own kinds: loaded, with a table and a store in each environment.

`portico.app` imports this where there are kinds, and only there.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

from portico.core.errors import Unavailable
from portico.core.scopes import PERMISSIONS
from portico.data.database import Database
from portico.environment import Environment
from portico.resource import tables
from portico.resource.changes import followers_ended, releasing
from portico.resource.compiled import Compiled
from portico.resource.loading import load
from portico.resource.store import Records

FOLLOWERS_SECONDS = 5.0
"""How long the end of the process waits for what follows changes."""


class Installed:
    """The kinds of a directory of files, with their scopes and events added to those of this
    process."""

    def __init__(
        self,
        directory: Path,
        roles: Iterable[str] = (),
        count_limit: int | None = None,
    ) -> None:
        """`roles` are those of the settings, besides Portico's own; `count_limit` is the most
        records to count for a filter. Raises `KindsError`."""
        self._kinds = load(directory, frozenset(roles))
        self._kinds.register()
        self._count_limit = count_limit

    def grant(self) -> None:
        """Gives the kinds' scopes to those roles that were added after them."""
        for kind in self._kinds:
            for scope, roles in ((kind.reads, kind.kind.readers), (kind.writes, kind.kind.writers)):
                for role in roles:
                    PERMISSIONS.of_role[role] |= {scope}

    @property
    def kinds(self) -> Sequence[Compiled]:
        """The kinds, by number."""
        return self._kinds

    def serve(self, environment: Environment) -> None:
        """Gives an environment the stores of the kinds, and what their references need."""
        db = environment.db
        environment.records = [Records(db, kind, self._count_limit) for kind in self._kinds]
        environment.stores |= {records.kind.many: records for records in environment.records}
        environment.release = releasing(environment)
        environment.check_kinds = partial(self.check, db)

    async def keep(self, db: Database, now: int) -> bool:
        """Makes the tables of one environment as declared; returns whether they were not. Raises
        `GrowthError` and `Unavailable`."""
        behind = await self.is_behind(db)
        await (tables.keep if behind else tables.follow_up)(db, self._kinds, now)
        return behind

    async def check(self, db: Database) -> None:
        """Raises `Unavailable` unless the database was last migrated to these files."""
        if await self.is_behind(db):
            raise Unavailable(
                "The files of kinds are others than the database's: run portico migrate first.",
                why=tables.OTHER_FILES,
            )

    async def close(self) -> None:
        """Waits a moment for what follows changes."""
        await followers_ended(FOLLOWERS_SECONDS)

    async def is_behind(self, db: Database) -> bool:
        """Whether the tables of one environment are not as declared."""
        return await tables.is_behind(db, self._kinds)
