"""Imports large numbers of products beside a running server (`resource.imports`)."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import msgspec

from portico.change import Change
from portico.core.audit import Author
from portico.core.errors import Conflict, Fault
from portico.core.ids import MAX_ID
from portico.environment import Environment
from portico.features.catalogue.products import PRODUCTS
from portico.features.catalogue.rules import Product
from portico.features.catalogue.storage import Products
from portico.resource.changes import change_faults
from portico.resource.file_rows import FileRow, ImportOutcome, Named
from portico.resource.imports import (
    LARGE,
    REPEATED_ID,
    BatchLimits,
    Imports,
    Spool,
    UntoldImport,
    announce,
    in_turns,
)
from portico.resource.notes import RecordsImported

_SIZED_AT_ONCE = BatchLimits(100, 64 * 1024)
"""For this much of a file at a time, the sizes of the products that it changes are looked up."""

Keep = Callable[[Change, ImportOutcome], Awaitable[None]]
"""Stores the outcome of a batch, in its transaction."""


class _Batch(msgspec.Struct):
    """Some rows of a file: new products, changes, and faulty
    rows. `line` is its last line; `start` and `end` are byte offsets."""

    start: int
    new: list[Product] = []
    changes: list[FileRow] = []
    faulty: list[FileRow] = []
    line: int = 0
    end: int = 0


class _Changed(NamedTuple):
    """The result of rows with ids: products before and after, the number of rows that change
    nothing, and the rows that were refused."""

    pairs: list[tuple[Product, Product]]
    unchanged: int
    refused: list[FileRow]


async def store_in_batches(
    env: Environment,
    rows: Iterable[FileRow],
    by: Author,
    most: BatchLimits = LARGE,
    keep: Keep | None = None,
    after: int = 0,
) -> AsyncGenerator[ImportOutcome, None]:
    """Stores the rows without faults behind the line `after`; yields the outcome of each batch once
    it is on disk. What was yielded stays stored, whatever happens afterwards, and is noted at the
    end; if the process is killed before that, `tell_of_idle` notes it."""
    name = f"{env.random(16).hex()}:products"
    stored = False
    try:
        async for batch in _batches(env, rows, env.clock(), most, after):
            outcome = await env.change(by, partial(_store_batch, env, name, batch, keep))
            stored = stored or bool(outcome.inserted or outcome.updated)
            yield outcome
    finally:
        if stored:
            await env.change(by, partial(announce, env, name, MAX_ID))


async def check_in_batches(
    env: Environment, rows: Iterable[FileRow], most: BatchLimits = LARGE
) -> AsyncIterator[ImportOutcome]:
    """The outcomes that storing these rows now would have."""
    async for batch in _batches(env, rows, 0, most):
        ids = [row.id for row in batch.changes]
        yield _outcome(batch, _apply(batch, await env[Products].several(ids), 0))


async def _store_batch(
    env: Environment, name: str, batch: _Batch, keep: Keep | None, change: Change
) -> ImportOutcome:
    applied, stored = await _store(env, batch, change)
    outcome = _outcome(batch, applied)
    if stored is not None:
        change.noted_elsewhere()
        untold = UntoldImport(name, change.by.actor, change.now, stored)
        await env[Imports].add(change.tx, untold)
    if keep is not None:
        await keep(change, outcome)
    return outcome


async def _store(
    env: Environment, batch: _Batch, change: Change
) -> tuple[_Changed, RecordsImported | None]:
    """Stores a batch; also returns the note of what is new or changed, if anything is."""
    known = await env[Products].several([row.id for row in batch.changes], change.tx)
    applied = _apply(batch, known, change.now)
    if applied.pairs:
        await env[Products].update_many(change.tx, applied.pairs)
    inserted = await env[Products].insert_many(change.tx, batch.new) if batch.new else ()
    updated = [after.id for _, after in applied.pairs]
    return applied, PRODUCTS.imported.of(inserted, updated) if inserted or updated else None


def _apply(batch: _Batch, known: dict[int, Product], now: int) -> _Changed:
    """Applies the rows with ids to the products that they name."""
    pairs: list[tuple[Product, Product]] = []
    refused: list[FileRow] = []
    unchanged = 0
    named = Named()  # checked again: a product may have been created after `_batches` checked it
    for row in batch.changes:
        after = _changed(known.get(row.id), row)
        if not isinstance(after, Fault) and not named.add(row.id):
            after = REPEATED_ID
        if isinstance(after, Fault):
            refused.append(FileRow(row.line, row.end, {}, [after], row.id))
        elif after == (before := known[row.id]):
            unchanged += 1
        else:
            pairs.append((before, msgspec.structs.replace(after, updated_at=now)))
    return _Changed(pairs, unchanged, refused)


def _changed(before: Product | None, row: FileRow) -> Product | Fault:
    """The product as changed by a row with its id, or why it cannot be."""
    if before is None:
        return Fault("id", f"must be the id of a product; there is no product {row.id}")
    faults = change_faults(PRODUCTS, before, row.values)
    after: Product = PRODUCTS.changed(before, row.values)
    return faults[0] if faults else after


def _outcome(batch: _Batch, applied: _Changed) -> ImportOutcome:
    return ImportOutcome(
        batch.line,
        batch.end,
        len(batch.new),
        len(applied.pairs),
        applied.unchanged,
        sorted(batch.faulty + applied.refused, key=attrgetter("line")),
    )


async def store_at_once(
    env: Environment, spool: Spool, by: Author, progress: Callable[[int], None]
) -> ImportOutcome:
    """Stores all rows or none. `progress` is called with the size of each batch; if it raises,
    everything is rolled back. Raises `Conflict` if a row that passed the check can no longer be
    stored."""

    async def work(change: Change) -> ImportOutcome:
        unchanged = 0
        told: RecordsImported | None = None
        async for batch in _batches(env, spool, change.now, LARGE):
            applied, stored = await _store(env, batch, change)
            if applied.refused:
                line = applied.refused[0].line
                raise Conflict(
                    f"The product of line {line} was changed meanwhile; nothing was stored."
                )
            unchanged += applied.unchanged
            told = told.plus(stored) if told and stored else told or stored
            progress(len(batch.new) + len(batch.changes))
        if told is None:
            return ImportOutcome(0, 0, 0, 0, unchanged, [])
        change.note(told)
        return ImportOutcome(0, 0, told.inserted, told.updated, unchanged, [])

    return await env.change(by, work)


async def _sized(
    env: Environment, rows: Iterable[FileRow]
) -> AsyncGenerator[tuple[FileRow, int], None]:
    """The rows as `in_turns`, each with the size in bytes of the product that it changes."""
    some: list[FileRow] = []
    end = 0
    async for row in in_turns(rows):
        some.append(row)
        if len(some) == _SIZED_AT_ONCE.rows or row.end - end >= _SIZED_AT_ONCE.size:
            for each in await _with_sizes(env, some):
                yield each
            some, end = [], row.end
    for each in await _with_sizes(env, some):
        yield each


async def _with_sizes(env: Environment, rows: list[FileRow]) -> list[tuple[FileRow, int]]:
    sizes = await env[Products].sizes({row.id for row in rows if row.id})
    return [(row, sizes.get(row.id, 0)) for row in rows]


async def _batches(
    env: Environment, rows: Iterable[FileRow], now: int, most: BatchLimits, after: int = 0
) -> AsyncGenerator[_Batch, None]:
    """The rows behind the line `after`, in batches of bounded size. A row that names the same
    product as an earlier row is faulty: it would undo that row."""
    batch = _Batch(0)
    named = Named()
    products = 0
    async for row, size in _sized(env, rows):
        if size and not named.add(row.id):  # ids without a product need no memory
            row.faults.append(REPEATED_ID)
        if row.line <= after:
            batch.start = row.end
            continue
        batch.line, batch.end = row.line, row.end
        if row.faults:
            batch.faulty.append(row)
        elif row.id:
            batch.changes.append(row)
        else:
            batch.new.append(PRODUCTS.new(row.values, now))
        count = len(batch.new) + len(batch.changes) + len(batch.faulty)
        products += size
        if count >= most.rows or batch.end - batch.start + products >= most.size:
            yield batch
            batch, products = _Batch(batch.end), 0
    if batch.line:
        yield batch
