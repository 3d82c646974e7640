"""What imports have stored and not announced yet. Such a row exists while an import runs, and stays
if it was killed."""

import msgspec

from portico.domain.audit import Actor
from portico.domain.events.products import ProductsImported
from portico.domain.ids import MAX_ID
from portico.storage.database import Database, Transaction
from portico.storage.table import Table, json_form


class UntoldImport(msgspec.Struct, frozen=True):
    """What one import has stored so far; `at` is the time of its last batch, in epoch
    milliseconds."""

    name: str
    actor: Actor
    at: int
    stored: ProductsImported


IMPORTS = Table(
    "untold_imports",
    UntoldImport,
    forms={"actor": json_form(Actor), "stored": json_form(ProductsImported)},
)
_ADD = """
INSERT INTO untold_imports (name, actor, at, stored) VALUES (:name, :actor, :at, :stored)"""
_TAKE = f"DELETE FROM untold_imports WHERE name = :name AND at <= :at RETURNING {IMPORTS.columns}"
_TAKE_ALL = f"DELETE FROM untold_imports RETURNING {IMPORTS.columns}"
_IDLE = f"SELECT {IMPORTS.columns} FROM untold_imports WHERE at <= :at"


class Imports:
    """The imports of one environment that are running or were killed."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, tx: Transaction, batch: UntoldImport) -> None:
        """Adds a batch to what its import has stored and not announced."""
        # Taken, not read: another process may be about to announce it.
        earlier = await self.take(tx, batch.name, MAX_ID)
        if earlier is not None:
            batch = msgspec.structs.replace(batch, stored=earlier.stored.plus(batch.stored))
        await tx.run(_ADD, IMPORTS.values(batch))

    async def take(self, tx: Transaction, name: str, at: int) -> UntoldImport | None:
        """Removes and returns what an import has stored, for the caller to announce. None if it was
        announced already, or if the import has stored more since `at`."""
        row = await tx.one(_TAKE, {"name": name, "at": at})
        return IMPORTS.read(row) if row else None

    async def take_all(self, tx: Transaction) -> list[UntoldImport]:
        """As `take`, for all imports."""
        return IMPORTS.read_all(await tx.all(_TAKE_ALL))

    async def idle(self, at: int) -> list[UntoldImport]:
        """The imports that have stored nothing since `at`. There are few."""
        return IMPORTS.read_all(await self._db.all(_IDLE, {"at": at}))
