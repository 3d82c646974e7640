"""Versions of parts of the data: of one row, or of the lists of a kind."""

from array import array
from typing import NamedTuple

Part = tuple[object, ...]
"""A part of the data that changes apart from the rest, by whatever names it."""

Version = int | str
"""What a part is at: another one where it may have changed, whatever it is then."""


class ListPart(NamedTuple):
    """The pages of a list that show rows of one `list_counts.key`, and of one category if any."""

    table: str
    key: str
    category: str | None


_PLACES = 1 << 16


class PartVersions:
    """How often each part was changed, as far as this process was told.

    The counts are in so many places that memory is bounded whatever changes: of two parts that
    share one, either moves with the other, which costs a read and no truth.
    """

    def __init__(self) -> None:
        self._counts = array("Q", bytes(8 * _PLACES))
        self._all = 0
        self.moves = 0
        """How often any part has moved."""
        self._touched: set[int] = set()
        self._touched_all = False

    def of(self, part: Part) -> int:
        """The version of a part: neither of its terms ever goes back, so no sum comes again."""
        return self._all + self._counts[hash(part) % _PLACES]

    def touch(self, *parts: Part) -> None:
        """Has these parts' versions move by the next `move`."""
        self._touched.update(hash(part) % _PLACES for part in parts)

    def touch_all(self) -> None:
        """Has every part's version move by the next `move`."""
        self._touched_all = True

    def move(self) -> None:
        """Moves the versions of what was touched since the last time."""
        for place in self._touched:
            self._counts[place] += 1
        self.moves += len(self._touched)
        self._touched.clear()
        if self._touched_all:
            self.move_all()
        self._touched_all = False

    def move_all(self) -> None:
        """Moves the version of every part."""
        self._all += 1
        self.moves += 1
