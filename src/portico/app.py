"""Wires an installation together: engines and both environments, which commands and servers share.
Only this module chooses the clock and the source of randomness."""

import os
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from portico.change import Changes, ChangeStores, IdempotencyKeys
from portico.core.errors import BrokenRule, Unavailable
from portico.core.events import EVENTS
from portico.core.networks import Destinations
from portico.core.providers import Provider
from portico.core.requests import Quotas, RequestCounts
from portico.core.scopes import PERMISSIONS
from portico.core.secrets import Random
from portico.core.services import check_scopes, declare
from portico.core.times import Clock
from portico.data.database import Database
from portico.data.filtered_totals import EmptyBlocks
from portico.data.leases import Leases
from portico.data.migrate import Migration, migrate, pending
from portico.data.table import Expiry
from portico.data.vault import Vault
from portico.engines import LIVE, SANDBOX, database, limiter, outlet
from portico.environment import Addresses, Environment
from portico.features.access.documents import Documents
from portico.features.access.live_credentials import LiveCredentials
from portico.features.access.signing import Signer, wrong_secret
from portico.features.access.storage import (
    ApiKeys,
    Clients,
    DeviceCodes,
    Grants,
    Logouts,
    SigningKeys,
)
from portico.features.catalogue.storage import Products
from portico.features.events.audit import Audit, AuditRanges
from portico.features.events.feed import Feed, Subscriptions
from portico.features.events.payloads import published
from portico.features.events.storage import Deliveries, Events, Webhooks
from portico.features.mail.storage import Mails
from portico.features.operations.moments import newest
from portico.features.operations.requests import Flushes, RateCounters, Requests
from portico.features.people.passwords import Passwords
from portico.features.people.storage import EmailTokens, Invitations, RuledUsers, Users
from portico.features.signin.openid import RelyingParty
from portico.features.signin.storage import (
    Challenges,
    Devices,
    FactorStore,
    ProviderStore,
    Sessions,
)
from portico.lost import require_both
from portico.outbound.exchange import Forwarder, Lazy
from portico.outbound.fetching import Fetcher
from portico.outbound.sender import Sender
from portico.resource.imports import Imports
from portico.resource.uploads import Uploads
from portico.secret_file import Secrets, found_secrets, installation_secrets
from portico.settings import SettingError, Settings
from portico.web.envelope import timestamp

if TYPE_CHECKING:
    from portico.resource.installed import Installed


class SystemClock:
    """The current time in epoch milliseconds. It never runs backwards: where the system's time is
    set back, it goes on from where it was, at the pace of the monotonic clock."""

    def __init__(self) -> None:
        self._lead = -sys.maxsize
        """How far the time is ahead of the monotonic clock, in nanoseconds."""

    def __call__(self) -> int:
        """The present moment."""
        lead = time.time_ns() - (steady := time.monotonic_ns())
        if lead > self._lead:
            self._lead = lead
        return (steady + self._lead) // 1_000_000


system_clock = SystemClock()
"""The clock of this process."""

BEHIND_SECONDS = 60
"""How far the time may be behind the newest stored moment: clocks of hosts differ."""


def _kinds(settings: Settings) -> "Installed | None":
    """The installation's own kinds of resources, if any. Raises `SettingError`."""
    if settings.kinds is None:
        return None
    from portico.resource.installed import Installed

    return Installed(settings.kinds, settings.declared.roles, settings.count_limit)


