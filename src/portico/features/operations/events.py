"""Notes about what operators do to the whole installation."""

from portico.core.events import Details, Event


class BackedUp(Event, frozen=True):
    """`portico backup` wrote a backup, a file of `size` bytes."""

    action = "backup.created"

    size: int

    @property
    def details(self) -> Details:
        """Its size."""
        return {"bytes": self.size}


class TimesCorrected(Event, frozen=True):
    """`portico correct-times` corrected what a clock that was far ahead had stored."""

    action = "times.corrected"
