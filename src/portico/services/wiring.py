"""What an environment is made of before it runs: what is settled, and what it runs on."""

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
    """What is settled of an environment before it runs.

    `foreign` tells where the key types and issuers that do not belong here do: to which address.
    A family of refresh tokens ends after `refresh_family_days`.
    """

    name: str
    addresses: Addresses
    foreign: Mapping[str, str]
    plans: Mapping[str, Plan]
    refresh_family_days: int
    max_key_days: int | None
    """Within how many days a new key ends; None: it need not."""
    clock: Clock
    random: Random
    tell: Tell
    destinations: Destinations
    """Where webhooks may lead."""
    is_shared: bool
    """Whether other hosts may have the same database, and so must have the same secret."""
    uploads: Path
    """The directory of files on their way in."""
    count_limit: int | None
    """How many products that fit a filter are counted at most; None: all."""
    events_days: int
    audit_days: int | None
    """After how many days entries of the audit log are removed; None: none is."""
    audit_archive: Path | None
    """Where they are exported before."""
    require_second_factor: str
    """Who must have a second factor: `off` (nobody), `admins` or `all`."""
    has_mail_server: bool
    """Whether mail reaches people; where not, an operator reads it."""
    sign_up: bool
    sign_up_domains: tuple[str, ...]
    """Whose e-mails may sign up; none: all."""
    providers: tuple[Provider, ...]
    """Whom else people may sign in by."""


class Engines(msgspec.Struct, frozen=True, kw_only=True):
    """What an environment runs on; the last four serve both environments."""

    db: Database
    limiter: Limiter
    passwords: Passwords
    vault: Vault
    outlet: Outlet
    relying_party: RelyingParty
