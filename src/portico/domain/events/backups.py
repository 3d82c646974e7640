"""Notes about backups."""

from portico.domain.events.base import Details, Event


class BackedUp(Event, frozen=True):
    """`portico backup` wrote a backup, a file of `size` bytes."""

    action = "backup.created"

    size: int

    @property
    def details(self) -> Details:
        """Its size."""
        return {"bytes": self.size}
