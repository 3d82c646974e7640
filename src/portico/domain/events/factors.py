"""Notes about second factors."""

from portico.domain.events.base import Details
from portico.domain.events.users import OfUser
from portico.domain.factors import Authenticator, Passkey


class FactorAdded(OfUser, frozen=True):
    """A factor was added to an account."""

    action = "factor.added"

    kind: str
    factor: Authenticator | Passkey

    @property
    def details(self) -> Details:
        """Its kind and name, and its id, since two may have the same name."""
        return {"kind": self.kind, "name": self.factor.name, "id": self.factor.id}


class FactorRenamed(FactorAdded, frozen=True):
    """A factor got another name; `factor` is as it was before."""

    action = "factor.renamed"

    name: str

    @property
    def details(self) -> Details:
        """Its kind, its old and new name, and its id."""
        name = {"from": self.factor.name, "to": self.name}
        return {"kind": self.kind, "name": name, "id": self.factor.id}


class FactorRemoved(FactorAdded, frozen=True):
    """A factor was removed from an account."""

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
    """An account has new recovery codes; the old ones are no longer accepted."""

    action = "recovery_codes.renewed"


class RecoveryCodeUsed(OfUser, frozen=True):
    """A recovery code was used instead of a factor."""

    action = "recovery_code.used"


class PasskeyRefused(OfUser, frozen=True):
    """A passkey's signature counter went back: it was cloned."""

    action = "passkey.refused"

    passkey: Passkey

    @property
    def details(self) -> Details:
        """Its name and its id."""
        return {"name": self.passkey.name, "id": self.passkey.id}


class SecondFactorAsked(OfUser, frozen=True):
    """After the password or another provider, the user was asked for the second factor."""

    action = "second_factor.asked"


class SecondFactorRefused(OfUser, frozen=True):
    """After the right password, the second factor was wrong, missing or not set up."""

    action = "second_factor.refused"
