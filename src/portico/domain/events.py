"""What changes tell, one type for each: the audit log's lines are made of these."""

from typing import Any, ClassVar

import msgspec

from portico.domain.api_keys import ApiKey
from portico.domain.oauth import Client, spelled
from portico.domain.products import Product
from portico.domain.sessions import Session
from portico.domain.users import User

Details = dict[str, Any]


class Event(msgspec.Struct, frozen=True):
    """Something that happened. `action` names it, `target` the kind of what it happened to."""

    action: ClassVar[str]
    target: ClassVar[str | None] = None

    @property
    def target_id(self) -> int | str | None:
        """Which one of its kind it happened to."""
        return None

    @property
    def details(self) -> Details:
        """What else there is to tell, without secrets."""
        return {}


class _OfUser(Event, frozen=True):
    target = "user"

    user: User

    @property
    def target_id(self) -> int:
        return self.user.id


class UserCreated(_OfUser, frozen=True):
    """An account was made."""

    action = "user.created"

    @property
    def details(self) -> Details:
        """Its e-mail, role and plan."""
        user = self.user
        return {"email": user.email, "role": user.role, "plan": user.plan}


class UserChanged(_OfUser, frozen=True):
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
        fields = self.fields
        moved: Details = {
            field: {"from": getattr(self.before, field), "to": getattr(self.user, field)}
            for field in _TOLD_WHOLE
            if field in fields
        }
        return {"fields": fields, **moved}


_TOLD_WHOLE: tuple[str, ...] = ("email", "role", "plan")
_NAMED = ("name", "email", "role", "plan", "avatar_url", "theme", "language", "notifications")


class UserDeleted(_OfUser, frozen=True):
    """An account is gone."""

    action = "user.deleted"

    @property
    def details(self) -> Details:
        """Its e-mail and role."""
        return {"email": self.user.email, "role": self.user.role}


class PasswordChanged(_OfUser, frozen=True):
    """An account has a new password, and what it was signed in with ended."""

    action = "password.changed"


class PasswordReset(_OfUser, frozen=True):
    """An account got a new password through a link in a mail."""

    action = "password.reset"


class PasswordRefused(_OfUser, frozen=True):
    """Somebody who is signed in gave a wrong current password."""

    action = "password.refused"


class EmailVerified(_OfUser, frozen=True):
    """Whoever has the account reads mail at its address."""

    action = "email.verified"


class LinkAsked(_OfUser, frozen=True):
    """A link was sent to an account by mail."""

    action = "link.asked"

    purpose: str

    @property
    def details(self) -> Details:
        """What the link is for."""
        return {"purpose": self.purpose}


class SignedIn(_OfUser, frozen=True):
    """Somebody signed in."""

    action = "sign_in"


class SignInRefused(Event, frozen=True):
    """Somebody gave a wrong password, or an e-mail that nobody has."""

    action = "sign_in.refused"
    target = "user"

    user: User | None

    @property
    def target_id(self) -> int | None:
        """The account, if there is one."""
        return self.user.id if self.user else None


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

    @property
    def target_id(self) -> int:
        return self.session.id

    @property
    def details(self) -> Details:
        """Whose it was."""
        return {"user_id": self.session.user_id}


class SignedOutEverywhere(_OfUser, frozen=True):
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


class _OfKey(Event, frozen=True):
    target = "api_key"

    key: ApiKey

    @property
    def target_id(self) -> int:
        return self.key.id


class KeyCreated(_OfKey, frozen=True):
    """An API key was made."""

    action = "key.created"

    @property
    def details(self) -> Details:
        """Its name, type and owner."""
        return {"name": self.key.name, "type": self.key.type, "user_id": self.key.user_id}


class KeyRotated(_OfKey, frozen=True):
    """An API key got a successor."""

    action = "key.rotated"

    successor: ApiKey

    @property
    def details(self) -> Details:
        """Its name and its successor."""
        return {"name": self.key.name, "successor": self.successor.id}


class KeyRevoked(_OfKey, frozen=True):
    """An API key was ended."""

    action = "key.revoked"

    @property
    def details(self) -> Details:
        """Its name and owner."""
        return {"name": self.key.name, "user_id": self.key.user_id}


class _OfClient(Event, frozen=True):
    target = "client"

    client: Client

    @property
    def target_id(self) -> str:
        return self.client.client_id


class ClientCreated(_OfClient, frozen=True):
    """An OAuth client was registered."""

    action = "client.created"


class ClientChanged(_OfClient, frozen=True):
    """What an OAuth client is registered with changed."""

    action = "client.changed"


class ClientSecretRenewed(_OfClient, frozen=True):
    """An OAuth client got another secret."""

    action = "client.secret_renewed"


class ClientDeleted(_OfClient, frozen=True):
    """An OAuth client is gone, with all that was granted to it."""

    action = "client.deleted"


class ClientRefused(_OfClient, frozen=True):
    """Somebody posed as an OAuth client, and could not prove it."""

    action = "client.refused"


class ClientAuthorized(_OfClient, frozen=True):
    """A user allowed an OAuth client to act for them."""

    action = "client.authorized"

    scopes: frozenset[str]

    @property
    def details(self) -> Details:
        """What they allowed."""
        return {"scopes": spelled(self.scopes)}


class _OfProduct(Event, frozen=True):
    target = "product"

    product: Product

    @property
    def target_id(self) -> int:
        return self.product.id


class ProductCreated(_OfProduct, frozen=True):
    """A product was made."""

    action = "product.created"

    @property
    def details(self) -> Details:
        return {"name": self.product.name}


class ProductChanged(_OfProduct, frozen=True):
    """Values of a product changed; `product` is as it is now."""

    action = "product.changed"

    before: Product

    @property
    def details(self) -> Details:
        """The fields that differ."""
        names = (f for f in self.product.__struct_fields__ if f != "updated_at")
        fields = [f for f in names if getattr(self.product, f) != getattr(self.before, f)]
        return {"fields": fields}


class ProductDeleted(_OfProduct, frozen=True):
    """A product is gone."""

    action = "product.deleted"

    @property
    def details(self) -> Details:
        return {"name": self.product.name}


class ProductsImported(Event, frozen=True):
    """Products came in from a file."""

    action = "products.imported"
    target = "product"

    inserted: int

    @property
    def details(self) -> Details:
        return {"inserted": self.inserted}


class SandboxReset(Event, frozen=True):
    """The sandbox was filled with samples."""

    action = "sandbox.reset"

    filled: Details

    @property
    def details(self) -> Details:
        """How many of each kind."""
        return self.filled


class SigningKeyCreated(Event, frozen=True):
    """A key pair for JSON Web Tokens was made."""

    action = "signing_key.created"
    target = "signing_key"

    kid: str

    @property
    def target_id(self) -> str:
        return self.kid
