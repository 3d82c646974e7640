"""What changes tell, one type for each: the audit log's lines are made of these, and events."""

from typing import Any, ClassVar

import msgspec

Details = dict[str, Any]


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
