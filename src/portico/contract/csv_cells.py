"""CSV in which spreadsheets run no formulas, and the cells that spreadsheets add."""

import csv
import io
from collections.abc import Iterable

APOSTROPHE = "'"
_GUARDED = frozenset(("=", "+", "-", "@", "\t", "\r", APOSTROPHE))
"""The first characters of cells that get an apostrophe before them: those of formulas, and the
apostrophe itself, so that cells read back unchanged."""


def guarded(text: str) -> str:
    """A text as a cell that a spreadsheet does not take for a formula."""
    return f"{APOSTROPHE}{text}" if text[:1] in _GUARDED else text


MOST_CELLS = 20_000
"""The most cells of a record: more than a spreadsheet has columns (16,384). Checking a million
would block the event loop."""


def shortened(cells: list[str], least: int) -> list[str]:
    """A record without the empty cells after its first `least` cells, which spreadsheets write for
    columns that are no longer used. A record of too many cells is returned as it is."""
    length = len(cells)
    if length > MOST_CELLS:
        return cells
    while length > least and not cells[length - 1]:
        length -= 1
    return cells[:length]


def csv_text(records: Iterable[Iterable[object]]) -> bytes:
    """Records as CSV (RFC 4180); None is an empty cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(records)
    return text.getvalue().encode()
