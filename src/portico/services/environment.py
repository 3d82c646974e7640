"""An environment: `live` or `sandbox`, each with its own data, limits and addresses.

`app` builds both. Code that is given one never asks which one it is.
"""

import asyncio

from portico.domain.limits import Plan
from portico.services.change import Changes
from portico.services.feed import Feed
from portico.services.signing import Signer
from portico.services.subscriptions import Subscriptions
from portico.services.wiring import Engines, Wiring
from portico.state.request_counts import RequestCounts
from portico.storage.bell import Bell
from portico.storage.stores import Stores


class Environment(Stores):
    """One environment: the stores of its database (`Stores`), its configuration and engines, and
    the services that have state.

    The fields of `Wiring` and `Engines` are attributes here, because nearly every use case reads
    some; they are documented there. To add one, add the field there, and a line in `app` and here.
    """

    def __init__(
        self, wiring: Wiring, engines: Engines, mirror: "Environment | None" = None
    ) -> None:
        """`mirror` is the environment that holds mirror users of this one's accounts; None if
        accounts have no mirrors."""
        super().__init__(engines.db, wiring.count_limit)

        # Configuration.
        self.name = wiring.name
        self.site_name = wiring.site_name
        self.addresses = wiring.addresses
        self.foreign = wiring.foreign
        self.plans = wiring.plans
        self.refresh_family_days = wiring.refresh_family_days
        self.max_key_days = wiring.max_key_days
        self.destinations = wiring.destinations
        self.uploads_directory = wiring.uploads_directory
        self.events_days = wiring.events_days
        self.audit_days = wiring.audit_days
        self.audit_archive = wiring.audit_archive
        self.require_second_factor = wiring.require_second_factor
        self.has_mail_server = wiring.has_mail_server
        self.sign_up_role = wiring.sign_up_role
        self.sign_up_domains = wiring.sign_up_domains
        self.sign_in_by = {provider.name: provider for provider in wiring.providers}
        self.mirror = mirror
        self.clock = wiring.clock
        self.random = wiring.random

        # Engines.
        self.db = engines.db
        self.limiter = engines.limiter
        self.passwords = engines.passwords
        self.vault = engines.vault
        self.outlet = engines.outlet
        self.relying_party = engines.relying_party

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
        self.change = Changes(engines.db, self, wiring.clock, wiring.tell, self.mails_bell)
        """The only way to change something: `await env.change(by, work)`."""
        self.signer = Signer(wiring, engines, self.signing_keys, self.grants, self.change)
        self.feed = Feed(self, engines.db.bell)
        self.subscriptions = Subscriptions(
            self, engines.db, self.feed, wiring.clock, wiring.random(16).hex()
        )

    def plan(self, name: str) -> Plan:
        """The plan with this name; Free if the settings no longer have it."""
        return self.plans.get(name) or self.plans["free"]
