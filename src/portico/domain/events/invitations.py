"""Notes about invitations."""

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
        """Its e-mail, role and plan."""
        its = self.invitation
        return {"email": its.email, "role": its.role, "plan": its.plan}


class Invited(OfInvitation, frozen=True):
    """An admin invited someone, or renewed an invitation."""

    action = "invitation.created"


class InvitationRevoked(OfInvitation, frozen=True):
    """An admin revoked an invitation."""

    action = "invitation.revoked"


class InvitationAccepted(OfInvitation, frozen=True):
    """The invited or signed-up person now has an account."""

    action = "invitation.accepted"


class SignedUp(OfInvitation, frozen=True):
    """Someone asked for an account and was sent a link."""

    action = "sign_up"
