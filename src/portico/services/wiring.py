"""What `app` hands to an environment: `Wiring`, how it is configured, and `Engines`, what it runs
on."""

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


class Addresses(msgspec.Struct, frozen=True):
    """The public addresses of one environment."""

    base: str
    auth: str
    dashboard: str
    cookie_domain: str | None = None
    """The domain whose hosts share the session cookie."""
    authority: Path | None = None
    """The file of the local authority's certificate, where clients must trust that one."""

    @property
    def curl(self) -> str:
        """How curl is called, on this machine."""
        return f"curl --cacert {quote(str(self.authority))}" if self.authority else "curl"


class Wiring(msgspec.Struct, frozen=True, kw_only=True):
    """How one environment is configured. Most fields are settings of the same name.

    `foreign` is for errors about credentials of the other environment: from types of keys and
    issuers that are not valid here to the address where they are. A family of refresh tokens ends
    after `refresh_family_days`.
    """

    name: str
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
    """Which addresses webhooks may have."""
    uploads_directory: Path
    """The directory of uploaded files that are not stored yet."""
    count_limit: int | None
    """The most products to count for the total of a filter; None: all."""
    events_days: int
    audit_days: int | None
    """After how many days entries of the audit log are removed; None: none is."""
    audit_archive: Path | None
    """The directory to which they are exported first; None: nowhere."""
    require_second_factor: str
    """Who must have a second factor: `off` (nobody), `admins` or `all`."""
    has_mail_server: bool
    """Whether mail goes to a mail server. Otherwise an operator finds it in the data directory."""
    sign_up: bool
    sign_up_domains: tuple[str, ...]
    """The domains whose e-mails may sign up; empty: all."""
    providers: tuple[Provider, ...]
    """The identity providers by which people may sign in."""


class Engines(msgspec.Struct, frozen=True, kw_only=True):
    """What one environment runs on. All but `db` and `limiter` serve both environments."""

    db: Database
    limiter: Limiter
    passwords: Passwords
    vault: Vault
    outlet: Outlet
    relying_party: RelyingParty
