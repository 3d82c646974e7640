"""What comes of a file of products, row by row."""

from typing import Any, NamedTuple

import msgspec

from portico.domain.errors import BrokenRule, Fault
from portico.domain.products import Product, change_status, with_values

_BLOCK = 1024
"""How many ids share a number of bits."""


class FileRow(msgspec.Struct):
    """One row as it was read: its first line, and either its values or what is wrong with it.

    `values` are those of a new product, defaults filled in, or what changes of the product `id`;
    `end` is how many bytes of the file lie before the next row.
    """

    line: int
    end: int
    values: dict[str, Any]
    faults: list[Fault]
    id: int = 0
    """Of the product to be changed; 0 for a new one."""
    given: dict[str, str] = {}
    """The beginnings of the faulty values, by their fields: of those that are one value."""


class Named:
    """The products that rows have named so far, a bit each: their ids lie close together."""

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}

    def add(self, product_id: int) -> bool:
        """Whether no row had it before."""
        block, place = divmod(product_id, _BLOCK)
        known = self._blocks.get(block, 0)
        self._blocks[block] = known | 1 << place
        return not known >> place & 1


class Outcome(NamedTuple):
    """What came of some rows of a file up to a line and a byte, or would come of them. `refused`
    are those that are faulty, and those that the products as they are by now do not allow."""

    line: int
    end: int

    inserted: int
    updated: int
    unchanged: int
    refused: list[FileRow]


def changed(before: Product | None, row: FileRow) -> Product | Fault:
    """A product as a row with its id changes it, or why it cannot. The values of the row are in
    the form that is stored."""
    if before is None:
        return Fault("id", f"is that of no product: there is no product {row.id}")
    try:
        change_status(before.status, row.values.get("status", before.status))
    except BrokenRule as fault:
        return Fault("status", str(fault))
    return with_values(before, row.values)
