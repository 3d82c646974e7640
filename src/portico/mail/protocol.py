"""What the service asks of whatever takes its mail. The outlets are `smtp` and `files`."""

from typing import Protocol

import msgspec


class Letter(msgspec.Struct, frozen=True):
    """A mail to one user, as plain text and as HTML.

    `id` tells it from every other one, `at` is when it was written (epoch milliseconds).
    """

    id: str
    at: int
    user_id: int
    to: str
    subject: str
    text: str
    html: str


class Undelivered(Exception):
    """A letter was not taken.

    `reason` holds nothing of the letter and no address of a person. `lasting` tells that the next
    attempt would end in the same way.
    """

    def __init__(self, reason: str, *, lasting: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.lasting = lasting


class Outlet(Protocol):
    """Where letters go."""

    async def send(self, letter: Letter) -> None:
        """Hands a letter over; the next one who is responsible for it has it then. Raises
        `Undelivered`, within minutes."""
        ...
