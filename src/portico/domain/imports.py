"""The import of a file of products, row by row."""

from typing import Any, NamedTuple

import msgspec

from portico.domain.errors import BrokenRule, Fault
from portico.domain.products import Product, change_status, with_values

_BLOCK = 1024
"""How many ids one integer holds as bits."""


class FileRow(msgspec.Struct):
    """One row of the file: its first line, and either its values or its faults.

    `values` are those of a new product, with defaults, or the changes to the product `id`; `end` is
    how many bytes of the file precede the next row.
    """

    line: int
    end: int
    values: dict[str, Any]
    faults: list[Fault]
    id: int = 0
    """The product to change; 0 for a new one."""
    given: dict[str, str] = {}
    """The beginnings of the faulty values, by field, for fields that are a single value."""


class Named:
    """The ids that rows have named so far, one bit each, since ids are close together."""

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}

    def add(self, product_id: int) -> bool:
        """Adds an id. Returns whether it is new."""
        block, place = divmod(product_id, _BLOCK)
        known = self._blocks.get(block, 0)
        self._blocks[block] = known | 1 << place
        return not known >> place & 1


class Outcome(NamedTuple):
    """The result of importing, or checking, some rows of a file up to a line and a byte. `refused`
    are faulty rows, and rows that the products' current state does not allow."""

    line: int
    end: int

    inserted: int
    updated: int
    unchanged: int
    refused: list[FileRow]


def changed(before: Product | None, row: FileRow) -> Product | Fault:
    """The product as changed by a row with its id, or why it cannot be. The row's values are in
    their stored form."""
    if before is None:
        return Fault("id", f"must be the id of a product; there is no product {row.id}")
    try:
        change_status(before.status, row.values.get("status", before.status))
    except BrokenRule as fault:
        return Fault("status", str(fault))
    return with_values(before, row.values)
