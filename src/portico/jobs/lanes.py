"""One process's deliveries by webhook: those claimed, and how many are sent at the same time."""

import asyncio
from collections import deque

import msgspec

from portico.domain.webhooks import Delivery, Webhook

CLAIMED = 64
"""The most deliveries to claim for a webhook with a quick receiver, including waiting ones."""


class Claimed(msgspec.Struct, frozen=True):
    """A delivery that this process sends, claimed `at` (epoch milliseconds). `body` is None if the
    event was removed. `traceparent` is the span of the event's change, if that was traced."""

    delivery: Delivery
    body: bytes | None
    traceparent: str | None
    at: int


class Lane:
    """One webhook's deliveries in this process."""

    def __init__(self, webhook: Webhook, places: int) -> None:
        self.webhook = webhook
        self.places = places
        self.waiting: deque[Claimed] = deque()
        self.sending: dict[asyncio.Task[None], Claimed] = {}
        self.quick = False
        self.failing = False

    @property
    def room(self) -> int:
        """How many more deliveries may be claimed."""
        most = CLAIMED if self.quick else 1 if self.failing else self.places
        return max(most - len(self.waiting) - len(self.sending), 0)

    @property
    def is_low(self) -> bool:
        """Whether to claim more, since there are free places."""
        return len(self.waiting) + len(self.sending) < (1 if self.failing else self.places)

    def clear(self) -> list[Claimed]:
        """Removes and returns the waiting deliveries, so that no more are sent."""
        waiting, self.waiting = [*self.waiting], deque()
        return waiting
