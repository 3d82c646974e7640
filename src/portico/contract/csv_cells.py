"""Tables as CSV that no spreadsheet runs, and what spreadsheets add to them."""

import csv
import io
from collections.abc import Iterable

APOSTROPHE = "'"
_GUARDED = frozenset(("=", "+", "-", "@", "\t", "\r", APOSTROPHE))
"""How a cell begins that gets an apostrophe before it: a formula, or what would read back as one
that had got it."""


def guarded(text: str) -> str:
    """A text cell that a spreadsheet takes for text."""
    return f"{APOSTROPHE}{text}" if text[:1] in _GUARDED else text


MOST_CELLS = 20_000
"""In a record: more than any spreadsheet has columns (16,384). To look through a million would hold
up everybody else."""


def shortened(cells: list[str], least: int) -> list[str]:
    """A record without the empty cells at its end, but for the first `least` cells: spreadsheets
    write some for columns that nothing stands in any more. One of too many cells stays as it is."""
    length = len(cells)
    if length > MOST_CELLS:
        return cells
    while length > least and not cells[length - 1]:
        length -= 1
    return cells[:length]


def csv_text(records: Iterable[Iterable[object]]) -> bytes:
    """Records as RFC 4180 has them; None is an empty cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(records)
    return text.getvalue().encode()
