"""Notifications of commits that change or delete cached data, and whether all of them arrived.

A trigger announces each such row as `number table id`, or as `number table` for a table that is
cached as a whole. The number counts the transactions that announce something, in the order of their
commits, and is also stored in the database. By reading it there, a process knows whether all
notifications arrived. If it has not known that for a second, no cached data is valid.
"""

import math
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

from portico.data.database import Dependency, PartVersions

TRUST_SECONDS = 1.0
"""How long cached data is trusted after all notifications were known to have arrived."""

CHECK_SECONDS = 0.5
"""How often the number in the database is read."""

RETRY_SECONDS = 0.05
"""How soon it is read again if its notification may still be on the way."""

NUMBER = "SELECT number, CAST(tableoid AS BIGINT) FROM notices"
"""The number, and what identifies its table: that of a restored database is another one."""


class WrittenCheck(NamedTuple):
    """When the number in the database was asked for, and which number had arrived by then."""

    asked: float
    number: int


class Notices:
    """The versions of the parts that notifications announce, as far as this process knows."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` is monotonic, in seconds."""
        self._clock = clock
        self._parts = PartVersions()
        self._number = 0
        self._table = 0
        self._complete_at = -math.inf

    def version(self, parts: Iterable[Dependency]) -> int:
        """A number that changes with each of these parts, or with any part if none are given. While
        it is not known that all notifications arrived, it changes with each call."""
        if not self.complete:
            self.forget()
        return sum(map(self._parts.of, parts)) if parts else self._parts.moves

    @property
    def complete(self) -> bool:
        """Whether all notifications have arrived, except for those of the last second."""
        return self._clock() - self._complete_at < TRUST_SECONDS

    def stored(self, parts: Iterable[Dependency]) -> None:
        """Changes the versions of parts that this process has changed itself."""
        self._parts.invalidate(*parts)
        self._parts.move()

    def forget(self) -> None:
        """Changes all versions, since it is not known what has changed."""
        self._parts.move_all()

    def hear(self, text: str) -> None:
        """Takes a notification: changes the version that it names, or all versions if an earlier
        notification is missing or if it has another form."""
        number, _, named = text.partition(" ")
        table, _, row = named.partition(" ")
        if not (number.isdecimal() and table and (row.isdecimal() or not row)):
            self.forget()
            return
        if int(number) > self._number + 1:
            self.forget()
        self._number = max(self._number, int(number))
        self.stored([(table, int(row)) if row else (table,)])

    def begin(self) -> WrittenCheck:
        """Must be called before the number in the database is read, on any connection."""
        return WrittenCheck(self._clock(), self._number)

    def end(self, check: WrittenCheck, number: int, table: int) -> bool:
        """Takes the row that was read. Returns whether all notifications before that read have
        arrived. One that is missing for a second counts as lost, and all versions change. So they
        do if the number is in another table: a database was restored in the place of the other, and
        an equal number proves nothing."""
        if table != self._table:
            self._table = table
            self.lose()
        if not check.number <= number <= self._number:
            if self.complete:
                return False
            self.forget()
            self._number = number
        self._complete_at = check.asked
        return True

    def lose(self) -> None:
        """Must be called when the connection is lost: no cached data is valid, also not later when
        notifications arrive again."""
        self.forget()
        self._complete_at = -math.inf
