"""Commands that import records from files and export them to files."""

from __future__ import annotations

import os
import signal
import stat
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, aclosing, contextmanager
from io import BufferedReader
from operator import itemgetter
from pathlib import Path
from tempfile import gettempdir, mkstemp
from typing import TYPE_CHECKING, Any, BinaryIO

from portico.cli.arguments import add_api, add_sandbox
from portico.cli.lazy import lazy_imports
from portico.cli.output import CommandError, answer, mention, needing_room, plain, progress
from portico.core.words import FORMATS, Format

if TYPE_CHECKING:
    from portico.cli.remote_records import RemoteRecords
    from portico.environment import Environment
    from portico.resource.compiled import Compiled
    from portico.resource.file_rows import Columns, FileRow, ImportOutcome
    from portico.resource.imports import Spool
    from portico.settings import Settings

with lazy_imports():
    from portico.cli import prepared, remote_records
    from portico.core import audit
    from portico.data import disk
    from portico.resource import file_rows, files, imports

STANDARD = "-"
SHOWN_ROWS = 100
"""How many faulty rows the JSON answer lists. Standard error reports all of them."""


def add_arguments(importing: ArgumentParser, exporting: ArgumentParser, many: str) -> None:
    """Declares the arguments of commands that import and export records."""
    importing.add_argument("file", metavar="FILE", help="the file, or - for standard input")
    importing.add_argument("--strict", action="store_true", help="import all rows or none")
    importing.add_argument(
        "--update", action="store_true", help=f"update existing {many} by the id of their rows"
    )
    add_sandbox(importing)
    exporting.add_argument("file", metavar="FILE", help="the file, or - for standard output")
    add_sandbox(exporting)
    for command in (importing, exporting):
        command.add_argument("--format", choices=FORMATS, help="file format (default: by the name)")
        add_api(command)


class StoredRecords:
    """The records of one kind in a database, as a target of imports and exports."""

    def __init__(self, env: Environment, kind: Compiled) -> None:
        self._env = env
        self._kind = kind
        self.columns = files.columns_of(kind)

    def store_in_batches(self, rows: Iterator[FileRow]) -> AsyncGenerator[ImportOutcome, None]:
        """Stores the rows without faults; yields what came of each batch."""
        return imports.store_in_batches(self._env, self._kind, rows, audit.OPERATOR)

    def check_in_batches(self, spool: Spool) -> AsyncIterator[ImportOutcome]:
        """The rows that cannot be stored, as far as that is known before `store_at_once`."""
        return imports.check_in_batches(self._env, self._kind, spool, audit.OPERATOR)

    async def store_at_once(self, spool: Spool, stored: Callable[[int], None]) -> ImportOutcome:
        """Stores all rows, or none: then `refused` says why."""
        return await imports.store_at_once(self._env, self._kind, spool, audit.OPERATOR, stored)

    def batches(self) -> AsyncIterator[Sequence[Any]]:
        """Every record, oldest first."""
        found: AsyncIterator[Sequence[Any]] = self._kind.store(self._env).batches()
        return found

    def written(self, form: Format, batch: Sequence[Any]) -> bytes:
        """Records as rows of a file."""
        return files.file_text(self._kind, form, batch)


