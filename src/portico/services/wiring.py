"""What `app` passes to an environment: its configuration (`Wiring`) and its `Engines`."""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote

import msgspec

from portico.domain.limits import Plan
from portico.domain.networks import Destinations
from portico.domain.providers import Provider
from portico.domain.secrets import Random
from portico.domain.times import Clock
from portico.mail.protocol import Outlet
from portico.services.change import Tell
from portico.services.openid import RelyingParty
from portico.services.passwords import Passwords
from portico.services.vault import Vault
from portico.state.protocol import Limiter
from portico.storage.database import Database

AUTHORITY_COPY = Path("ca.pem")
"""The local authority's certificate as readers elsewhere have it, once its operator has given it to
them."""


class Addresses(msgspec.Struct, frozen=True):
    """The public addresses of one environment."""

    base: str
    auth: str
    dashboard: str
    cookie_domain: str | None = None
    """The domain whose hosts share the session cookie; None: only this host has it."""
    authority: Path | None = None
    """The file of the local authority's certificate, if clients must trust that."""

    def read(self, *, here: bool) -> "Addresses":
        """As somebody on this machine reads them, or somebody elsewhere, to whom its paths mean
        nothing and are none of their business."""
        if here or self.authority is None:
            return self
        return msgspec.structs.replace(self, authority=AUTHORITY_COPY)

    @property
    def needs_copy(self) -> bool:
        """Whether the reader must get a copy of the local authority's certificate first."""
        return self.authority == AUTHORITY_COPY

    @property
    def curl(self) -> str:
        """The command that calls curl."""
        return f"curl --cacert {quote(str(self.authority))}" if self.authority else "curl"


class Wiring(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of one environment. Most fields are settings of the same name.

    `foreign` is for errors about credentials of the other environment: it maps key types and
    issuers that are not valid here to the address where they are valid. A family of refresh tokens
    ends after `refresh_family_days`.
    """

    name: str
    site_name: str
    """What pages, mails and authenticator apps call this installation."""
    addresses: Addresses
    foreign: Mapping[str, str]
    plans: Mapping[str, Plan]
    refresh_family_days: int
    max_key_days: int | None
    """How many days a new key may be valid; None: no limit."""
    clock: Clock
    random: Random
    tell: Tell
    destinations: Destinations
    """The addresses that webhooks may have."""
    uploads_directory: Path
    """The directory of uploaded files that are not stored yet."""
    count_limit: int | None
    """The most products to count for the total of a filter; None: all."""
    events_days: int
    audit_days: int | None
    """After how many days entries of the audit log are removed; None: never."""
    audit_archive: Path | None
    """The directory to which they are exported first; None: they are not exported."""
    require_second_factor: str
    """Who must have a second factor: `off` (nobody), `admins` or `all`."""
    has_mail_server: bool
    """Whether mail goes to a mail server; otherwise it is written into the data directory."""
    sign_up_role: str | None
    """The role of those who sign up; None: nobody can sign up."""
    sign_up_domains: tuple[str, ...]
    """The domains whose e-mails may sign up; empty: all domains."""
    providers: tuple[Provider, ...]
    """The identity providers with which users can sign in."""


class Engines(msgspec.Struct, frozen=True, kw_only=True):
    """The engines of one environment. All but `db` and `limiter` are shared by both."""

    db: Database
    limiter: Limiter
    passwords: Passwords
    vault: Vault
    outlet: Outlet
    relying_party: RelyingParty
