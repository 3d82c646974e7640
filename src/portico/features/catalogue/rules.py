"""A product as it is stored, and uploaded files of products."""

from collections.abc import Collection
from typing import Literal

import msgspec

from portico.core.audit import Actor
from portico.core.events import Details, Event
from portico.core.times import DAY, MINUTE, SECOND

STATUSES = ("active", "archived", "draft")

MAX_IMAGES = 50


class Product(msgspec.Struct, frozen=True):
    """An entry of the catalog.

    `price` is in units (1/10000 of `currency`), times are epoch milliseconds. `images` (a list of
    `Image`) and `metadata` (text to text) are JSON text, which most reads pass on undecoded and
    lists omit.
    """

    id: int
    name: str
    description: str
    category: str
    price: int
    currency: str
    stock_quantity: int
    status: str
    created_at: int
    updated_at: int
    images: str = "[]"
    metadata: str = "{}"


class SandboxReset(Event, frozen=True):
    """The sandbox was emptied and filled with samples; `filled` says how many of each kind."""

    action = "sandbox.reset"

    filled: Details

    @property
    def details(self) -> Details:
        """How many samples of each kind were created."""
        return self.filled


State = Literal["checking", "checked", "storing", "stored", "failed"]
WAITING: Collection[State] = ("checking", "checked", "storing")
"""The states in which the file is still needed."""

MAX_BYTES = 100 * 1024 * 1024
MAX_WAITING = 3
"""The most files of one account that are not stored yet."""

NO_COUNTS = {"line": 0, "done": 0, "inserted": 0, "updated": 0, "unchanged": 0, "faulty": 0}
"""The counting fields of an `Upload`, before anything is counted."""

KEPT = DAY
SILENT = 15 * SECOND
"""How long a worker may be silent before another process takes over its file."""
LOST = MINUTE
"""How long no worker may have been seen before a file counts as lost with its host."""

MAX_TOLD = 1_000
MAX_FAULTS = 10
"""The most faulty rows listed for a file, and faults for a row: the others are only counted."""


class Upload(msgspec.Struct, frozen=True):
    """An uploaded file, its purpose and its progress. Times are epoch milliseconds.

    The file is named `token`, in the data directory of the host that received it; only a process
    that finds it there checks and stores it. `account_id` is an account in live, `actor` belongs to
    this environment. The counts are first those of the check, then those of storing; `line` and
    `done` say up to which line and byte.
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
    """When it was uploaded, or storing it was requested: it is kept for a day from then on."""
    seen_at: int = 0
    """When a process last reported to be working on it."""
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
        """Whether a process works on it, or should."""
        return self.state in ("checking", "storing")
