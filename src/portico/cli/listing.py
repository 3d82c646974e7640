"""Prints lists of any length: as one JSON array, or as a table."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from argparse import Namespace
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Generic, NamedTuple, TypeVar

from portico.cli.lazy import lazy_imports
from portico.cli.output import line, needing_room, printing, printing_json, progress, say

if TYPE_CHECKING:
    from portico.environment import Environment
    from portico.settings import Settings

with lazy_imports():
    from portico.cli import prepared
    from portico.web import envelope

T = TypeVar("T")

IN_MEMORY = 1024 * 1024
"""About how many bytes of a list need no file, and so no room on the disk."""


class ListForm(NamedTuple, Generic[T]):
    """How items are printed: `entry` as JSON, or `cells` under `headings`. `none` is printed in
    place of an empty table."""

    entry: Callable[[T], object]
    headings: Sequence[str]
    cells: Callable[[T], Sequence[str]]
    none: str


def print_list(
    settings: Settings,
    chosen: Namespace,
    form: ListForm[T],
    found: Callable[[Environment], AsyncIterator[Sequence[T]]],
) -> None:
    """Prints all items that `found` yields of the chosen environment, as `print_batches`."""

    def read(add: Callable[[Sequence[T]], None]) -> None:
        async def each(env: Environment) -> None:
            async for batch in found(env):
                add(batch)

        prepared.interruptible(settings, chosen, each)

    print_batches(chosen, form, read)


def print_batches(
    chosen: Namespace, form: ListForm[T], read: Callable[[Callable[[Sequence[T]], None]], None]
) -> None:
    """Prints all items that `read` hands over, after it has handed over all: if it fails, no part
    of a list is printed. Beyond `IN_MEMORY` they wait in a temporary file."""
    place = "a temporary file (TMPDIR)"
    with needing_room(place), tempfile.SpooledTemporaryFile(IN_MEMORY) as file:
        spool = _Spool(file, form, as_json=chosen.json)
        with progress("Reading", None, " rows") as bar:

            def add(batch: Sequence[T]) -> None:
                for item in batch:
                    spool.add(item)
                bar.update(len(batch))

            read(add)
        spool.complete()
        with printing():
            spool.print()


class _Spool(Generic[T]):
    """Items in a file: a JSON array, or a line with the cells of each."""

    def __init__(self, file: IO[bytes], form: ListForm[T], *, as_json: bool) -> None:
        self._file = file
        self._form = form
        self._as_json = as_json
        self._widths = [*map(len, form.headings)]
        self._count = 0

    def add(self, item: T) -> None:
        """Appends an item."""
        if self._as_json:
            self._file.write(b"," if self._count else b"[")
            self._file.write(envelope.encode(self._form.entry(item)))
        else:
            cells = self._form.cells(item)
            self._widths = [max(pair) for pair in zip(self._widths, map(len, cells), strict=True)]
            self._file.write(envelope.encode(cells) + b"\n")
        self._count += 1

    def complete(self) -> None:
        """Ends the list; nothing can be added any more."""
        if self._as_json:
            self._file.write(b"]\n" if self._count else b"[]\n")
        self._file.seek(0)

    def print(self) -> None:
        """Writes all items of the complete list to standard output."""
        if self._as_json:
            with printing_json() as output:
                shutil.copyfileobj(self._file, output)
        elif not self._count:
            say(self._form.none)
        else:
            sys.stdout.writelines(self._lines())
            sys.stdout.flush()

    def _lines(self) -> Iterator[str]:
        yield line(self._form.headings, self._widths) + "\n"
        for cells in self._file:
            yield line(json.loads(cells), self._widths) + "\n"
