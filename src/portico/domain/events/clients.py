"""Notes about OAuth clients."""

from portico.domain.events.base import Details, Event, changed_values
from portico.domain.oauth import Client, spelled


class _OfClient(Event, frozen=True):
    target = "client"

    client: Client

    @property
    def target_id(self) -> str:
        return self.client.client_id

    @property
    def details(self) -> Details:
        """Its name."""
        return {"name": self.client.name}


class _WholeClient(_OfClient, frozen=True):
    @property
    def details(self) -> Details:
        """What it is registered with, and its owner."""
        client = self.client
        return {
            "name": client.name,
            "redirect_uris": list(client.redirect_uris),
            "scopes": spelled(client.scopes),
            "public": client.public,
            "user_id": client.user_id,
        }


class ClientCreated(_WholeClient, frozen=True):
    """An OAuth client was registered."""

    action = "client.created"


class ClientChanged(_OfClient, frozen=True):
    """The registration of an OAuth client changed."""

    action = "client.changed"

    before: Client

    @property
    def details(self) -> Details:
        """The old and the new values."""
        details = changed_values(self.before, self.client, ("name", "redirect_uris", "scopes"))
        if "scopes" in details:
            before, now = self.before.scopes, self.client.scopes
            details["scopes"] = {"from": spelled(before), "to": spelled(now)}
        return details


class ClientSecretRenewed(_OfClient, frozen=True):
    """An OAuth client got a new secret."""

    action = "client.secret_renewed"


class ClientDeleted(_WholeClient, frozen=True):
    """An OAuth client was deleted, with all grants to it."""

    action = "client.deleted"


class ClientRefused(_OfClient, frozen=True):
    """A request claimed to be from an OAuth client and failed to authenticate."""

    action = "client.refused"


class ClientAuthorized(_OfClient, frozen=True):
    """A user allowed an OAuth client to act for them."""

    action = "client.authorized"

    scopes: frozenset[str]

    @property
    def details(self) -> Details:
        """The granted scopes."""
        return {"scopes": spelled(self.scopes)}
