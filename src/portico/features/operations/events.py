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


class KindDropped(Event, frozen=True):
    """A hidden kind or field was removed for good."""

    action = "kind.dropped"

    name: str

    @property
    def details(self) -> Details:
        """Its name, such as `orders` or `orders.note`."""
        return {"name": self.name}


class TimesCorrected(Event, frozen=True):
    """`portico correct-times` corrected what a clock that was far ahead had stored."""

    action = "times.corrected"
