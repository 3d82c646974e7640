"""Other identity providers (OpenID Connect Core 1.0), and the accounts linked to them."""

from urllib.parse import urlsplit

import msgspec

from portico.core.networks import is_loopback
from portico.core.times import SECOND
from portico.core.users import mail_domain

VISIT_SECONDS = 600
"""How long a user may take at a provider, or wait to be linked."""


class PlainOAuth(msgspec.Struct, frozen=True, kw_only=True):
    """Where a provider without OpenID Connect is asked who has signed in, and what its answers call
    that. Without `emails_endpoint`, which returns a list, the e-mail is in the answer of
    `user_endpoint`."""

    authorization_endpoint: str
    token_endpoint: str
    user_endpoint: str
    emails_endpoint: str | None = None
    scope: str
    subject_field: str
    name_field: str
    email_field: str
    email_verified_field: str


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A configured provider. `plain` is set if it has no OpenID Connect; its `issuer` then only
    names whose subjects are linked. `domains` (in the form of `mail_domain`) limits who may use it;
    empty means everyone. With `create_users`, unknown users get an account with `role`."""

    name: str
    issuer: str
    client_id: str
    client_secret: str
    label: str
    domains: tuple[str, ...] = ()
    create_users: bool = False
    role: str = "viewer"
    plain: PlainOAuth | None = None

    def __repr__(self) -> str:
        return f"Provider({self.name!r}, issuer={self.issuer!r})"


class Person(msgspec.Struct, frozen=True):
    """The user that a provider has signed in. Only `subject` never changes. `email` is empty if the
    provider sent no valid one."""

    subject: str
    email: str
    email_verified: bool
    name: str


class ProviderLink(msgspec.Struct, frozen=True):
    """Links `subject` at `issuer` to an account. `email` is the one that the provider reported when
    they were linked, `created_at` is in epoch milliseconds."""

    id: int
    user_id: int
    issuer: str
    subject: str
    email: str
    created_at: int


class ProviderVisit(msgspec.Struct, frozen=True):
    """A sign-in in progress by another provider. While the user is there, `provider` is its name.
    Once they have returned as a `subject` without a linked account, it is its issuer, since the
    name may be given to another provider. `user_id` is set to link an account that is signed in.
    `target` is where the user goes afterwards."""

    provider: str
    target: str
    user_id: int | None
    subject: str | None
    email: str
    expires_at: int

    @property
    def begun_at(self) -> int:
        """When the user left for the provider, in epoch milliseconds."""
        return self.expires_at - VISIT_SECONDS * SECOND


def permits(provider: Provider, person: Person) -> bool:
    """Whether a person's domain may use a provider. An e-mail that the provider has not verified
    proves no domain."""
    return not provider.domains or (
        person.email_verified and mail_domain(person.email) in provider.domains
    )


def is_address(text: str) -> bool:
    """Whether a provider may have this URL: https, or http on this machine."""
    try:
        parts = urlsplit(text)
        usable = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        return False
    plain = text.isascii() and text.isprintable() and not {" ", "#", "\\"} & set(text)
    inner = parts.scheme == "http" and is_loopback(parts.hostname or "")
    return usable and plain and (parts.scheme == "https" or inner)
