"""What happens to accounts."""

from portico.domain.events.base import Details, Event, moved
from portico.domain.users import User


class OfUser(Event, frozen=True):
    target = "user"

    user: User

    @property
    def target_id(self) -> int:
        return self.user.id


class UserCreated(OfUser, frozen=True):
    """An account was made."""

    action = "user.created"

    @property
    def details(self) -> Details:
        """Its e-mail, role and plan."""
        user = self.user
        return {"email": user.email, "role": user.role, "plan": user.plan}


class UserChanged(OfUser, frozen=True):
    """Values of an account changed; `user` is as it is now."""

    action = "user.changed"

    before: User

    @property
    def fields(self) -> list[str]:
        """What differs of that which the log names."""
        return [f for f in _NAMED if getattr(self.user, f) != getattr(self.before, f)]

    @property
    def details(self) -> Details:
        """The fields; of those that decide on access, the old value and the new one."""
        return {"fields": self.fields, **moved(self.before, self.user, _TOLD_WHOLE)}


_TOLD_WHOLE = ("email", "role", "plan")

_NAMED = (
    *("name", "email", "role", "plan", "avatar_url"),
    *("theme", "language", "notifications", "muted"),
)


class UserDeleted(OfUser, frozen=True):
    """An account is gone."""

    action = "user.deleted"

    @property
    def details(self) -> Details:
        """Its e-mail and role."""
        return {"email": self.user.email, "role": self.user.role}


class UserSuspended(OfUser, frozen=True):
    """Nothing that an account has opens anything any more."""

    action = "user.suspended"

    sessions: int
    grants: int

    @property
    def details(self) -> Details:
        """How many sessions and grants it ended."""
        return {"sessions": self.sessions, "grants": self.grants}


class UserResumed(OfUser, frozen=True):
    """An account is suspended no longer."""

    action = "user.resumed"


class PasswordChanged(OfUser, frozen=True):
    """An account has a new password, and what it was signed in with ended."""

    action = "password.changed"


class PasswordReset(OfUser, frozen=True):
    """An account got a new password through a link in a mail."""

    action = "password.reset"


class PasswordRefused(OfUser, frozen=True):
    """Somebody who is signed in gave a wrong current password."""

    action = "password.refused"


class EmailVerified(OfUser, frozen=True):
    """Whoever has the account reads mail at its address."""

    action = "email.verified"


class LinkGiven(OfUser, frozen=True):
    """An admin got a link to hand over to an account."""

    action = "link.given"

    purpose: str

    @property
    def details(self) -> Details:
        """What the link is for."""
        return {"purpose": self.purpose}


class LinkAsked(OfUser, frozen=True):
    """A link was sent to an account by mail."""

    action = "link.asked"

    purpose: str

    @property
    def details(self) -> Details:
        """What the link is for."""
        return {"purpose": self.purpose}
