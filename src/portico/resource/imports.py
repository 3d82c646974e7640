"""What all imports share: their batches, and the notes of what was stored.

Rows are stored in batches, each in a transaction so short that the server's own writes hardly wait;
between batches the writer is free. What is all or nothing is different: it takes one long
transaction, for which other writers wait.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Iterable, Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec

from portico.change import Change
from portico.core.audit import Actor, Author
from portico.core.errors import Fault
from portico.core.ids import MAX_ID
from portico.core.times import SECOND
from portico.data.database import Database, Transaction
from portico.data.table import Table, json_form
from portico.environment import Environment
from portico.resource.file_rows import FileRow
from portico.resource.notes import IMPORTED, RecordsImported


class BatchLimits(NamedTuple):
    """The limits of a batch, which bound memory whatever the rows contain."""

    rows: int
    size: int
    """In bytes: of the rows in the file, and of the records that they change."""


LARGE = BatchLimits(500, 1024 * 1024)
"""For a process of its own: the changes of others wait about 30 ms, plus the commit."""
SMALL = BatchLimits(300, 256 * 1024)
"""For a process that serves requests: other changes wait about 25 ms, plus the commit."""

_SLICE = BatchLimits(25, 16 * 1024)
"""After this much of a file the event loop runs other tasks."""

IDLE_SECONDS = 60
"""After how many idle seconds a job announces what an import has stored."""

IDLE_PERIOD = 10.0
"""Seconds between two checks for that."""

REPEATED_ID = Fault("id", "is also in an earlier row: remove one of the two")


class UntoldImport(msgspec.Struct, frozen=True):
    """What one import has stored so far; `at` is the time of its last batch, in epoch
    milliseconds. `name` ends in a colon and the name of the kind."""

    name: str
    actor: Actor
    at: int
    stored: RecordsImported

    @property
    def note(self) -> RecordsImported | None:
        """The note of it; None if the installation has no such kind any more."""
        kind = IMPORTED.get(self.name.partition(":")[2])
        return None if kind is None else kind(*msgspec.structs.astuple(self.stored))


IMPORTS = Table(
    "untold_imports",
    UntoldImport,
    forms={"actor": json_form(Actor), "stored": json_form(RecordsImported)},
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


async def tell_of_idle(env: Environment) -> None:
    """Notes what was stored by imports that have been idle for `IDLE_SECONDS`, because they were
    killed or wait for more input. What they store later is noted separately. Raises
    `Unavailable`."""
    for idle in await env[Imports].idle(env.clock() - IDLE_SECONDS * SECOND):
        await env.change(Author(idle.actor), partial(announce, env, idle.name, idle.at))


async def announce(env: Environment, name: str, at: int, change: Change) -> None:
    """Notes what an import has stored, if it has stored nothing since `at`."""
    untold = await env[Imports].take(change.tx, name, at)
    if untold is not None and (note := untold.note):
        change.note(note)


class Spool:
    """Checked rows in a temporary file, so that the transaction that stores them need not check any
    rule and is as short as possible. Deleted on exit."""

    def __init__(self, directory: Path | None) -> None:
        """`directory` needs as much free space as the imported file; None: the system's directory
        for temporary files."""
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - closed by __exit__
        self.size = 0
        """The number of rows."""
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(FileRow)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, row: FileRow) -> None:
        """Appends a row without faults."""
        self._file.write(self._encoder.encode(row) + b"\n")
        self.size += 1

    def __iter__(self) -> Iterator[FileRow]:
        """All rows, from the first."""
        self._file.seek(0)
        return map(self._decoder.decode, self._file)


async def in_turns(rows: Iterable[FileRow]) -> AsyncGenerator[FileRow, None]:
    """The rows of a file; lets the event loop run other tasks in between."""
    count = end = 0
    for row in rows:
        count += 1
        if count >= _SLICE.rows or row.end - end >= _SLICE.size:
            await asyncio.sleep(0)
            count, end = 0, row.end
        yield row
