"""Other providers that people sign in with (OpenID Connect Core 1.0), and who is linked to whom."""

from urllib.parse import urlsplit

import msgspec

from portico.domain.networks import is_loopback
from portico.domain.times import SECOND
from portico.domain.users import mail_domain

VISIT_SECONDS = 600
"""How long somebody may be away at a provider, or wait to be linked."""


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider as it is configured. Without `domains`, which `mail_domain` spells, those of all
    may use it; where `create_users` is on, whoever is unknown gets an account with `role`."""

    name: str
    issuer: str
    client_id: str
    client_secret: str
    label: str
    domains: tuple[str, ...] = ()
    create_users: bool = False
    role: str = "viewer"

    def __repr__(self) -> str:
        return f"Provider({self.name!r}, issuer={self.issuer!r})"


class Person(msgspec.Struct, frozen=True):
    """Whom a provider says to have signed in: `subject` is theirs for good, all else may change.
    `email` is empty where it told none that is one."""

    subject: str
    email: str
    email_verified: bool
    name: str


class ProviderLink(msgspec.Struct, frozen=True):
    """Whoever signs in at `issuer` as `subject` signs in as this user. `email` is what the provider
    called them when they were linked, `created_at` in epoch milliseconds."""

    id: int
    user_id: int
    issuer: str
    subject: str
    email: str
    created_at: int


class ProviderVisit(msgspec.Struct, frozen=True):
    """Somebody who is away at a provider, which is named, or who has come back as a `subject` that
    nobody is linked to: then `provider` is its issuer, since a name may come to be another's.
    `user_id` is who wants to link their account. They go on to `target`."""

    provider: str
    target: str
    user_id: int | None
    subject: str | None
    email: str
    expires_at: int

    @property
    def begun_at(self) -> int:
        """When they left, in epoch milliseconds."""
        return self.expires_at - VISIT_SECONDS * SECOND


def permits(provider: Provider, person: Person) -> bool:
    """Whether somebody is of the domains that may use a provider. An e-mail that it has not
    verified proves no domain."""
    return not provider.domains or (
        person.email_verified and mail_domain(person.email) in provider.domains
    )


def is_address(text: str) -> bool:
    """Whether a provider may be asked there: by https, or by http on this very machine."""
    try:
        parts = urlsplit(text)
        usable = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        return False
    plain = text.isascii() and text.isprintable() and not {" ", "#", "\\"} & set(text)
    inner = parts.scheme == "http" and is_loopback(parts.hostname or "")
    return usable and plain and (parts.scheme == "https" or inner)
