"""The interface of outgoing mail. The outlets are `smtp` and `files`."""

from typing import Protocol

import msgspec


class Letter(msgspec.Struct, frozen=True):
    """A mail to one user, as plain text and as HTML.

    `id` is unique, and `at` is when it was written (epoch milliseconds).
    """

    id: str
    at: int
    user_id: int
    to: str
    subject: str
    text: str
    html: str


class Undelivered(Exception):
    """A letter was not accepted.

    `reason` contains nothing of the letter and no person's address. `lasting` is whether the next
    attempt would fail in the same way.
    """

    def __init__(self, reason: str, *, lasting: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.lasting = lasting


class Outlet(Protocol):
    """Sends letters."""

    async def send(self, letter: Letter) -> None:
        """Sends a letter. Returns once the receiver has taken responsibility for it. Raises
        `Undelivered`, within minutes."""
        ...
