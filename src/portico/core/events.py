"""Events as readers and webhooks get them: their types, and the scope that each needs."""

from collections.abc import Collection, Iterable
from typing import Any, ClassVar

import msgspec

from portico.core.errors import BrokenRule

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
