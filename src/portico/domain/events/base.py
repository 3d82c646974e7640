"""What changes tell, one type for each: the audit log's lines are made of these, and events."""

from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

Details = dict[str, Any]


def moved(before: msgspec.Struct, now: msgspec.Struct, names: Iterable[str]) -> Details:
    """The old and the new value of each of these fields that differs."""
    return {
        name: {"from": getattr(before, name), "to": getattr(now, name)}
        for name in names
        if getattr(before, name) != getattr(now, name)
    }


class Event(msgspec.Struct, frozen=True):
    """Something that happened. `action` names it, `target` the kind of what it happened to."""

    action: ClassVar[str]
    target: ClassVar[str | None] = None

    @property
    def target_id(self) -> int | str | None:
        """Which one of its kind it happened to."""
        return None

    @property
    def details(self) -> Details:
        """What else there is to tell, without secrets."""
        return {}