class Portico:
    """Both environments of one installation. Call `open` or `connect` before use, and `close`
    after."""

    def __init__(
        self,
        settings: Settings,
        *,
        clock: Clock = system_clock,
        random: Random = os.urandom,
        passwords: Passwords | None = None,
        sender: Sender | None = None,
        fetcher: Fetcher | None = None,
        secrets: Callable[[], Secrets] | None = None,
        create: bool = False,
    ) -> None:
        """Every keyword replaces a default.

        `passwords` hashes passwords; by default at the recommended strength. `sender` sends webhook
        deliveries, `fetcher` asks identity providers; by default both trust the system's
        certificate authorities. `secrets` returns the installation's secrets; by default those of
        the settings, where one is created if there is none.

        `create` says whether to create missing SQLite files. Only commands that prepare an
        installation may: if a file was moved away under a running server, an empty one must not
        take its place.
        """
        PERMISSIONS.only_built_in()
        EVENTS.only_built_in()
        self._kinds = _kinds(settings)
        try:
            declare(PERMISSIONS, settings.declared)
        except BrokenRule as rule:
            raise SettingError(str(rule)) from None
        if self._kinds is not None:
            self._kinds.grant()
        try:
            check_scopes(PERMISSIONS, settings.declared)
        except BrokenRule as rule:
            raise SettingError(str(rule)) from None
        self.settings = settings
        self._create = create
        self.clock = clock
        self.random = random
        self.passwords = passwords or Passwords()
        self.vault = Vault(secrets or partial(installation_secrets, settings, random), random)
        self.sender = sender or Sender(Destinations(settings.webhooks_allow), clock)
        self.fetcher = fetcher or Fetcher()
        self.forwarder: Forwarder = Lazy("ForwardClient", None)
        self.relying_party = RelyingParty(self.fetcher, clock)
        addresses = partial(
            Addresses, cookie_domain=settings.cookie_domain, authority=settings.local_authority
        )
        self.sandbox = self._environment(
            SANDBOX,
            addresses(
                settings.sandbox_url,
                settings.sandbox_auth_url,
                f"{settings.dashboard_url}/{SANDBOX}",
            ),
            foreign=dict.fromkeys(("live", "read", settings.auth_url), settings.base_url),
        )
        self.live = self._environment(
            LIVE,
            addresses(settings.base_url, settings.auth_url, settings.dashboard_url),
            foreign=dict.fromkeys(("test", settings.sandbox_auth_url), settings.sandbox_url),
            mirror=self.sandbox,
            providers=settings.providers,
        )
        self.environments = (self.live, self.sandbox)

    def _environment(
        self,
        name: str,
        addresses: Addresses,
        *,
        foreign: dict[str, str],
        mirror: Environment | None = None,
        providers: tuple[Provider, ...] = (),
    ) -> Environment:
        settings, clock, random = self.settings, self.clock, self.random
        db = database(settings, name, create=self._create)
        audit, events, mails = Audit(db), Events(db), Mails(db)
        leases, credentials = Leases(db), LiveCredentials(db)
        answers = IdempotencyKeys(db)
        records = ChangeStores(audit, events, answers, credentials)
        change = Changes(db, records, clock, published, mails.signal)
        feed = Feed(events, db.signal)
        environment = Environment(
            name,
            settings,
            addresses=addresses,
            foreign=foreign,
            db=db,
            limiter=limiter(settings, name),
            outlet=outlet(settings),
            change=change,
            clock=clock,
            random=random,
            providers=providers,
            mirror=mirror,
            services=(
                *(audit, events, mails, leases, credentials, answers, feed),
                *(Users(db), Invitations(db), EmailTokens(db)),
                *(Products(db, settings.count_limit), EmptyBlocks(db), Imports(db), Uploads(db)),
                *(Sessions(db), FactorStore(db), Challenges(), ProviderStore(db), Devices(db)),
                *(ApiKeys(db), Clients(db), Grants(db), DeviceCodes(db), Logouts(db)),
                SigningKeys(db),
                *(AuditRanges(db), Webhooks(db), Deliveries(db)),
                *(RateCounters(db), Requests(db), Flushes(), Expiry(db), RequestCounts(), Quotas()),
                *(self.passwords, self.vault, self.relying_party),
                Subscriptions(leases, credentials, db, feed, clock, random(16).hex()),
            ),
        )
        environment[Documents] = Documents(environment, self.sender)
        environment[Signer] = Signer(environment)
        environment.stores["products"] = environment[Products]
        if self._kinds is not None:
            self._kinds.serve(environment)
            environment.stores["users"] = RuledUsers(db)
        return environment

    async def connect(self) -> None:
        """Connects to both databases as they are, or to neither. Raises `Unavailable`, also if one
        is lost."""
        async with AsyncExitStack() as opened:
            for environment in self.environments:
                await environment.db.open()
                opened.push_async_callback(environment.db.close)
            await require_both(self.settings, self.live.db, self.sandbox.db)
            opened.pop_all()

    async def open(self) -> list[Migration]:
        """Connects to both databases, then does as `migrate`."""
        await self.connect()
        return await self.migrate()

    async def migrate(self) -> list[Migration]:
        """Applies pending migrations to both databases, and makes missing signing keys. Returns the
        migrations that were applied. Raises `MigrationError` and `Unavailable`."""
        applied: list[Migration] = []
        for environment in self.environments:
            applied += await migrate(environment.db, self.clock)
            await self.keep_tables(environment)
        await self.ready()
        return applied

    async def keep_tables(self, environment: Environment) -> bool:
        """Makes the tables of the installation's own kinds as its files declare them; returns
        whether they were not. Raises `MigrationError` and `Unavailable`."""
        return self._kinds is not None and await self._kinds.keep(environment.db, self.clock())

    async def is_behind(self) -> bool:
        """Whether migrations are pending. Raises `MigrationError` as `migrate` does."""
        return any(
            [
                bool(await pending(environment.db)) or await self.has_other_tables(environment)
                for environment in self.environments
            ]
        )

    async def has_other_tables(self, environment: Environment) -> bool:
        """Whether `keep_tables` would change something."""
        return self._kinds is not None and await self._kinds.is_behind(environment.db)

    async def ready(self) -> None:
        """Makes a signing key for each environment that has none. Raises `Unavailable` where the
        keys in the database are encrypted under another secret than this installation's, or where
        the time is behind what is stored."""
        for environment in self.environments:
            await self._require_time(environment.db)
            if found_secrets(self.settings) is None and await environment[SigningKeys].all():
                raise wrong_secret()  # before `ready` makes a secret here, which would stay
            await environment[Signer].ready()

    async def _require_time(self, db: Database) -> None:
        """Raises `Unavailable` if the time is far behind the newest stored moment: credentials
        would outlive their end, and limits would be counted twice."""
        stored = await newest(db)
        behind = (stored - self.clock()) // 1000
        if behind > BEHIND_SECONDS:
            raise Unavailable(
                f"This machine's time is {behind} s behind the newest stored change"
                f" ({timestamp(stored)}): set it, by NTP. If it is right now and was ahead then,"
                " run portico correct-times."
            )

    async def close(self) -> None:
        """Closes every connection, and ends every thread."""
        if self._kinds is not None:
            await self._kinds.close()
        for environment in self.environments:
            await environment.limiter.close()
            await environment.db.close()
        await self.sender.close()
        await self.fetcher.close()
        await self.forwarder.close()
        await self.passwords.close()
