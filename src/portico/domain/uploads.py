"""A file of products that somebody has sent to a page, on its way in."""

from collections.abc import Collection
from typing import Literal

import msgspec

from portico.domain.audit import Actor
from portico.domain.errors import Fault
from portico.domain.times import DAY, MINUTE, SECOND

State = Literal["checking", "checked", "storing", "stored", "failed"]
WAITING: Collection[State] = ("checking", "checked", "storing")
"""The states of a file that is needed."""

MAX_BYTES = 100 * 1024 * 1024
MAX_WAITING = 3
"""Files of one account that are not stored yet."""

NO_COUNTS = {"line": 0, "done": 0, "inserted": 0, "updated": 0, "unchanged": 0, "faulty": 0}
"""The fields of an `Upload` that count, before anything is counted."""

KEPT = DAY
SILENT = 15 * SECOND
"""After how long another process goes on with a file."""
LOST = MINUTE
"""After how long without a sign a file counts as lost with its host."""

MAX_TOLD = 1_000
MAX_FAULTS = 10
"""Faulty rows that are told of a file, and faults of a row: the others are counted."""


class RowFault(Fault, frozen=True):
    """A fault of a row; `value` is how what stands in the field begins, if anything does."""

    value: str = ""


class Rejected(msgspec.Struct, frozen=True):
    """A row that does not go in, by its first line, and why."""

    line: int
    faults: list[RowFault]


class Upload(msgspec.Struct, frozen=True):
    """A file, what it is for, and how far it is. Times are epoch milliseconds.

    It lies as `token` in the data directory of the host that it was sent to: whoever finds it there
    checks and stores it. `account_id` is of the environment of accounts, `actor` of this one. The
    counts are those of the check, and then of what is stored; `line` and `done` say up to which
    line and byte.
    """

    id: int
    token: str
    account_id: int
    actor: Actor
    name: str
    updates: bool
    size: int
    state: State
    created_at: int
    """When it was sent, or was told to be stored: it is kept for a day from then on."""
    seen_at: int = 0
    """When whoever works on it last said so."""
    line: int = 0
    done: int = 0
    inserted: int = 0
    updated: int = 0
    unchanged: int = 0
    faulty: int = 0
    problem: str = ""
    """Why it failed as a whole."""

    @property
    def under_way(self) -> bool:
        """Whether somebody works on it, or should."""
        return self.state in ("checking", "storing")
