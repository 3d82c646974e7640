"""What happens to second factors."""

from portico.domain.events.base import Details
from portico.domain.events.users import OfUser
from portico.domain.factors import Authenticator, Passkey


class FactorAdded(OfUser, frozen=True):
    """An account has a factor more."""

    action = "factor.added"

    kind: str
    factor: Authenticator | Passkey

    @property
    def details(self) -> Details:
        """What it is, its name, and its id, since two may have one name."""
        return {"kind": self.kind, "name": self.factor.name, "id": self.factor.id}


class FactorRenamed(FactorAdded, frozen=True):
    """A factor, here as it was before, has another name."""

    action = "factor.renamed"

    name: str

    @property
    def details(self) -> Details:
        """As above, with the old name and the new one."""
        name = {"from": self.factor.name, "to": self.name}
        return {"kind": self.kind, "name": name, "id": self.factor.id}


class FactorRemoved(FactorAdded, frozen=True):
    """An account has a factor less."""

    action = "factor.removed"


class FactorsReset(OfUser, frozen=True):
    """An administrator or operator removed all factors of an account."""

    action = "factors.reset"

    factors: int

    @property
    def details(self) -> Details:
        """How many there were."""
        return {"factors": self.factors}


class RecoveryCodesRenewed(OfUser, frozen=True):
    """An account has new recovery codes, and its old ones open nothing."""

    action = "recovery_codes.renewed"


class RecoveryCodeUsed(OfUser, frozen=True):
    """A recovery code took the place of a factor."""

    action = "recovery_code.used"


class PasskeyRefused(OfUser, frozen=True):
    """A passkey counted less than before: there are two of it."""

    action = "passkey.refused"

    passkey: Passkey

    @property
    def details(self) -> Details:
        """Its name and its id."""
        return {"name": self.passkey.name, "id": self.passkey.id}


class SecondFactorAsked(OfUser, frozen=True):
    """Whoever knew the password, or came from a provider, was asked for the second factor."""

    action = "second_factor.asked"


class SecondFactorRefused(OfUser, frozen=True):
    """Whoever knew the password gave a wrong code, or none, or had nothing to give one by."""

    action = "second_factor.refused"
