"""The note of a change to a record of a kind that the installation declares."""

from typing import Any

import msgspec

from portico.core.events import Details, Event, Published


class RecordNote(Event, frozen=True):
    """A record was created, changed (then there is a `before`) or deleted. Each kind has its own
    subclasses, with the names of its actions."""

    record: Any
    before: Any = None

    @property
    def target_id(self) -> int:
        number: int = self.record.id
        return number

    def published(self) -> Published | None:
        """The event that is published for it, if any."""
        raise NotImplementedError

    @property
    def details(self) -> Details:
        """The names of the fields that differ, except `updated_at`."""
        if self.before is None:
            return {}
        return {
            "fields": [
                name.removeprefix("f_")
                for name, old, new in zip(
                    self.record.__struct_fields__,
                    msgspec.structs.astuple(self.before),
                    msgspec.structs.astuple(self.record),
                    strict=True,
                )
                if old != new and name != "updated_at"
            ]
        }
