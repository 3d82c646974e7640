"""Types that the HTTP clients share with their users. In a module of their own, so that the clients
are loaded only with the first request."""

from collections.abc import Callable, Sequence

import msgspec

LookUp = Callable[[str], Sequence[str]]
"""Returns the addresses of a name, best first. It may block for any time. Raises `OSError` if there
are none."""


class Unsent(Exception):
    """There was no answer. `reason` is for people, and contains nothing that the receiver sent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Reply(msgspec.Struct, frozen=True):
    """A receiver's answer, as far as it was read; `arrived` is when its status arrived, by the
    loop's clock."""

    status: int
    retry_after: str | None
    body: bytes
    arrived: float
