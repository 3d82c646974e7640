"""Wires Portico together: engines, both environments, routes and jobs. Only this module chooses the
clock and the source of randomness.

`Portico` is what commands and servers share; `Server` is the web application.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from portico import logs
from portico.contract.audit import rows as audit_rows
from portico.contract.events import delivered, published
from portico.domain.errors import Unavailable
from portico.domain.networks import Destinations
from portico.domain.providers import Provider
from portico.domain.secrets import Random
from portico.domain.times import Clock
from portico.engines import LIVE, SANDBOX, database, limiter, outlet
from portico.http.connections import Connections
from portico.http.internal_client import Application, InternalClient
from portico.http.measure import LOG_PERIOD, Measure, RequestLog
from portico.http.open_responder import OpenResponder, PlainHttpResponder
from portico.http.operations import SHARE_PERIOD, Operations
from portico.http.peers import Peers
from portico.http.pipeline import Pipeline
from portico.http.representations import Representations
from portico.http.router import Router
from portico.http.routing import Mount
from portico.http.shared_metrics import SharedMetrics
from portico.jobs.audit import MakeAuditRanges, RemoveAudit
from portico.jobs.backups import LOOK_PERIOD, look_for_backup
from portico.jobs.deliveries import AT_ONCE, Deliver
from portico.jobs.flush import FLUSH_PERIOD, Flush
from portico.jobs.mails import SendMails
from portico.jobs.mirrors import FOLLOW_PERIOD, FollowMirrors
from portico.jobs.reminders import REMIND_PERIOD, Remind
from portico.jobs.runner import Job, Runner, Wait
from portico.jobs.store_requests import STORE_PERIOD, StoreRequests
from portico.jobs.tidy import TIDY_PERIOD, Tidy
from portico.jobs.uploads import ProcessUploads
from portico.lost import require_both
from portico.mounts import mounts
from portico.outbound.fetching import Fetcher
from portico.outbound.sender import Sender
from portico.secret_file import Secrets, found_secrets, installation_secrets
from portico.services.credentials import Credentials
from portico.services.environment import Environment
from portico.services.imports import IDLE_PERIOD, tell_of_idle
from portico.services.openid import RelyingParty
from portico.services.passwords import Passwords
from portico.services.signing import wrong_secret
from portico.services.subscriptions import CHECK_PERIOD
from portico.services.vault import Vault
from portico.services.wiring import Addresses, Engines, Wiring
from portico.settings import Settings
from portico.state.memory import MemoryLimiter
from portico.storage.migrate import Migration, migrate, pending
from portico.version import version

if TYPE_CHECKING:
    from portico.telemetry.sdk import Telemetry

log = logging.getLogger(__name__)


LOOK_SECONDS = 1.0
"""How long a server that waits for migrations pauses between two checks."""


def system_clock() -> int:
    """The current time in epoch milliseconds."""
    return time.time_ns() // 1_000_000


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
        self.settings = settings
        self._create = create
        self.clock = clock
        self.random = random
        self.passwords = passwords or Passwords()
        self.vault = Vault(secrets or partial(installation_secrets, settings, random), random)
        self.destinations = Destinations(settings.webhooks_allow)
        self.sender = sender or Sender(self.destinations, clock)
        self.fetcher = fetcher or Fetcher()
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
        settings = self.settings
        wiring = Wiring(
            name=name,
            addresses=addresses,
            foreign=foreign,
            plans=settings.plans,
            refresh_family_days=settings.refresh_family_days,
            max_key_days=settings.max_key_days,
            clock=self.clock,
            random=self.random,
            tell=published,
            destinations=self.destinations,
            uploads_directory=settings.data / "uploads" / name,
            count_limit=settings.count_limit,
            events_days=settings.events_days,
            audit_days=settings.audit_days,
            audit_archive=settings.audit_archive,
            require_second_factor=settings.require_second_factor,
            has_mail_server=settings.smtp_url is not None,
            sign_up=settings.sign_up,
            sign_up_domains=settings.sign_up_domains,
            providers=providers,
        )
        engines = Engines(
            db=database(settings, name, create=self._create),
            limiter=limiter(settings, name),
            passwords=self.passwords,
            vault=self.vault,
            outlet=outlet(settings),
            relying_party=self.relying_party,
        )
        return Environment(wiring, engines, mirror)

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
        await self.ready()
        return applied

    async def is_behind(self) -> bool:
        """Whether migrations are pending. Raises `MigrationError` as `migrate` does."""
        return any([await pending(environment.db) for environment in self.environments])

    async def ready(self) -> None:
        """Makes a signing key for each environment that has none. Raises `Unavailable` where the
        keys in the database are encrypted under another secret than this installation's."""
        for environment in self.environments:
            if found_secrets(self.settings) is None and await environment.signing_keys.all():
                raise wrong_secret()  # before `ready` makes a secret here, which would stay
            await environment.signer.ready()

    async def close(self) -> None:
        """Closes every connection, and ends every thread and process."""
        for environment in self.environments:
            await environment.limiter.close()
            await environment.db.close()
        await self.sender.close()
        await self.fetcher.close()
        await self.passwords.close()


