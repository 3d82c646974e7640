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
from portico.storage.database import Database
from portico.storage.stores import Stores

T = TypeVar("T")


class Addresses(msgspec.Struct, frozen=True):
    """The public addresses of one environment."""

    base: str
    auth: str
    dashboard: str
    cookie_domain: str | None = None
    """The domain whose hosts share the session cookie."""


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
    clock: Clock
    random: Random


class Engines(msgspec.Struct, frozen=True, kw_only=True):
    """What an environment runs on; the last three serve both environments."""

    db: Database
    limiter: Limiter
    passwords: Passwords
    vault: Vault
    mail_queue: MailQueue


class Environment(Stores):
    """Everything that one environment consists of: its wiring, engines and stores."""

    def __init__(
        self, wiring: Wiring, engines: Engines, mirror: "Environment | None" = None
    ) -> None:
        """`mirror` is the environment in which this one's accounts have mirror users."""
        super().__init__(engines.db)
        self.name = wiring.name
        self.addresses = wiring.addresses
        self.foreign = wiring.foreign
        self.plans = wiring.plans
        self.refresh_family_days = wiring.refresh_family_days
        self.clock = wiring.clock
        self.random = wiring.random
        self.db = engines.db
        self.limiter = engines.limiter
        self.passwords = engines.passwords
        self.mail_queue = engines.mail_queue
        self.vault = engines.vault
        self.signer = Signer(self)
        self.mirror = mirror
        self.mirror_is_behind = asyncio.Event()
        """Set where a mirror could not be reached."""
        self.daily_counts = DailyCounts()

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
