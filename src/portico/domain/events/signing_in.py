"""What happens around signing in."""

from portico.domain.events.base import Details, Event
from portico.domain.events.users import OfUser
from portico.domain.factors import Passkey
from portico.domain.sessions import Session
from portico.domain.users import User


class SignedIn(OfUser, frozen=True):
    """Somebody signed in: by a provider, a passkey, or else by their password."""

    action = "sign_in"

    provider: str | None = None
    passkey: Passkey | None = None
    second_factor: str | None = None

    @property
    def details(self) -> Details:
        """The provider's name, or which passkey it was, and what came after the first step; nothing
        of a password alone."""
        details: Details = {}
        if self.provider is not None:
            details["provider"] = self.provider
        if self.passkey is not None:
            details |= {"passkey": self.passkey.name, "passkey_id": self.passkey.id}
        if self.second_factor is not None:
            details["second_factor"] = self.second_factor
        return details


class SignInRefused(Event, frozen=True):
    """Somebody gave a wrong password, or an e-mail that nobody has, or proved to own a suspended
    account, or came from a provider that those of their domain may not use."""

    action = "sign_in.refused"
    target = "user"

    user: User | None

    @property
    def target_id(self) -> int | None:
        """The account, if there is one."""
        return self.user.id if self.user else None

    @property
    def details(self) -> Details:
        """Whether the account is suspended, where it is."""
        return {"suspended": True} if self.user and self.user.suspended_at is not None else {}


class SignedOut(Event, frozen=True):
    """A session was ended by itself."""

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
    """Whether its browser signed in once more."""

    @property
    def target_id(self) -> int:
        return self.session.id

    @property
    def details(self) -> Details:
        """Whose it was, and why it ended where that was not by hand."""
        why = {"reason": "its browser signed in again"} if self.replaced else {}
        return {"user_id": self.session.user_id, **why}


class SignedOutEverywhere(OfUser, frozen=True):
    """All that an account was signed in with ended."""

    action = "sign_out.everywhere"

    sessions: int
    grants: int

    @property
    def details(self) -> Details:
        """How many sessions and grants there were."""
        return {"sessions": self.sessions, "grants": self.grants}


class GrantRevoked(Event, frozen=True):
    """A login or a consent was ended; `why` tells more of it."""

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
        """Whose it was, and why it ended."""
        return {"user_id": self.user_id, **self.why}


class SigningKeyCreated(Event, frozen=True):
    """A key pair for JSON Web Tokens was made."""

    action = "signing_key.created"
    target = "signing_key"

    kid: str
    at_once: bool

    @property
    def target_id(self) -> str:
        return self.kid

    @property
    def details(self) -> Details:
        """Whether it signs from now on, and not only once others know it."""
        return {"at_once": self.at_once}


class Reencrypted(Event, frozen=True):
    """What former secrets of the installation had encrypted is under the present one."""

    action = "secret.reencrypted"

    counts: dict[str, int]

    @property
    def details(self) -> Details:
        """How many values of which tables."""
        return dict(self.counts)
