"""An environment: `live` or `sandbox`, each with its own data, limits and addresses.

`app` builds both. Code that is given one never asks which one it is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar

import msgspec

from portico.change import Change, Changes
from portico.core.networks import Destinations
from portico.core.plans import Plan
from portico.core.providers import Provider
from portico.core.secrets import Random
from portico.core.times import Clock
from portico.data.database import Database
from portico.limits.protocol import Limiter
from portico.outbound.mail import Outlet
from portico.settings import Settings

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


T = TypeVar("T")


async def _nothing_refers(_change: Change, _many: str, _row_id: int) -> None:
    """For an installation without kinds of its own."""


class Environment:
    """One environment: its addresses, engines and clock, the unit of work, and by their types the
    stores and services that features name: `env[Users]`."""

    def __init__(
        self,
        name: str,
        settings: Settings,
        *,
        addresses: Addresses,
        foreign: Mapping[str, str],
        db: Database,
        limiter: Limiter,
        outlet: Outlet,
        change: Changes,
        clock: Clock,
        random: Random,
        services: Iterable[object],
        providers: Sequence[Provider] = (),
        mirror: "Environment | None" = None,
    ) -> None:
        """`foreign` is for errors about credentials of the other environment: it maps key types and
        issuers that are not valid here to the address where they are valid. `change` is the only
        way to change something: `await env.change(by, work)`. `providers` are the identity
        providers with which users can sign in. `mirror` is the environment that holds mirror users
        of this one's accounts; None if accounts have no mirrors. Both environments share all
        engines but `db` and `limiter`."""
        self.name = name
        self.settings = settings
        self.addresses = addresses
        self.foreign = foreign
        self.db = db
        self.limiter = limiter
        self.outlet = outlet
        self.change = change
        self.clock = clock
        self.random = random
        self.mirror = mirror
        self.sign_in_by = {provider.name: provider for provider in providers}
        self.destinations = Destinations(settings.webhooks_allow)
        """The addresses that webhooks may have."""
        self.uploads_directory = settings.data / "uploads" / name
        """The directory of uploaded files that are not stored yet."""
        self.has_mail_server = settings.smtp_url is not None
        """Whether mail goes to a mail server; otherwise it is written into the data directory."""
        self.sign_up_role = settings.sign_up_role if settings.sign_up else None
        """The role of those who sign up; None: nobody can sign up."""
        self.records: Sequence[Any] = ()
        """The stores of the installation's own kinds (`resource.store.Records`), by number."""
        self.stores: dict[str, Any] = {}
        """Those, and what rules and references of kinds may name of Portico's own, by what their
        records are called."""
        self.backed_up_at = 0
        """When the last backup was made, in epoch milliseconds, as far as a job knows; else 0."""
        self.mirror_is_behind = asyncio.Event()
        """Set when a mirror user could not be updated; the job then tries again."""
        self._services: dict[type[Any], Any] = {}
        for service in services:
            self[type(service)] = service

        self.release: Callable[[Change, str, int], Awaitable[None]] = _nothing_refers
        """Called in the change that deletes a product or a user, with the name of the kind and the
        id: clears or deletes what refers to it. Raises `Conflict` where that is refused."""
        self.check_kinds: Callable[[], Awaitable[None]] | None = None
        """Raises `Unavailable` where the database is kept for other files of kinds; None without
        kinds."""

    def __getitem__(self, kind: type[T]) -> T:
        """The store or service of this type."""
        service: T = self._services[kind]
        return service

    def __setitem__(self, kind: type[T], service: T) -> None:
        """Adds a store or service, or replaces the one of this type."""
        self._services[kind] = service

    def plan(self, name: str) -> Plan:
        """The plan with this name; Free if the settings no longer have it."""
        plans = self.settings.plans
        return plans.get(name) or plans["free"]
