"""An environment: `live` or `sandbox`, each with its own data, limits and addresses.

`app` builds both. Code that is given one never asks which one it is.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from portico.domain.limits import Plan
from portico.domain.networks import Destinations
from portico.domain.providers import Provider
from portico.domain.secrets import Random
from portico.domain.times import Clock
from portico.mail.protocol import Outlet
from portico.services.addresses import Addresses
from portico.services.change import Changes, Tell
from portico.services.feed import Feed
from portico.services.openid import RelyingParty
from portico.services.passwords import Passwords
from portico.services.signing import Signer
from portico.services.subscriptions import Subscriptions
from portico.services.vault import Vault
from portico.settings import Settings
from portico.state.protocol import Limiter
from portico.state.request_counts import RequestCounts
from portico.storage.bell import Bell
from portico.storage.database import Database
from portico.storage.stores import Stores


class Environment(Stores):
    """One environment: the stores of its database (`Stores`), its configuration and engines, and
    the services that have state.

    Settings and engines that many use cases read are attributes here; to add one, add its line.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        *,
        addresses: Addresses,
        foreign: Mapping[str, str],
        db: Database,
        limiter: Limiter,
        passwords: Passwords,
        vault: Vault,
        outlet: Outlet,
        relying_party: RelyingParty,
        clock: Clock,
        random: Random,
        tell: Tell,
        providers: Sequence[Provider] = (),
        mirror: "Environment | None" = None,
    ) -> None:
        """`foreign` is for errors about credentials of the other environment: it maps key types and
        issuers that are not valid here to the address where they are valid. `providers` are the
        identity providers with which users can sign in. `mirror` is the environment that holds
        mirror users of this one's accounts; None if accounts have no mirrors. Both environments
        share all engines but `db` and `limiter`."""
        super().__init__(db, settings.count_limit)

        # Configuration.
        self.name = name
        self.site_name = settings.site_name
        self.addresses = addresses
        self.foreign = foreign
        self.plans = settings.plans
        self.refresh_family_days = settings.refresh_family_days
        self.max_key_days = settings.max_key_days
        self.destinations = Destinations(settings.webhooks_allow)
        """The addresses that webhooks may have."""
        self.uploads_directory = settings.data / "uploads" / name
        """The directory of uploaded files that are not stored yet."""
        self.events_days = settings.events_days
        self.audit_days = settings.audit_days
        self.audit_archive = settings.audit_archive
        self.require_second_factor = settings.require_second_factor
        self.has_mail_server = settings.smtp_url is not None
        """Whether mail goes to a mail server; otherwise it is written into the data directory."""
        self.sign_up_role = settings.sign_up_role if settings.sign_up else None
        """The role of those who sign up; None: nobody can sign up."""
        self.sign_up_domains = settings.sign_up_domains
        self.sign_in_by = {provider.name: provider for provider in providers}
        self.mirror = mirror
        self.clock = clock
        self.random = random

        self.records: Sequence[Any] = ()
        """The stores of the installation's own kinds (`resource.store.Records`), by number."""

        # Engines.
        self.db = db
        self.limiter = limiter
        self.passwords = passwords
        self.vault = vault
        self.outlet = outlet
        self.relying_party = relying_party

        # Shared with jobs.
        self.mails_bell = Bell()
        """Rings when a mail waits to be sent."""
        self.waiting_mails = 0
        """How many mails were waiting when the job last counted them."""
        self.backed_up_at = 0
        """When the last backup was made, in epoch milliseconds, as far as a job knows; else 0."""
        self.uploads_bell = Bell()
        """Rings when an uploaded file waits to be checked or stored."""
        self.mirror_is_behind = asyncio.Event()
        """Set when a mirror user could not be updated; the job then tries again."""
        self.request_counts = RequestCounts()
        """Counts of answered requests that the job has not stored yet."""

        # Services with state.
        self.change = Changes(db, self, clock, tell, self.mails_bell)
        """The only way to change something: `await env.change(by, work)`."""
        self.signer = Signer(
            db, vault, self.signing_keys, self.grants, self.change, addresses, clock, random
        )
        self.feed = Feed(self, db.bell)
        self.subscriptions = Subscriptions(self, db, self.feed, clock, random(16).hex())

    def plan(self, name: str) -> Plan:
        """The plan with this name; Free if the settings no longer have it."""
        return self.plans.get(name) or self.plans["free"]
