"""Webhooks: where events are sent, which ones, and the state of each delivery (decisions §12)."""

import msgspec

from portico.core.errors import BrokenRule
from portico.core.events import EVENT_TYPES, event_types
from portico.core.rules import Measured

MOST_WEBHOOKS = 20
"""The most webhooks in one environment."""

EVERYTHING = "*"
PING = "ping"
"""The type of a test delivery, which is sent to one webhook only."""

BY_HAND = "by hand"
RECEIVER_GONE = "gone"
FAILING = "failing"

DROPPED = "The webhook was disabled."
"""Why a delivery failed that was pending when its webhook was disabled."""

LONGEST_RETRY_AFTER = 7 * 86_400
"""The longest `Retry-After` of a receiver that is respected, in seconds. Events are kept at least
so long."""

FAILING_DAYS = 5
"""A webhook is disabled after so many days without a success, but not by the first attempt of a
delivery, since nothing may have been tried for days before."""

webhook_description = Measured(0, 200)


class Webhook(msgspec.Struct, frozen=True):
    """Where events are sent. `types` are those that it gets, also as `noun.*` and `*`.

    `secret` signs deliveries, and until `former_until` so does `former_secret`; both are encrypted.
    Events up to `queued_up_to` have become deliveries if they match. Deliveries up to
    `dropped_up_to` that were pending are given up. `failing_since` is the first failed attempt
    since the last success, since the URL was set, and since something was tried in time; failed
    tests do not count.
    """

    id: int
    url: str
    description: str
    types: tuple[str, ...]
    disabled_reason: str | None
    secret: bytes
    former_secret: bytes | None
    former_until: int | None
    queued_up_to: int
    dropped_up_to: int
    failing_since: int | None
    created_at: int
    updated_at: int

    @property
    def enabled(self) -> bool:
        """Whether events are sent to it."""
        return self.disabled_reason is None

    def secrets(self, now: int) -> list[bytes]:
        """The encrypted secrets that sign at `now`, the newest first."""
        former = self.former_until is not None and now < self.former_until
        return [self.secret, *([self.former_secret] if former and self.former_secret else [])]


class Delivery(msgspec.Struct, frozen=True):
    """The delivery of an event to a webhook. `status` is `pending`, `delivered` or `failed`;
    `next_attempt_at` is set while it is pending. The other fields describe the last attempt: its
    status and the beginning of the answer, or why there is none, and how long it took."""

    id: int
    webhook_id: int
    event_id: int
    type: str
    status: str
    attempts: int
    next_attempt_at: int | None
    last_status: int | None
    last_error: str | None
    last_milliseconds: int | None
    answer: str | None
    created_at: int


def as_shown(delivery: Delivery, webhook: Webhook) -> Delivery:
    """A delivery as it is shown: one that was pending when its webhook was disabled has failed."""
    if delivery.status != "pending" or delivery.id > webhook.dropped_up_to:
        return delivery
    return msgspec.structs.replace(
        delivery, status="failed", next_attempt_at=None, last_error=DROPPED
    )


def webhook_type(text: str) -> str:
    """Accepts a type of event, `noun.*` or `*`, and strips white space. Raises `BrokenRule`."""
    text = text.strip()
    if text != EVERYTHING:
        if "," in text:
            raise BrokenRule("must be one type of event; list several separately")
        event_types(text)
    return text


def covered(types: tuple[str, ...]) -> frozenset[str]:
    """The types of events that a webhook with these `types` gets."""
    if EVERYTHING in types:
        return frozenset(EVENT_TYPES)
    return frozenset(name for one in types for name in event_types(one))
