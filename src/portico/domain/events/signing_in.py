"""Notes about signing in and out, sessions, grants and signing keys."""

from portico.domain.events.base import Details, Event
from portico.domain.events.users import OfUser
from portico.domain.factors import Passkey
from portico.domain.sessions import Session
from portico.domain.users import User


class SignedIn(OfUser, frozen=True):
    """A user signed in: by a provider, a passkey, or otherwise a password."""

    action = "sign_in"

    provider: str | None = None
    passkey: Passkey | None = None
    second_factor: str | None = None

    @property
    def details(self) -> Details:
        """The provider's name or the passkey, and the second factor; empty for a password alone."""
        details: Details = {}
        if self.provider is not None:
            details["provider"] = self.provider
        if self.passkey is not None:
            details |= {"passkey": self.passkey.name, "passkey_id": self.passkey.id}
        if self.second_factor is not None:
            details["second_factor"] = self.second_factor
        return details


class SignInRefused(Event, frozen=True):
    """A sign-in failed: by a wrong password, an unknown e-mail, a suspended account, or a provider
    that the user's domain may not use."""

    action = "sign_in.refused"
    target = "user"

    user: User | None

    @property
    def target_id(self) -> int | None:
        """The account, if there is one."""
        return self.user.id if self.user else None

    @property
    def details(self) -> Details:
        """Says so if the account is suspended."""
        return {"suspended": True} if self.user and self.user.suspended_at is not None else {}


class SignedOut(Event, frozen=True):
    """A session was ended with its own cookie."""

    action = "sign_out"
    target = "session"

    session_id: int

    @property
    def target_id(self) -> int:
        return self.session_id


class SessionRevoked(Event, frozen=True):
    """A session was ended from elsewhere."""

    action = "session.revoked"
    target = "session"

    session: Session
    replaced: bool = False
    """Whether it ended because its browser signed in again."""

    @property
    def target_id(self) -> int:
        return self.session.id

    @property
    def details(self) -> Details:
        """Its user, and the reason unless it was ended by hand."""
        why = {"reason": "its browser signed in again"} if self.replaced else {}
        return {"user_id": self.session.user_id, **why}


class SignedOutEverywhere(OfUser, frozen=True):
    """All sessions and grants of an account were ended."""

    action = "sign_out.everywhere"

    sessions: int
    grants: int

    @property
    def details(self) -> Details:
        """How many sessions and grants there were."""
        return {"sessions": self.sessions, "grants": self.grants}


class GrantRevoked(Event, frozen=True):
    """A login or a consent was revoked; `why` has the details."""

    action = "grant.revoked"
    target = "grant"

    grant_id: int
    user_id: int
    why: Details

    @property
    def target_id(self) -> int:
        return self.grant_id

    @property
    def details(self) -> Details:
        """Its user, and why it was revoked."""
        return {"user_id": self.user_id, **self.why}


class SigningKeyCreated(Event, frozen=True):
    """A key pair for JSON Web Tokens was created."""

    action = "signing_key.created"
    target = "signing_key"

    kid: str
    at_once: bool

    @property
    def target_id(self) -> str:
        return self.kid

    @property
    def details(self) -> Details:
        """Whether it signs at once, rather than after it has been published for a while."""
        return {"at_once": self.at_once}


class Reencrypted(Event, frozen=True):
    """Values encrypted with former secrets of the installation are now encrypted with the current
    one."""

    action = "secret.reencrypted"

    counts: dict[str, int]

    @property
    def details(self) -> Details:
        """How many values of each table."""
        return dict(self.counts)
