"""Events as readers and webhooks get them: their types, and the scope that each needs. Webhooks,
and the state of each delivery (decisions §12)."""

from collections.abc import Collection, Iterable
from typing import Any, ClassVar

import msgspec

from portico.core.errors import BrokenRule
from portico.core.rules import Measured

_BUILT_IN = {
    "user.created": "read:users",
    "user.updated": "read:users",
    "user.deleted": "read:users",
    "account.updated": "admin",
    "quota.reached": "admin",
    "product.created": "read:products",
    "product.updated": "read:products",
    "product.deleted": "read:products",
    "products.imported": "read:products",
    "api_key.created": "admin",
    "api_key.rotated": "admin",
    "api_key.revoked": "admin",
    "sandbox.reset": "admin",
}


class EventTypes:
    """The types of events of this installation. What it adds to Portico's own is added when it
    starts; the containers are changed in place, as those of `scopes.Permissions`."""

    def __init__(self) -> None:
        self.scopes: dict[str, str] = {}
        """Every type, and the scope needed to read it (decisions §12)."""
        self.types: list[str] = []
        self.nouns: list[str] = []
        """The patterns that stand for all types of a noun."""
        self.only_built_in()

    def only_built_in(self) -> None:
        """Removes all that was added."""
        self.scopes.clear()
        self.scopes.update(_BUILT_IN)
        self._list()

    def add(self, types: Iterable[str], scope: str) -> None:
        """Adds types that need this scope."""
        self.scopes.update(dict.fromkeys(types, scope))
        self._list()

    def _list(self) -> None:
        self.types[:] = self.scopes
        self.nouns[:] = dict.fromkeys(f"{name.partition('.')[0]}.*" for name in self.types)


EVENTS = EventTypes()
"""Those of this process, which serves one installation."""

EVENT_SCOPES = EVENTS.scopes
EVENT_TYPES = EVENTS.types
EVENT_NOUNS = EVENTS.nouns


def covered_by(scopes: Collection[str]) -> tuple[str, ...]:
    """The types of events that these scopes permit to read."""
    return tuple(name for name, scope in EVENT_SCOPES.items() if scope in scopes)


class Published(msgspec.Struct, frozen=True):
    """An event about a change. `data` is the resource as JSON; `previous` has the old values of the
    changed fields, only for an update."""

    type: str
    data: str
    previous: str | None = None


class StoredEvent(msgspec.Struct, frozen=True):
    """An event with its number among all; `at` is in epoch milliseconds. `traceparent` is the span
    of the change (W3C Trace Context §3.2), if that was traced."""

    id: int
    type: str
    at: int
    data: str
    previous: str | None
    traceparent: str | None = None

    @property
    def size(self) -> int:
        """Its approximate size in bytes."""
        return len(self.data) + len(self.previous or "")


def event_types(text: str) -> tuple[str, ...]:
    """Reads comma-separated types; `noun.*` stands for all types of a noun. Raises
    `BrokenRule`."""
    found: set[str] = set()
    for word in text.split(","):
        noun, dot, rest = word.partition(".")
        if rest == "*":
            of_noun = {name for name in EVENT_TYPES if name.startswith(noun + dot)}
        else:
            of_noun = {noun + dot + rest} & EVENT_SCOPES.keys()
        if not of_noun:
            raise BrokenRule(f"must be some of {', '.join(EVENT_TYPES)}, or a pattern like user.*")
        found |= of_noun
    return tuple(name for name in EVENT_TYPES if name in found)


Details = dict[str, Any]


def changed_values(before: msgspec.Struct, now: msgspec.Struct, names: Iterable[str]) -> Details:
    """The fields, of `names`, whose values differ, each as `{"from": …, "to": …}`."""
    return {
        name: {"from": getattr(before, name), "to": getattr(now, name)}
        for name in names
        if getattr(before, name) != getattr(now, name)
    }


class Event(msgspec.Struct, frozen=True):
    """Something that happened. `action` is its name in the audit log, such as `product.created`,
    and `target` the kind of thing that it happened to, such as `product`."""

    action: ClassVar[str]
    target: ClassVar[str | None] = None

    @property
    def target_id(self) -> int | str | None:
        """The id of the thing that it happened to, if there is one."""
        return None

    @property
    def details(self) -> Details:
        """Further details for the audit log. Never contains secrets."""
        return {}


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


def covers(types: tuple[str, ...], event_type: str) -> bool:
    """Whether a webhook with these `types` gets events of this type. The type may be unknown here:
    of a kind that is gone from the files, or that only other hosts have yet."""
    noun = event_type.partition(".")[0]
    return not {EVERYTHING, f"{noun}.*", event_type}.isdisjoint(types)