class _Import:
    """An import under way, with its counts and progress bars."""

    target: StoredRecords | RemoteRecords

    def __init__(self, source: BinaryIO, form: Format, *, update: bool) -> None:
        self._source = source
        self._form = form
        self._update = update
        self._reading = False
        self._stopping = False
        self.inserted = 0
        self.updated = 0
        self.stored_to_line = 0
        self.faulty = 0
        self.shown: list[dict[str, Any]] = []

    def rows(self) -> Iterator[FileRow]:
        """Every row, including faulty ones."""
        status = os.fstat(self._source.fileno())
        size = status.st_size if stat.S_ISREG(status.st_mode) else None
        with progress("Reading", size, "B") as bar:
            rows = file_rows.read_rows(
                self.target.columns, self._source, self._form, update=self._update
            )
            while (row := self._next(rows)) is not None:
                yield row
                bar.update(row.end - bar.n)

    def _next(self, rows: Iterator[FileRow]) -> FileRow | None:
        self._check()
        self._reading = True
        row = next(rows, None)
        self._reading = False
        return row

    def stop(self, *_: object) -> None:
        """Stops the import. A batch that is being stored is finished first, so that the reported
        counts are right. Reading, which may wait for standard input forever, stops immediately."""
        self._stopping = True
        if self._reading:
            self._check()

    def _check(self) -> None:
        if self._stopping:
            raise KeyboardInterrupt

    def _refuse(self, row: FileRow) -> None:
        from tqdm import tqdm  # writes above the bars

        self.faulty += 1
        if len(self.shown) < SHOWN_ROWS:
            self.shown.append({"line": row.line, "faults": row.faults})
        text = (
            fault.message if fault.field == file_rows.ROW else f"{fault.field} {fault.message}"
            for fault in row.faults
        )
        tqdm.write(f"line {row.line}: {plain('; '.join(text))}", file=sys.stderr)

    async def run(
        self, target: StoredRecords | RemoteRecords, directory: Path | None, *, strict: bool
    ) -> None:
        """Stores the valid rows; with `strict` all rows, or none if one is faulty."""
        self.target = target
        if strict:
            await self._all_or_nothing(directory)
            return
        async with aclosing(target.store_in_batches(self.rows())) as batches:
            async for outcome in batches:
                self._count(outcome)
                self.stored_to_line = outcome.line

    def _count(self, outcome: ImportOutcome) -> None:
        self.inserted += outcome.inserted
        self.updated += outcome.updated
        for row in outcome.refused:
            self._refuse(row)

    async def _all_or_nothing(self, directory: Path | None) -> None:
        with imports.Spool(directory) as spool:
            for row in self.rows():
                if row.faults:
                    self._refuse(row)
                else:
                    spool.add(row)
            if self._update:
                async for outcome in self.target.check_in_batches(spool):
                    self._check()
                    for row in outcome.refused:
                        self._refuse(row)
            if self.faulty:
                return
            with progress("Storing", spool.size, f" {self.target.columns.many}") as bar:

                def stored(count: int) -> None:
                    bar.update(count)
                    self._check()

                self._count(await self.target.store_at_once(spool, stored))

    def facts(self) -> dict[str, Any]:
        """The result as JSON."""
        counts = {"inserted": self.inserted, "updated": self.updated, "faulty": self.faulty}
        return {**counts, "rejected": sorted(self.shown, key=itemgetter("line"))}

    def stored(self) -> str:
        """What it has stored, as text without the full stop."""
        if not self._update:
            return f"Inserted {self._number(self.inserted)}"
        return f"Inserted {self._number(self.inserted)} and updated {self._number(self.updated)}"

    def _number(self, count: int) -> str:
        return _number(self.target.columns, count)

    def text(self) -> str:
        """The result as text."""
        if not self.faulty:
            return f"{self.stored()}."
        faulty = "1 row is" if self.faulty == 1 else f"{self.faulty:,} rows are"
        none = "Nothing was stored" if self._update else "Nothing was inserted"
        return f"{self.stored() if self.inserted or self.updated else none}; {faulty} faulty."


