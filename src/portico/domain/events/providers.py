"""Notes about accounts' links to other providers."""

from portico.domain.events.base import Details
from portico.domain.events.users import OfUser


class ProviderLinked(OfUser, frozen=True):
    """An identity at another provider was linked to an account."""

    action = "provider.linked"

    issuer: str

    @property
    def details(self) -> Details:
        """The provider's issuer."""
        return {"issuer": self.issuer}


class ProviderUnlinked(ProviderLinked, frozen=True):
    """An identity at another provider was unlinked from an account."""

    action = "provider.unlinked"
