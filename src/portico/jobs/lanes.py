"""Each webhook's deliveries in one process: what it has claimed, and how many go at once."""

import asyncio
from collections import deque

import msgspec

from portico.domain.webhooks import Delivery, Webhook

CLAIMED = 64
"""Deliveries to one webhook, with those that wait for a place, where the receiver is quick."""


class Claimed(msgspec.Struct, frozen=True):
    """A delivery that this process sends; `body` is None where the event is no longer kept.
    `traceparent` is the span of its change, if that was traced."""

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
        """How many more may be claimed."""
        most = CLAIMED if self.quick else 1 if self.failing else self.places
        return max(most - len(self.waiting) - len(self.sending), 0)

    @property
    def low(self) -> bool:
        """Whether it is time to claim more: some may be sent at once, however long others hang."""
        return len(self.waiting) + len(self.sending) < (1 if self.failing else self.places)

    def end(self) -> list[Claimed]:
        """Begins to send nothing more; returns what waited."""
        waiting, self.waiting = [*self.waiting], deque()
        return waiting
