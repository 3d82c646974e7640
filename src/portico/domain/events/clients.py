"""What happens to OAuth clients."""

from portico.domain.events.base import Details, Event
from portico.domain.oauth import Client, spelled


class _OfClient(Event, frozen=True):
    target = "client"

    client: Client

    @property
    def target_id(self) -> str:
        return self.client.client_id


class ClientCreated(_OfClient, frozen=True):
    """An OAuth client was registered."""

    action = "client.created"


class ClientChanged(_OfClient, frozen=True):
    """What an OAuth client is registered with changed."""

    action = "client.changed"


class ClientSecretRenewed(_OfClient, frozen=True):
    """An OAuth client got another secret."""

    action = "client.secret_renewed"


class ClientDeleted(_OfClient, frozen=True):
    """An OAuth client is gone, with all that was granted to it."""

    action = "client.deleted"


class ClientRefused(_OfClient, frozen=True):
    """Somebody posed as an OAuth client, and could not prove it."""

    action = "client.refused"


class ClientAuthorized(_OfClient, frozen=True):
    """A user allowed an OAuth client to act for them."""

    action = "client.authorized"

    scopes: frozenset[str]

    @property
    def details(self) -> Details:
        """What they allowed."""
        return {"scopes": spelled(self.scopes)}
