"""What happens to accounts' links to other providers."""

from portico.domain.events.base import Details
from portico.domain.events.users import OfUser


class ProviderLinked(OfUser, frozen=True):
    """Somebody at a provider signs in as an account from now on."""

    action = "provider.linked"

    issuer: str

    @property
    def details(self) -> Details:
        """Whose word counts."""
        return {"issuer": self.issuer}


class ProviderUnlinked(ProviderLinked, frozen=True):
    """Somebody at a provider signs in as an account no longer."""

    action = "provider.unlinked"
