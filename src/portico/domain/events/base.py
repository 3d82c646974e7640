"""The notes by which a change reports what happened: one class per kind, in its noun's module.

Both the audit log's lines and published events are made from them.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

import msgspec

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