class Server:
    """Portico as a web application."""

    def __init__(
        self,
        portico: Portico,
        shared: SharedMetrics | None = None,
        telemetry: "Telemetry | None" = None,
        *,
        at_once: int = AT_ONCE,
    ) -> None:
        """`shared` are the metrics of all workers of this server, None where there is one process.
        `telemetry` exports spans and metrics, None where there is no collector. `at_once` is how
        many deliveries may be under way to one webhook."""
        settings = portico.settings
        logged = settings.log_requests and settings.log_level in ("debug", "info")
        self._log = RequestLog(logs.write) if logged else None
        self._telemetry = telemetry
        measure = Measure(self._log, telemetry.spans if telemetry else None)
        environments = portico.environments
        credentials = {env.name: Credentials(env) for env in environments}
        self._portico = portico
        self._process = portico.random(16).hex()
        self._flushes = [_flush(env, credentials[env.name]) for env in environments]
        agent = f"Portico/{version()}"
        sender = telemetry.sender(portico.sender) if telemetry else portico.sender
        self._delivers = [
            Deliver(env, sender, delivered, agent, lambda: self.pipeline.under_way, at_once)
            for env in environments
        ]
        self._mails = [SendMails(env) for env in environments]
        self._runner = Runner(portico.clock)
        kept = Representations(settings.kept_bytes)
        self._operations = Operations(
            environments, credentials, measure, kept, shared, self._runner.runs, self._process
        )
        open_responder = OpenResponder(settings.metrics_allow)
        operations = Mount("", "", None, self._operations.routes(), "", open_responder)
        inside = InternalClient(lambda: self.application)
        served = mounts(settings, environments, credentials, kept, inside, open_responder)
        refusal = Mount("", "", None, (), "", PlainHttpResponder(settings.base_url))
        pipeline = partial(
            Pipeline,
            peers=Peers(settings.trusted_proxies, own_certificate=settings.tls_cert is not None),
            measure=measure,
            connections=Connections(),
            clock=portico.clock,
            random=portico.random,
        )
        self.pipeline = pipeline(Router([*served, operations]), Router([refusal, operations]))
        self.application: Application = (
            telemetry.application(self.pipeline) if telemetry else self.pipeline
        )
        """The RSGI application: the pipeline, with tracing around it where `telemetry` is given."""
        self.plain = pipeline(Router([refusal]), Router([refusal]))
        """The application on `http_port`, which refuses every request."""

    async def start(self) -> None:
        """Starts what hashes passwords, restores the counters that the last run stored, and starts
        the jobs."""
        self._portico.passwords.start()
        try:
            await self._portico.live.limiter.probe()
        except Unavailable as error:
            log.warning("%s Requests get 503 until it does.", error.message)
        for flush in self._flushes:
            await flush.restore()
        self._runner.start(self._jobs())

    async def start_once_migrated(self, wait: Wait = asyncio.sleep) -> None:
        """Waits until another process has applied all migrations, then does as `start`. Meanwhile
        requests for an environment get 503. Raises `MigrationError` as `migrate` does."""
        portico = self._portico
        self._set_behind(is_behind=True)
        told = False
        while await _is_behind(portico):
            if not told:
                log.warning(
                    "Migrations are pending: requests get 503 until portico migrate has run."
                )
                told = True
            await wait(LOOK_SECONDS)
        await portico.ready()
        await self.start()
        self._set_behind(is_behind=False)

    def _set_behind(self, *, is_behind: bool) -> None:
        self.pipeline.is_behind = self._operations.readiness.is_behind = is_behind

    def _jobs(self) -> Iterator[Job]:
        """The jobs of this process; docs/architecture.md has them as a table."""
        environments = self._portico.environments
        each = zip(environments, self._flushes, self._delivers, self._mails, strict=True)
        for env, flush, deliver, mails in each:
            store = StoreRequests(env, self._process)
            yield Job(env.name, "deliveries", 0, deliver.run)
            yield Job(env.name, "mails", 0, mails.run)
            yield Job(env.name, "flush", FLUSH_PERIOD, flush.run, last=True)
            yield Job(env.name, "requests", STORE_PERIOD, store.run, last=True)
            yield Job(env.name, "tidy", TIDY_PERIOD, Tidy(env, self._process).run)
            removing = RemoveAudit(env, self._process, partial(audit_rows, "ndjson"))
            yield Job(env.name, "audit", TIDY_PERIOD, removing.run)
            making = MakeAuditRanges(env, self._process)
            yield Job(env.name, "audit_ranges", TIDY_PERIOD, making.run)
            if env is self._portico.live:
                yield Job(env.name, "backups", LOOK_PERIOD, partial(look_for_backup, env))
            yield Job(env.name, "reminders", REMIND_PERIOD, Remind(env, self._process).run)
            yield Job(env.name, "imports", IDLE_PERIOD, partial(tell_of_idle, env))
            yield Job(env.name, "uploads", 0, ProcessUploads(env, self._portico.live).run)
            yield Job(env.name, "feed", 0, env.feed.run)
            yield Job(env.name, "streams", CHECK_PERIOD, env.subscriptions.run, last=True)
            if env.mirror is not None:
                yield Job(env.name, "mirrors", FOLLOW_PERIOD, FollowMirrors(env, self._process).run)
        yield Job("", "metrics", SHARE_PERIOD, self._operations.share)
        telemetry = self._telemetry
        if telemetry is not None and telemetry.metrics_period is not None:
            export = partial(self._export, telemetry)
            yield Job("", "telemetry", telemetry.metrics_period, export)
        if self._log is not None:
            yield Job("", "request_log", LOG_PERIOD, self._log.run, last=True)

    async def _export(self, telemetry: "Telemetry") -> None:
        await telemetry.export(self._operations.of_process())

    def serves_certificate_until(self, expires_at: int) -> None:
        """Tells the metrics when the served certificate expires, in epoch milliseconds."""
        self._operations.certificate_expires_at = expires_at

    def leave(self) -> None:
        """Makes `/readyz` fail, so that load balancers send nothing more, and asks clients to
        reconnect."""
        self._operations.readiness.leaving = self.pipeline.leaving = True

    async def stop(self) -> None:
        """Stops the jobs and stores what they have gathered in memory. Call it after the last
        request."""
        await self._runner.stop()
        for deliver, mails in zip(self._delivers, self._mails, strict=True):
            await deliver.close()
            await mails.close()
        if self._telemetry is not None:
            await self._telemetry.stop(self._operations.of_process())


def _flush(env: Environment, credentials: Credentials) -> Flush:
    """The job that stores an environment's counters, including rate counters if those are in
    memory."""
    return Flush(env, credentials, env.limiter if isinstance(env.limiter, MemoryLimiter) else None)


async def _is_behind(portico: Portico) -> bool:
    """Whether migrations are pending; True while the databases do not answer."""
    try:
        return await portico.is_behind()
    except Unavailable:
        return True
