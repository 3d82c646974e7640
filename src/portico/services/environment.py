"""An environment: `live` or `sandbox`, each with its own data, limits and addresses.

`app` builds two of them. Nothing that is handed one ever asks which one it is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

import msgspec

from portico.domain.audit import By
from portico.domain.limits import Plan
from portico.domain.secrets import Random
from portico.domain.times import Clock
from portico.services.change import Change, carry_out
from portico.services.mail_queue import MailQueue
from portico.services.passwords import Passwords
from portico.services.signing import Signer
from portico.services.vault import Vault
from portico.state.daily_use import DailyCounts
from portico.state.protocol import Limiter
from portico.storage.api_keys import ApiKeys
from portico.storage.audit import Audit
from portico.storage.clients import Clients
from portico.storage.daily_use import DailyUse
from portico.storage.database import Database
from portico.storage.email_tokens import EmailTokens
from portico.storage.expiry import Expiry
from portico.storage.flushes import Flushes
from portico.storage.grants import Grants
from portico.storage.idempotency_keys import IdempotencyKeys
from portico.storage.leases import Leases
from portico.storage.products import Products
from portico.storage.rate_counters import RateCounters
from portico.storage.sessions import Sessions
from portico.storage.signing_keys import SigningKeys
from portico.storage.users import Users

T = TypeVar("T")


class Addresses(msgspec.Struct, frozen=True):
    """The public addresses of one environment."""

    base: str
    auth: str
    dashboard: str
    cookie_domain: str | None = None
    """The domain whose hosts share the session cookie."""


class Environment:
    """Everything that one environment consists of."""

    def __init__(
        self,
        name: str,
        *,
        db: Database,
        limiter: Limiter,
        plans: Mapping[str, Plan],
        addresses: Addresses,
        foreign: Mapping[str, str],
        passwords: Passwords,
        vault: Vault,
        mail_queue: MailQueue,
        clock: Clock,
        random: Random,
        refresh_family_days: int,
        mirror: "Environment | None" = None,
    ) -> None:
        """`foreign` tells where the key types and issuers that do not belong here do: to which
        address. `mirror` is the environment in which this one's accounts have mirror users."""
        self.name = name
        self.db = db
        self.limiter = limiter
        self.plans = plans
        self.addresses = addresses
        self.foreign = foreign
        self.passwords = passwords
        self.vault = vault
        self.mail_queue = mail_queue
        self.clock = clock
        self.random = random
        self.refresh_family_days = refresh_family_days
        self.mirror = mirror
        self.mirror_is_behind = asyncio.Event()
        """Set where a mirror could not be reached."""
        self.daily_counts = DailyCounts()
        self.users = Users(db)
        self.products = Products(db)
        self.api_keys = ApiKeys(db)
        self.rate_counters = RateCounters(db)
        self.daily_use = DailyUse(db)
        self.audit = Audit(db)
        self.signing_keys = SigningKeys(db)
        self.clients = Clients(db)
        self.grants = Grants(db)
        self.sessions = Sessions(db)
        self.email_tokens = EmailTokens(db)
        self.idempotency_keys = IdempotencyKeys(db)
        self.leases = Leases(db)
        self.flushes = Flushes()
        self.expiry = Expiry(db)
        self.signer = Signer(self, vault)

    async def change(self, by: By, work: Callable[[Change], Awaitable[T]]) -> T:
        """Changes something on behalf of `by`: does `work` in one transaction, with what it leaves
        behind (see `services.change`). Returns what `work` returned, once that is on disk.

        Raises what `work` raises, after undoing all of it; `AuthenticationRequired` where the
        caller's credential has ended, `UniqueViolation`, `AnsweredBefore`, and `Unavailable`.
        """
        return await carry_out(self, by, work)

    def plan(self, name: str) -> Plan:
        """The plan of this name; Free where the configuration no longer has it."""
        return self.plans.get(name) or self.plans["free"]
