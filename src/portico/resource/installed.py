"""The installation's own kinds: loaded, with a table and a store in each environment.

`portico.app` imports this where there are kinds, and only there.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from portico.core.scopes import PERMISSIONS
from portico.data.database import Database
from portico.resource import tables
from portico.resource.compiled import Compiled
from portico.resource.loading import load
from portico.resource.store import Records


class Installed:
    """The kinds of a directory of files, with their scopes and events added to those of this
    process."""

    def __init__(
        self, directory: Path, roles: Iterable[str] = (), count_limit: int | None = None
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

    def stores(self, db: Database) -> Sequence[Records]:
        """The stores of the kinds in one environment."""
        return [Records(db, kind, self._count_limit) for kind in self._kinds]

    async def keep(self, db: Database) -> None:
        """Makes the tables of one environment as declared. Raises `MigrationError` and
        `Unavailable`."""
        if await self.is_behind(db):
            await tables.keep(db, self._kinds)

    async def is_behind(self, db: Database) -> bool:
        """Whether the tables of one environment are not as declared."""
        return await tables.is_behind(db, self._kinds)
