"""Versions of parts of the data: of one row, or of the lists of a kind."""

from array import array
from typing import NamedTuple

Part = tuple[object, ...]
"""The name of a part of the data that has its own version."""

Version = int | str
"""The version of a part: a different value means that the part may have changed."""


class ListPart(NamedTuple):
    """The pages of a list that show rows of one `list_counts.key`, and of one category if given."""

    table: str
    key: str
    category: str | None


_PLACES = 1 << 16


class PartVersions:
    """How often each part was changed, as far as this process knows.

    The counts are in a hash table of fixed size, so memory is bounded. Two parts that share a place
    change together, which costs a read but is never wrong.
    """

    def __init__(self) -> None:
        self._counts = array("Q", bytes(8 * _PLACES))
        self._all = 0
        self.moves = 0
        """How many changes of any part were counted."""
        self._touched: set[int] = set()
        self._touched_all = False

    def of(self, part: Part) -> int:
        """The version of a part: neither term ever decreases, so no sum occurs twice."""
        return self._all + self._counts[hash(part) % _PLACES]

    def touch(self, *parts: Part) -> None:
        """Marks these parts: the next `move` changes their versions."""
        self._touched.update(hash(part) % _PLACES for part in parts)

    def touch_all(self) -> None:
        """Marks every part: the next `move` changes every version."""
        self._touched_all = True

    def move(self) -> None:
        """Changes the versions of the parts that were touched since the last call."""
        for place in self._touched:
            self._counts[place] += 1
        self.moves += len(self._touched)
        self._touched.clear()
        if self._touched_all:
            self.move_all()
        self._touched_all = False

    def move_all(self) -> None:
        """Changes the version of every part."""
        self._all += 1
        self.moves += 1
