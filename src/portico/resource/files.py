"""Records of a kind in files, and their imports.

A batch of rows is one transaction. A row that is refused ends its batch: the rows before it are
stored, then it is reported, and the import goes on behind it.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Raw

from portico.core.audit import OPERATOR, Author
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
from portico.core.words import Format
from portico.environment import Environment
from portico.resource.changes import Changing, RulesTooSlow, carry_out
from portico.resource.compiled import Compiled
from portico.resource.fields import Field, ItemsField, MoneyField
from portico.resource.file_rows import ROW, Columns, FileRow, ImportOutcome, Named
from portico.resource.imports import (
    REPEATED_ID,
    BatchLimits,
    Imports,
    Spool,
    UntoldImport,
    announce,
    in_turns,
)
from portico.web.csv_cells import csv_text

_BATCH = BatchLimits(100, 1024 * 1024)
_BATCH_SECONDS = 0.25
"""After how long a transaction ends before its next row: others wait for it."""

_OF_A_ROW = (Invalid, NotFound, Duplicate, Conflict, PermissionDenied, RulesTooSlow)
"""What refuses a row; anything else ends the import."""


Outcomes = AsyncGenerator[ImportOutcome, None]


class RecordFiles:
    """The files of a kind."""

    def __init__(self, kind: Compiled, by: Author = OPERATOR) -> None:
        """Imports are made by `by`."""
        self._kind = kind
        self._by = by
        self._fields = [field for field in kind.kind.record.__fields__ if not field.derived]
        many = kind.many.replace("-", " ")
        names = [field.name for field in self._fields]
        self.columns = columns_of(kind, names, f"one of the {many}")

    async def batches(self, env: Environment) -> AsyncIterator[Sequence[Any]]:
        """Every record, oldest first."""
        async for batch in self._kind.store(env).batches():
            yield batch

    def written(self, form: Format, batch: Sequence[Any]) -> bytes:
        """Records as rows of a file."""
        if form == "csv":
            return csv_text(
                [row.id, *map(partial(_cell, self._kind, row), self._fields)] for row in batch
            )
        return msgspec.json.Encoder().encode_lines(
            {"id": row.id} | {field.name: _shown(self._kind, row, field) for field in self._fields}
            for row in batch
        )

    async def store_in_batches(self, env: Environment, rows: Iterator[FileRow]) -> Outcomes:
        """Stores the rows without faults, in batches (`resource.imports`)."""
        name = f"{env.random(16).hex()}:{self._kind.many}"
        stored = False
        named = Named()
        try:
            async for batch in _batches(rows):
                outcome = await self._store_batch(env, name, batch, named)
                stored = stored or bool(outcome.inserted or outcome.updated)
                yield outcome
        finally:
            if stored:
                await env.change(self._by, partial(announce, env, name, MAX_ID))

    async def check_in_batches(self, _env: Environment, _spool: Spool) -> Outcomes:
        """Nothing: only storing a row tells whether its rules allow it."""
        for _ in ():
            yield ImportOutcome(0, 0, 0, 0, 0, [])

    async def store_at_once(
        self, env: Environment, spool: Spool, stored: Callable[[int], None]
    ) -> ImportOutcome:
        """Stores all rows, or none: then `refused` are those that cannot be stored."""

        async def work(changing: Changing) -> ImportOutcome:
            changing.in_bulk = True
            tally, named, refused = _Tally(), Named(), []
            async for row in in_turns(spool):
                try:
                    _check_repeated(row, named)
                    await self._store_row(changing, row, tally)
                except _OF_A_ROW as error:
                    refused.append(_refused(row, error))
                    if isinstance(error, RulesTooSlow):
                        break  # in the middle of what it did with the transaction
                stored(1)
            if refused:
                raise _NothingStored(refused)
            if tally.changed:
                changing.change.note(self._kind.imported.of(tally.inserted, tally.updated))
            return tally.outcome([])

        try:
            outcome: ImportOutcome = await carry_out(env, self._by, work)
        except _NothingStored as error:
            return ImportOutcome(0, 0, 0, 0, 0, error.refused)
        return outcome

    async def _store_batch(
        self, env: Environment, name: str, batch: list[FileRow], named: Named
    ) -> ImportOutcome:
        refused: list[FileRow] = []
        left: list[FileRow] = []
        for row in batch:
            if not row.faults and row.id and not named.add(row.id):
                row.faults.append(REPEATED_ID)
            (refused if row.faults else left).append(row)
        total = _Tally()
        most = len(left)
        while left:
            try:
                tally = await carry_out(
                    env, self._by, partial(self._store_first, env, name, left[:most])
                )
            except _RowRefused as refusal:
                most = refusal.number  # those before it first
                if not most:
                    refused.append(_refused(left.pop(0), refusal.error))
                    most = len(left)
            except Duplicate as error:  # somebody else stored it at the same time
                if most == 1:
                    refused.append(_refused(left.pop(0), error))
                most = 1
            else:
                total.add(tally)
                left = left[tally.rows :]
                most = len(left)
        refused.sort(key=lambda row: row.line)
        return total.outcome(refused, batch[-1])

    async def _store_first(
        self, env: Environment, name: str, rows: list[FileRow], changing: Changing
    ) -> "_Tally":
        """Stores the first rows, as many as there is time for."""
        changing.in_bulk = True
        tally = _Tally()
        loop = asyncio.get_running_loop()
        ends = loop.time() + _BATCH_SECONDS
        for number, row in enumerate(rows):
            if number and loop.time() >= ends:
                break
            try:
                await self._store_row(changing, row, tally)
            except _OF_A_ROW as error:
                raise _RowRefused(number, error) from error
        if tally.changed:
            change = changing.change
            change.noted_elsewhere()
            note = self._kind.imported.of(tally.inserted, tally.updated)
            untold = UntoldImport(name, change.by.actor, change.now, note)
            await env[Imports].add(change.tx, untold)
        return tally

    async def _store_row(self, changing: Changing, row: FileRow, tally: "_Tally") -> None:
        """Stores a row; its rules have the whole time."""
        changing.begin()
        if not row.id:
            made = await changing.create(self._kind, row.values, noted=False)
            tally.inserted.append(made.id)
        else:
            found: list[Any] = []
            after = await changing.update(self._kind, row.id, row.values, found.append, noted=False)
            if after is found[0]:
                tally.unchanged += 1
            else:
                tally.updated.append(row.id)
        tally.rows += 1


def columns_of(kind: Compiled, names: Sequence[str], reference: str) -> Columns:
    """The columns of a kind's files, in this order; an id is that of `reference`."""
    fields = [kind.by_name[name] for name in names]
    return Columns(
        kind.create,
        kind.change,
        names,
        one=kind.words,
        many=kind.many.replace("-", " "),
        reference=reference,
        numbers=[field.name for field in fields if field.json in ("integer", "number")],
        json=[field.name for field in fields if field.json in ("object", "array")],
        empty={
            field.name: _emptied(field)
            for field in fields
            if field.optional or field.json in ("object", "array")
        },
        booleans=[field.name for field in fields if field.json == "boolean"],
        prices=[field.name for field in fields if isinstance(field, MoneyField)],
    )


