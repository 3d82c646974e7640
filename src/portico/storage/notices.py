"""What is told of commits that end or change what is kept in memory, and whether all of it came.

A trigger of the database tells of each such row: `number table id`, or `number table` of a table
that is kept as a whole. The number is that of the transaction among all that tell something, in the
order of their commits, and stands in the database too. So whoever reads it there knows whether what
was told came here: until somebody has, for a second, nothing that was kept holds.
"""

import math
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from portico.storage.parts import Part, PartVersions

TRUST_SECONDS = 1.0
"""For how long what is kept may be believed after it was known that all notices came."""

CHECK_SECONDS = 0.5
"""How often the number in the database is looked at."""

AGAIN_SECONDS = 0.05
"""After how long it is looked at again where its notice may still be under way."""

NUMBER = "SELECT number FROM notices"


class Check(NamedTuple):
    """When the number in the database was asked for, and which had come by then."""

    asked: float
    number: int


class Notices:
    """The versions of what notices are about, as far as this process was told."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is in seconds, and never goes back."""
        self._clock = clock
        self._parts = PartVersions()
        self._number = 0
        self._complete_at = -math.inf

    def version(self, parts: Iterable[Part]) -> int:
        """Moves with each of these parts, without any with every part; and each time that it is
        asked for while it is not known that all notices came."""
        if not self.complete:
            self.forget()
        return sum(map(self._parts.of, parts)) if parts else self._parts.moves

    @property
    def complete(self) -> bool:
        """Whether all notices came, but for those of the last second."""
        return self._clock() - self._complete_at < TRUST_SECONDS

    def stored(self, parts: Iterable[Part]) -> None:
        """Moves what this process has changed itself."""
        self._parts.touch(*parts)
        self._parts.move()

    def forget(self) -> None:
        """Moves everything: what has changed is not known."""
        self._parts.move_all()

    def hear(self, text: str) -> None:
        """Moves what a notice names; everything, where one before it is missing, and where it is
        that of an older release, which names no row."""
        number, _, named = text.partition(" ")
        table, _, row = named.partition(" ")
        if not (number.isdecimal() and table and (row.isdecimal() or not row)):
            self.forget()
            return
        if int(number) > self._number + 1:
            self.forget()
        self._number = max(self._number, int(number))
        self.stored([(table, int(row)) if row else (table,)])

    def begin(self) -> Check:
        """Before the number in the database is asked for, on any connection."""
        return Check(self._clock(), self._number)

    def end(self, check: Check, number: int) -> bool:
        """Takes the number that was found; tells whether all came here that was told before it was
        asked for. One that does not come for a second was missed: all is forgotten."""
        if not check.number <= number <= self._number:
            if self.complete:
                return False
            self.forget()
            self._number = number
        self._complete_at = check.asked
        return True

    def lose(self) -> None:
        """Nothing comes any more: what is kept does not hold, nor will it when something does."""
        self.forget()
        self._complete_at = -math.inf
