"""What happens to invitations."""

from portico.domain.events.base import Details, Event
from portico.domain.invitations import Invitation


class OfInvitation(Event, frozen=True):
    target = "invitation"

    invitation: Invitation

    @property
    def target_id(self) -> int:
        return self.invitation.id

    @property
    def details(self) -> Details:
        """Whom it is for, and as what."""
        its = self.invitation
        return {"email": its.email, "role": its.role, "plan": its.plan}


class Invited(OfInvitation, frozen=True):
    """An admin invited somebody, or did so again."""

    action = "invitation.created"


class InvitationRevoked(OfInvitation, frozen=True):
    """An admin took an invitation back."""

    action = "invitation.revoked"


class InvitationAccepted(OfInvitation, frozen=True):
    """Whoever was invited, or signed up, has an account now."""

    action = "invitation.accepted"


class SignedUp(OfInvitation, frozen=True):
    """Somebody asked for an account, and was sent a link."""

    action = "sign_up"
