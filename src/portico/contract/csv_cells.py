"""Tables as CSV that no spreadsheet runs."""

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


def csv_text(records: Iterable[Iterable[object]]) -> bytes:
    """Records as RFC 4180 has them; None is an empty cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(records)
    return text.getvalue().encode()