def import_file(
    settings: Settings,
    chosen: Namespace,
    one: str,
    many: str,
    target: Callable[[Environment], Awaitable[StoredRecords]],
) -> int:
    """Imports the chosen file; `one` and `many` are what its records are called."""
    if chosen.file == STANDARD and chosen.api_key_stdin:
        raise CommandError("--api-key-stdin and - both use standard input: name a file", 2)
    far = remote_records.chosen_records(settings, chosen, many)
    with _source(chosen.file) as source:
        # Also where another is chosen: refuses arrays.
        implied = file_rows.form_of(source, chosen.file, one)
        job = _Import(source, chosen.format or implied, update=chosen.update)

        async def store(env: Environment) -> None:
            spool = settings.data if settings.data.is_dir() else None
            with needing_room(spool or gettempdir()):
                await job.run(await target(env), spool, strict=chosen.strict)

        signal.signal(signal.SIGINT, job.stop)
        try:
            if far is not None:
                remote_records.run(job.run(far, None, strict=chosen.strict))
            else:
                prepared.interruptible(settings, chosen, store)
        except (Exception, KeyboardInterrupt):
            if job.inserted or job.updated:
                mention(f"{job.stored()}, up to line {job.stored_to_line:,}, before it ended.")
            raise
    answer(job.facts(), job.text(), as_json=chosen.json)
    return 1 if job.faulty else 0


@contextmanager
def _source(name: str) -> Iterator[BufferedReader]:
    if name == STANDARD:
        yield sys.stdin.buffer  # type: ignore[misc]  # a BufferedReader, which typeshed leaves open
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(Path(name).open("rb"))
        except OSError as error:
            raise CommandError(f"{plain(name)} cannot be read: {error.strerror}", 2) from None
        yield file


def export_file(
    settings: Settings,
    chosen: Namespace,
    many: str,
    target: Callable[[Environment], Awaitable[StoredRecords]],
) -> None:
    """Exports all records to the chosen file; `many` is what they are called."""
    if chosen.file == STANDARD and chosen.json:
        raise CommandError("--json and - both use standard output: name a file", 2)
    form = chosen.format or file_rows.format_of(chosen.file) or "ndjson"
    far = remote_records.chosen_records(settings, chosen, many)
    with _destination(chosen.file) as destination:
        if far is not None:
            count, text = remote_records.run(_write(far, form, destination))
        else:

            async def write(env: Environment) -> tuple[int, str]:
                return await _write(await target(env), form, destination)

            count, text = prepared.interruptible(settings, chosen, write)
    if chosen.file == STANDARD:
        mention(text)
    else:
        answer({"exported": count}, text, as_json=chosen.json)


async def _write(
    records: StoredRecords | RemoteRecords, form: Format, destination: BinaryIO
) -> tuple[int, str]:
    """Writes all records; returns their number, and a sentence about it."""
    count = 0
    columns = records.columns
    destination.write(file_rows.header(form, columns))
    with progress("Exporting", None, f" {columns.many}") as bar:
        async for batch in records.batches():
            destination.write(records.written(form, batch))
            count += len(batch)
            bar.update(len(batch))
    return count, f"Exported {_number(columns, count)}."


@contextmanager
def _destination(name: str) -> Iterator[BinaryIO]:
    """The file to write to. A regular file gets its name only once it is complete."""
    if name == STANDARD:
        os.write(sys.stdout.fileno(), b"")  # raises if it is closed, even if nothing follows
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(name)
    with _writing(name):
        is_device = disk.exists(path) and not path.is_file()  # /dev/null, or a pipe
    if is_device:
        with _writing(name):
            device = path.open("wb")
        with needing_room(name), device:
            yield device
        return
    path = disk.resolved(path)
    with _writing(name):  # a unique name: others may write to the same file meanwhile
        descriptor, made = mkstemp(prefix=".portico-", suffix=".partial", dir=path.parent)
    partial = Path(made)
    try:
        with needing_room(name):
            with os.fdopen(descriptor, "wb") as file:
                yield file
            disk.replace_durably(partial, path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def _writing(name: str) -> Iterator[None]:
    """Raises `CommandError` naming `name` if it cannot be written."""
    try:
        yield
    except OSError as error:
        raise CommandError(f"{plain(name)} cannot be written: {error.strerror}", 2) from None


def _number(columns: Columns, count: int) -> str:
    return f"1 {columns.one}" if count == 1 else f"{count:,} {columns.many}"
