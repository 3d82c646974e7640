"""What the sender and its HTTP client say to each other; apart, so that only a delivery loads the
client."""

from collections.abc import Callable, Sequence

import msgspec

LookUp = Callable[[str], Sequence[str]]
"""Gives the addresses of a name, best first, however long it takes. Raises OSError without one."""


class Unsent(Exception):
    """No answer came. `reason` is for people, and holds nothing that the receiver wrote."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Reply(msgspec.Struct, frozen=True):
    """A receiver's answer, as far as it was read; `arrived` is when its status came, by the loop's
    clock."""

    status: int
    retry_after: str | None
    body: bytes
    arrived: float
