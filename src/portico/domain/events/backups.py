"""What happens to backups."""

from portico.domain.events.base import Details, Event


class BackedUp(Event, frozen=True):
    """`portico backup` wrote everything into a file, of `size` bytes."""

    action = "backup.created"

    size: int

    @property
    def details(self) -> Details:
        return {"bytes": self.size}
