"""The report of a file's rows that cannot be stored."""

from collections.abc import Iterable
from typing import Any

import msgspec

from portico.contract.csv_cells import csv_text
from portico.contract.reading import printable
from portico.domain.uploads import Rejected

_MOST_SHOWN = 60
"""How many characters of a faulty value are shown."""


def report(rejected: Iterable[Rejected]) -> bytes:
    """The faults of rows as CSV, one line for each fault."""
    head = [("line", "field", "message", "value")]
    return csv_text(head) + csv_text(
        (row.line, fault.field, fault.message, fault.value)
        for row in rejected
        for fault in row.faults
    )


def beginning(value: Any, path: str) -> str:
    """The beginning of the value at a dotted path; empty if there is none, or for an array or
    object, because writing all of it out for each fault would take long."""
    for name in path.split("."):
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            value = value.get(name) if isinstance(value, dict) else None
    if value is None or isinstance(value, dict | list):
        return ""
    text = msgspec.json.encode(value).decode() if isinstance(value, bool) else str(value)
    return printable(text[:_MOST_SHOWN]) + ("…" if len(text) > _MOST_SHOWN else "")
