"""Imports of records beside a running server.

Rows are stored in batches, each in a transaction so short that the server's own writes hardly wait;
between batches the writer is free. What is all or nothing is different: it takes one long
transaction, for which other writers wait.

Where a kind has nothing that looks at one row after the other (`Compiled.is_plain`), a batch is
stored by a few statements. Otherwise its rows are changes one by one, each with its rules. A row
that is refused then ends its transaction: those before it are stored, and the import goes on behind
it.
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Iterator
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from portico.change import Change
from portico.core.audit import Actor, Author
from portico.core.errors import (
    Conflict,
    Duplicate,
    Fault,
    Invalid,
    NotFound,
    PermissionDenied,
    PorticoError,
)
from portico.core.ids import MAX_ID
from portico.core.times import SECOND
from portico.data.database import Database, Transaction
from portico.data.table import Table, json_form
from portico.environment import Environment
from portico.resource.changes import (
    Changing,
    RulesTooSlow,
    carry_out,
    change_faults,
    followers_behind,
)
from portico.resource.compiled import Compiled
from portico.resource.file_rows import ROW, FileRow, ImportOutcome, Named
from portico.resource.files import columns_of
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
_SIZED_AT_ONCE = BatchLimits(100, 64 * 1024)
"""For this much of a file at a time, the sizes of the records that it changes are looked up."""

_BATCH_SECONDS = 0.25
"""After how long a transaction ends before the next row with rules: others wait for it."""

IDLE_SECONDS = 60
"""After how many idle seconds a job announces what an import has stored."""

IDLE_PERIOD = 10.0
"""Seconds between two checks for that."""

_OF_A_ROW = (Invalid, NotFound, Duplicate, Conflict, PermissionDenied, RulesTooSlow)
"""What refuses a row; anything else ends the import."""

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

    def __exit__(self, *_: object) -> None:
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


Keep = Callable[[Change, ImportOutcome], Awaitable[None]]
"""Stores the outcome of a batch, in its transaction."""


class _Tally:
    """What came of the first `rows` rows of a batch."""

    def __init__(self) -> None:
        self.rows = self.unchanged = 0
        self.inserted: list[int] = []
        self.updated: list[int] = []
        self.refused: list[FileRow] = []

    def note(self, kind: Compiled) -> RecordsImported | None:
        """The note of what is new or changed, if anything is."""
        changed = self.inserted or self.updated
        return kind.imported.of(self.inserted, self.updated) if changed else None

    def outcome(self, batch: list[FileRow]) -> ImportOutcome:
        """The outcome of these rows of a batch."""
        last = batch[self.rows - 1]
        self.refused.sort(key=attrgetter("line"))
        counts = len(self.inserted), len(self.updated), self.unchanged
        return ImportOutcome(last.line, last.end, *counts, self.refused)


async def store_in_batches(
    env: Environment,
    kind: Compiled,
    rows: Iterable[FileRow],
    by: Author,
    most: BatchLimits = LARGE,
    keep: Keep | None = None,
    after: int = 0,
) -> AsyncGenerator[ImportOutcome, None]:
    """Stores the rows without faults behind the line `after`; yields the outcome of each batch once
    it is on disk. What was yielded stays stored, whatever happens afterwards, and is noted at the
    end; if the process is killed before that, `tell_of_idle` notes it."""
    name = f"{env.random(16).hex()}:{kind.many}"
    stored = False

    async def end(changing: Changing, batch: list[FileRow], tally: _Tally) -> ImportOutcome:
        change, outcome = changing.change, tally.outcome(batch)
        if note := tally.note(kind):
            change.noted_elsewhere()
            untold = UntoldImport(name, change.by.actor, change.now, note)
            await env[Imports].add(change.tx, untold)
        if keep is not None:
            await keep(change, outcome)
        return outcome

    try:
        async for batch in _batches(env, kind, rows, most, after):
            async for outcome in _in_turn(env, kind, batch, by, end):
                stored = stored or bool(outcome.inserted or outcome.updated)
                yield outcome
                await followers_behind()
    finally:
        if stored:
            await env.change(by.without_principal, partial(announce, env, name, MAX_ID))


async def check_in_batches(
    env: Environment,
    kind: Compiled,
    rows: Iterable[FileRow],
    by: Author,
    most: BatchLimits = LARGE,
) -> AsyncGenerator[ImportOutcome, None]:
    """The outcomes that storing these rows now would have: where rows are changed one by one, they
    are, and each batch is rolled back."""

    async def end(_changing: Changing, batch: list[FileRow], tally: _Tally) -> ImportOutcome:
        raise _RolledBack(tally.outcome(batch), tally.rows)

    async for batch in _batches(env, kind, rows, most):
        if kind.is_plain:
            known = await kind.store(env).several(_ids(batch))
            yield _applied(kind, batch, known, 0).outcome(batch)
        else:
            async for outcome in _in_turn(env, kind, batch, by, end):
                yield outcome


async def store_at_once(
    env: Environment, kind: Compiled, spool: "Spool", by: Author, progress: Callable[[int], None]
) -> ImportOutcome:
    """Stores all rows, or none: then `refused` are those that cannot be stored. `progress` is
    called with the size of each batch; if it raises, everything is rolled back."""

    async def work(changing: Changing) -> ImportOutcome:
        unchanged = 0
        note: RecordsImported | None = None
        refused: list[FileRow] = []
        async for batch in _batches(env, kind, spool, LARGE):
            tally = await _store(changing, kind, batch, one_by_one=True)
            refused += tally.refused
            if tally.rows < len(batch):
                break  # in the middle of what a rule did with the transaction
            unchanged += tally.unchanged
            more = tally.note(kind)
            note = note.plus(more) if note and more else note or more
            progress(len(batch))
        if refused:
            raise _RolledBack(ImportOutcome(0, 0, 0, 0, 0, refused))
        if note is None:
            return ImportOutcome(0, 0, 0, 0, unchanged, [])
        changing.change.note(note)
        return ImportOutcome(0, 0, note.inserted, note.updated, unchanged, [])

    try:
        outcome: ImportOutcome = await carry_out(env, by, work)
    except _RolledBack as nothing:
        return nothing.outcome
    return outcome


class _RolledBack(Exception):
    """Nothing is stored: rows were only checked, or some of them cannot be stored."""

    def __init__(self, outcome: ImportOutcome, rows: int = 0) -> None:
        self.outcome = outcome
        self.rows = rows


class _RowRefused(Exception):
    """The row with this number in its batch cannot be stored."""

    def __init__(self, number: int, error: PorticoError) -> None:
        self.number = number
        self.error = error


async def _in_turn(
    env: Environment,
    kind: Compiled,
    batch: list[FileRow],
    by: Author,
    end: Callable[[Changing, list[FileRow], _Tally], Awaitable[ImportOutcome]],
) -> AsyncGenerator[ImportOutcome, None]:
    """Stores a batch in as few transactions as its rows allow; `end` is the end of each."""
    most = len(batch)

    async def work(changing: Changing) -> tuple[ImportOutcome, int]:
        # Whoever sent the file may have signed out since: their role is looked at instead.
        changing.change.checked = True
        tally = await _store(changing, kind, batch[:most])
        return await end(changing, batch, tally), tally.rows

    while batch:
        try:
            outcome, count = await carry_out(env, by, work)
        except _RolledBack as checked:
            outcome, count = checked.outcome, checked.rows
        except _RowRefused as refusal:
            batch[refusal.number] = _refused(kind, batch[refusal.number], refusal.error)
            most = refusal.number + 1
            continue
        except Duplicate as error:  # somebody else stored it at the same time
            if most == 1:
                batch[0] = _refused(kind, batch[0], error)
            most = 1
            continue
        yield outcome
        batch = batch[count:]
        most = len(batch)


async def _store(
    changing: Changing, kind: Compiled, batch: list[FileRow], *, one_by_one: bool = False
) -> _Tally:
    """Stores the first rows of a batch, as many as there is time for. Raises `_RowRefused`, unless
    they are taken `one_by_one`: what is refused is then reported with the others."""
    if kind.is_plain:
        return await _store_plain(changing, kind, batch)
    changing.in_bulk = True
    tally = _Tally()
    loop = asyncio.get_running_loop()
    ends = loop.time() + _BATCH_SECONDS
    for number, row in enumerate(batch):
        if number and not one_by_one and loop.time() >= ends:
            break
        if row.faults:
            tally.refused.append(row)
        else:
            try:
                await _store_row(changing, kind, row, tally)
            except _OF_A_ROW as error:
                if not one_by_one:
                    raise _RowRefused(number, error) from error
                tally.refused.append(_refused(kind, row, error))
                if isinstance(error, RulesTooSlow):
                    break
        tally.rows += 1
    return tally


async def _store_row(changing: Changing, kind: Compiled, row: FileRow, tally: _Tally) -> None:
    """Stores a row; its rules have the whole time."""
    changing.begin()
    if not row.id:
        made = await changing.create(kind, row.values, noted=False)
        tally.inserted.append(made.id)
        return
    values = row.values
    if row.emptied and (before := await kind.store(changing.env).get(row.id, changing.change.tx)):
        values = _changes(kind, before, row)
    found: list[Any] = []
    after = await changing.update(kind, row.id, values, found.append, noted=False)
    if after is found[0]:
        tally.unchanged += 1
    else:
        tally.updated.append(row.id)


async def _store_plain(changing: Changing, kind: Compiled, batch: list[FileRow]) -> _Tally:
    records, tx, now = kind.store(changing.env), changing.change.tx, changing.change.now
    known = await records.several(_ids(batch), tx)
    applied = _applied(kind, batch, known, now)
    if applied.pairs:
        await records.update_many(tx, applied.pairs)
    if applied.new:
        applied.inserted = [*await records.insert_many(tx, applied.new)]
    return applied


class _Applied(_Tally):
    """The rows of a batch, applied to what is stored."""

    def __init__(self) -> None:
        super().__init__()
        self.new: list[Any] = []
        self.pairs: list[tuple[Any, Any]] = []


def _ids(batch: list[FileRow]) -> Collection[int]:
    return [row.id for row in batch if row.id and not row.faults]


def _applied(kind: Compiled, batch: list[FileRow], known: dict[int, Any], now: int) -> _Applied:
    applied = _Applied()
    named = Named()  # checked again: a record may have been created after `_batches` checked it
    for row in batch:
        if row.faults:
            applied.refused.append(row)
        elif not row.id:
            applied.new.append(kind.new(row.values, now))
        else:
            before = known.get(row.id)
            faults = _change_faults(kind, before, row, named)
            if faults:
                applied.refused.append(FileRow(row.line, row.end, {}, faults, row.id))
            elif (after := kind.changed(before, _changes(kind, before, row))) == before:
                applied.unchanged += 1
            else:
                applied.updated.append(row.id)
                after = msgspec.structs.replace(after, updated_at=now)
                applied.pairs.append((before, after))
    applied.rows = len(batch)
    applied.inserted = [0] * len(applied.new)
    return applied


def _change_faults(kind: Compiled, before: Any, row: FileRow, named: Named) -> list[Fault]:
    if before is None:
        return [columns_of(kind).missing(row.id)]
    faults = change_faults(kind, before, row.values)[:1]
    return faults or ([] if named.add(row.id) else [REPEATED_ID])


def _changes(kind: Compiled, before: Any, row: FileRow) -> dict[str, Any]:
    """The values of a row that changes a record: what is empty already stays as it is."""
    if not row.emptied:
        return row.values
    kept = [name for name in row.emptied if kind.stored(before, kind.by_name[name]) == ""]
    return {name: value for name, value in row.values.items() if name not in kept}


def _refused(kind: Compiled, row: FileRow, error: PorticoError) -> FileRow:
    faults = [columns_of(kind).missing(row.id)] if isinstance(error, NotFound) else [*error.details]
    return FileRow(row.line, row.end, {}, faults or [Fault(ROW, error.message)], row.id)


async def _batches(
    env: Environment, kind: Compiled, rows: Iterable[FileRow], most: BatchLimits, after: int = 0
) -> AsyncGenerator[list[FileRow], None]:
    """The rows behind the line `after`, in batches of bounded size. A row that names the same
    record as an earlier row is faulty: it would undo that row."""
    batch: list[FileRow] = []
    named = Named()
    start = records = 0
    async for row, size in _sized(env, kind, rows):
        if size and not named.add(row.id):  # ids without a record need no memory
            row.faults.append(REPEATED_ID)
        if row.line <= after:
            start = row.end
            continue
        batch.append(row)
        records += size
        if len(batch) >= most.rows or row.end - start + records >= most.size:
            yield batch
            batch, start, records = [], row.end, 0
    if batch:
        yield batch


async def _sized(
    env: Environment, kind: Compiled, rows: Iterable[FileRow]
) -> AsyncGenerator[tuple[FileRow, int], None]:
    """The rows as `in_turns`, each with the size in bytes of the record that it changes."""
    records = kind.store(env)
    some: list[FileRow] = []
    end = 0

    async def with_sizes() -> list[tuple[FileRow, int]]:
        sizes = await records.sizes({row.id for row in some if row.id})
        return [(row, sizes.get(row.id, 0)) for row in some]

    async for row in in_turns(rows):
        some.append(row)
        if len(some) == _SIZED_AT_ONCE.rows or row.end - end >= _SIZED_AT_ONCE.size:
            for each in await with_sizes():
                yield each
            some, end = [], row.end
    for each in await with_sizes():
        yield each
