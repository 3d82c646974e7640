"""Invitations, by an admin or by signing up: who may create an account, and with which role."""

import msgspec

from portico.core.events import Details, Event, changed_values
from portico.core.times import DAY, HOUR
from portico.core.users import User

VALIDITY = 7 * DAY
"""How long an admin's invitation is valid, in milliseconds."""

SIGN_UP_VALIDITY = 24 * HOUR
"""How long the link of a sign-up is valid, in milliseconds."""

KEPT = 30 * DAY
"""How long an expired invitation is kept, so that it can be renewed, in milliseconds."""


class Invitation(msgspec.Struct, frozen=True):
    """An invitation by an admin, or a sign-up if `signed_up`. Times are epoch milliseconds.

    `mailed` says that the link was only sent to this e-mail, so that using it proves that the
    address is the user's. `inviter_id` is the admin, None for the operator and for sign-ups.
    """

    id: int
    email: str
    name: str
    role: str
    plan: str
    signed_up: bool
    mailed: bool
    created_at: int
    expires_at: int
    inviter_id: int | None = None


class OfUser(Event, frozen=True):
    """Something about an account. Its further fields are the details, but for `before`."""

    target = "user"

    user: User

    @property
    def target_id(self) -> int:
        return self.user.id

    @property
    def details(self) -> Details:
        """The fields that a kind of event adds."""
        names = self.__struct_fields__
        return {name: getattr(self, name) for name in names if name not in ("user", "before")}


class UserCreated(OfUser, frozen=True):
    """An account was created."""

    action = "user.created"

    @property
    def details(self) -> Details:
        """Its e-mail, role and plan."""
        user = self.user
        return {"email": user.email, "role": user.role, "plan": user.plan}


class UserChanged(OfUser, frozen=True):
    """Values of an account changed: from `before` to `user`."""

    action = "user.updated"

    before: User

    @property
    def fields(self) -> list[str]:
        """The names of the fields that differ, of those that the audit log records."""
        return [f for f in _NAMED if getattr(self.user, f) != getattr(self.before, f)]

    @property
    def details(self) -> Details:
        """The names of the fields, and for those that affect access the old and new value."""
        return {"fields": self.fields, **changed_values(self.before, self.user, _TOLD_WHOLE)}


_TOLD_WHOLE = ("email", "role", "plan")

_NAMED = (
    *("name", "email", "role", "plan", "avatar_url"),
    *("theme", "language", "notifications", "muted", "external_id", "metadata"),
)


class UserDeleted(OfUser, frozen=True):
    """An account was deleted."""

    action = "user.deleted"

    @property
    def details(self) -> Details:
        """Its e-mail and role."""
        return {"email": self.user.email, "role": self.user.role}


class UserSuspended(OfUser, frozen=True):
    """An account was suspended: none of its credentials is accepted any more."""

    action = "user.suspended"

    before: User
    sessions: int
    grants: int


class UserResumed(OfUser, frozen=True):
    """The suspension of an account was lifted."""

    action = "user.resumed"

    before: User


class QuotaReached(OfUser, frozen=True):
    """An account has used so many percent of its month's limit."""

    action = "quota.reached"

    percent: int

    @property
    def details(self) -> Details:
        """The window and the percent."""
        return {"window": "month", "percent": self.percent}


class PasswordChanged(OfUser, frozen=True):
    """An account has a new password; sign-ins with the old one were ended."""

    action = "password.changed"


class PasswordReset(OfUser, frozen=True):
    """An account got a new password by a link in a mail."""

    action = "password.reset"


class PasswordRefused(OfUser, frozen=True):
    """A signed-in user gave a wrong current password."""

    action = "password.refused"


class EmailVerified(OfUser, frozen=True):
    """The user proved that they receive mail at the account's address."""

    action = "email.verified"


class LinkGiven(OfUser, frozen=True):
    """An admin was shown a link to give to the account's user."""

    action = "link.given"

    purpose: str


class LinkAsked(OfUser, frozen=True):
    """A link was mailed to an account on request."""

    action = "link.asked"

    purpose: str


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