class _Tally:
    """What was stored."""

    def __init__(self) -> None:
        self.rows = self.unchanged = 0
        self.inserted: list[int] = []
        self.updated: list[int] = []

    @property
    def changed(self) -> bool:
        """Whether anything is new or changed."""
        return bool(self.inserted or self.updated)

    def add(self, more: "_Tally") -> None:
        """Adds what another transaction stored."""
        self.rows += more.rows
        self.unchanged += more.unchanged
        self.inserted += more.inserted
        self.updated += more.updated

    def outcome(self, refused: list[FileRow], last: FileRow | None = None) -> ImportOutcome:
        """The outcome of rows up to the last one."""
        line, end = (last.line, last.end) if last else (0, 0)
        counts = len(self.inserted), len(self.updated), self.unchanged
        return ImportOutcome(line, end, *counts, refused)


class _RowRefused(Exception):
    """The row with this number in its batch cannot be stored."""

    def __init__(self, number: int, error: PorticoError) -> None:
        self.number = number
        self.error = error


class _NothingStored(Exception):
    """These rows cannot be stored, so none is."""

    def __init__(self, refused: list[FileRow]) -> None:
        self.refused = refused


def _check_repeated(row: FileRow, named: Named) -> None:
    if row.id and not named.add(row.id):
        raise Invalid("", [REPEATED_ID])


def _refused(row: FileRow, error: PorticoError) -> FileRow:
    faults = [*error.details]
    if isinstance(error, NotFound):
        faults = [Fault("id", f"must name a record. {error.message}")]
    return FileRow(row.line, row.end, {}, faults or [Fault(ROW, error.message)], row.id)


async def _batches(rows: Iterator[FileRow]) -> AsyncGenerator[list[FileRow], None]:
    """The rows in batches of bounded size."""
    batch: list[FileRow] = []
    start = 0
    async for row in in_turns(rows):
        batch.append(row)
        if len(batch) >= _BATCH.rows or row.end - start >= _BATCH.size:
            yield batch
            batch, start = [], row.end
    if batch:
        yield batch


def _emptied(field: Field) -> Any:
    """The value of an empty cell in a row that changes a record."""
    if field.optional:
        return None
    return [] if isinstance(field, ItemsField) else {}


def _shown(kind: Compiled, row: Any, field: Field) -> Any:
    stored = kind.stored(row, field)
    return None if stored is None else field.show(stored)


class _Number:
    """A number that is written as it stands: no text that a formula could begin."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


def _cell(kind: Compiled, row: Any, field: Field) -> object:
    shown = _shown(kind, row, field)
    if isinstance(shown, bool):
        return str(shown).lower()
    if not isinstance(shown, Raw):
        return shown
    text = bytes(shown).decode()
    if field.json == "number":
        return _Number(text)
    return "" if text in ("[]", "{}") and not field.optional else text
