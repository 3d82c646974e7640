"""What is told of a file's rows that do not go in."""

from collections.abc import Iterable
from typing import Any

import msgspec

from portico.contract.csv_cells import csv_text, guarded
from portico.contract.reading import printable
from portico.domain.uploads import Rejected

_MOST_SHOWN = 60
"""Characters of a faulty value."""


def report(rejected: Iterable[Rejected]) -> bytes:
    """Faulty rows as a table: a line for each fault."""
    head = [("line", "field", "message", "value")]
    return csv_text(head) + csv_text(
        (row.line, guarded(fault.field), guarded(fault.message), guarded(fault.value))
        for row in rejected
        for fault in row.faults
    )


def beginning(value: Any, path: str) -> str:
    """How the value at a dotted path begins; empty where there is none, or where it is made of
    others: to write all of those for each fault would take long."""
    for name in path.split("."):
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            value = value.get(name) if isinstance(value, dict) else None
    if value is None or isinstance(value, dict | list):
        return ""
    text = msgspec.json.encode(value).decode() if isinstance(value, bool) else str(value)
    return printable(text[:_MOST_SHOWN]) + ("…" if len(text) > _MOST_SHOWN else "")
