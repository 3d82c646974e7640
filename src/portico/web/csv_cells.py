"""CSV in which spreadsheets run no formulas, and the cells that spreadsheets add."""

import re
from collections.abc import Iterable

_FORMULA = re.compile("'*[=+\\-@\t\r]")
"""The beginning of a cell that gets an apostrophe before it: that of a formula, or apostrophes
before one, so that every cell reads back unchanged."""

_QUOTED = re.compile('[,;\t"\r\n]')
"""Characters of a cell in quotes: also separators that spreadsheets of some countries expect."""


def _guarded(text: str) -> str:
    """A text as a cell that a spreadsheet does not take for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def unguarded(cell: str) -> str:
    """The text of a cell: one apostrophe less exactly where `_guarded` puts one."""
    return cell[1:] if cell[:1] == "'" and _FORMULA.match(cell) else cell


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
    """Records as CSV (RFC 4180) in which no text runs as a formula; None is an empty cell."""
    return "".join(f"{','.join(map(_cell, record))}\r\n" for record in records).encode()


def _cell(value: object) -> str:
    if not isinstance(value, str):
        return "" if value is None else str(value)
    text = _guarded(value)
    if _QUOTED.search(text):
        text = text.replace('"', '""')
        return f'"{text}"'
    return text
