"""What a change reports to have happened: one class per kind, in the module of its noun.

The audit log's lines and the events that readers get are both made of these.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

Details = dict[str, Any]


def moved(before: msgspec.Struct, now: msgspec.Struct, names: Iterable[str]) -> Details:
    """Those of these fields that differ, each as `{"from": …, "to": …}`."""
    return {
        name: {"from": getattr(before, name), "to": getattr(now, name)}
        for name in names
        if getattr(before, name) != getattr(now, name)
    }


class Event(msgspec.Struct, frozen=True):
    """Something that happened. `action` is its name in the audit log, such as `product.created`,
    and `target` the kind of thing it happened to, such as `product`."""

    action: ClassVar[str]
    target: ClassVar[str | None] = None

    @property
    def target_id(self) -> int | str | None:
        """The id of the thing it happened to, if there is one."""
        return None

    @property
    def details(self) -> Details:
        """What the audit log shows besides. Never contains secrets."""
        return {}
