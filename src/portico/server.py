"""Wires the web application together: routes and jobs on both environments. Commands do not load
it, only `portico.app`, which takes half the time."""

import asyncio
import logging
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from portico import logs
from portico.app import Portico
from portico.core.errors import Unavailable
from portico.environment import Environment
from portico.features.access.api_keys import REMIND_PERIOD, remind
from portico.features.access.backchannel import SendLogouts
from portico.features.access.credentials import Credentials
from portico.features.events.audit_removal import MakeAuditRanges, RemoveAudit
from portico.features.events.deliveries import AT_ONCE, Deliver
from portico.features.events.feed import CHECK_PERIOD, Feed, Subscriptions
from portico.features.events.payloads import delivered
from portico.features.events.schemas import rows as audit_rows
from portico.features.mail.sending import SendMails
from portico.features.operations.endpoints import SHARE_PERIOD, Operations
from portico.features.operations.metrics import SharedMetrics
from portico.features.operations.moments import LOOK_PERIOD, look_for_backup
from portico.features.operations.storing import FLUSH_PERIOD, STORE_PERIOD, Flush, StoreRequests
from portico.features.operations.tidy import TIDY_PERIOD, Tidy
from portico.features.people.accounts import QUOTA_PERIOD, tell_quotas
from portico.features.people.mirrors import FOLLOW_PERIOD, FollowMirrors
from portico.features.people.storage import Users
from portico.jobs.runner import Job, Runner, Wait
from portico.limits.memory import MemoryLimiter
from portico.mounts import mounts
from portico.resource.imports import IDLE_PERIOD, tell_of_idle
from portico.resource.uploads import ProcessUploads
from portico.version import version
from portico.web.measure import LOG_PERIOD, Measure, RequestLog
from portico.web.messages import Application
from portico.web.open_responder import OpenResponder, PlainHttpResponder
from portico.web.peers import Peers
from portico.web.pipeline import Pipeline
from portico.web.representations import Representations
from portico.web.router import Router
from portico.web.routing import Mount

if TYPE_CHECKING:
    from portico.telemetry.sdk import Telemetry

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""How long a server that waits for migrations pauses between two checks."""


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
        agent = f"Portico/{version()}"
        sender = telemetry.sender(portico.sender) if telemetry else portico.sender
        self._jobs_of = [
            (
                env,
                _flush(env, credentials[env.name]),
                Deliver(env, sender, delivered, agent, lambda: self.pipeline.under_way, at_once),
                SendMails(env),
                SendLogouts(env, sender, agent),
            )
            for env in environments
        ]
        self._runner = Runner(portico.clock)
        kept = Representations(settings.kept_bytes)
        self._operations = Operations(
            environments, credentials, measure, kept, shared, self._runner.runs, self._process
        )
        open_responder = OpenResponder(settings.metrics_allow)
        operations = Mount("", "", None, self._operations.routes(), "", open_responder)
        served = mounts(
            settings, environments, credentials, kept, open_responder, portico.forwarder
        )
        refusal = Mount("", "", None, (), "", PlainHttpResponder(settings.base_url))
        pipeline = partial(
            Pipeline,
            peers=Peers(settings.trusted_proxies, own_certificate=settings.tls_cert is not None),
            measure=measure,
            clock=portico.clock,
            random=portico.random,
            read_around=telemetry.read if telemetry else (),
        )
        self.pipeline = pipeline(Router([*served, operations]), Router([refusal, operations]))
        self.application: Application = (
            telemetry.application(self.pipeline) if telemetry else self.pipeline
        )
        """The RSGI application: the pipeline, with tracing around it where `telemetry` is given."""
        self.plain = pipeline(Router([refusal]), Router([refusal]))
        """The application on `http_port`, which refuses every request."""

    async def start(self) -> None:
        """Restores the counters that the last run stored, and starts the jobs."""
        try:
            await self._portico.live.limiter.probe()
        except Unavailable as error:
            log.warning("%s Requests get 503 until it does.", error.message)
        for _, flush, *_ in self._jobs_of:
            await flush.restore()
        self._runner.start(self._jobs())

    async def start_once_migrated(self, wait: Wait = asyncio.sleep) -> None:
        """Waits until another process has applied all migrations, then does as `start`. Meanwhile
        requests for an environment get 503. Raises `MigrationError` as `migrate` does."""
        portico = self._portico
        self._set_behind(is_behind=True)
        warned = False
        while await _is_behind(portico):
            if not warned:
                log.warning(
                    "Migrations are pending: requests get 503 until portico migrate has run."
                )
                warned = True
            await wait(LOOK_SECONDS)
        await portico.ready()
        await self.start()
        self._set_behind(is_behind=False)

    def _set_behind(self, *, is_behind: bool) -> None:
        self.pipeline.is_behind = self._operations.readiness.is_behind = is_behind

    def _jobs(self) -> Iterator[Job]:
        """The jobs of this process; docs/architecture.md has them as a table."""
        for env, flush, deliver, mails, logouts in self._jobs_of:
            store = StoreRequests(env, self._process)
            yield Job(env.name, "deliveries", 0, deliver.run)
            yield Job(env.name, "mails", 0, mails.run)
            yield Job(env.name, "logouts", 0, logouts.run)
            yield Job(env.name, "flush", FLUSH_PERIOD, flush.run, last=True)
            yield Job(env.name, "requests", STORE_PERIOD, store.run, last=True)
            yield Job(env.name, "quotas", QUOTA_PERIOD, partial(tell_quotas, env), last=True)
            yield Job(env.name, "tidy", TIDY_PERIOD, Tidy(env, self._process).run)
            removing = RemoveAudit(env, self._process, partial(audit_rows, "ndjson"))
            yield Job(env.name, "audit", TIDY_PERIOD, removing.run)
            making = MakeAuditRanges(env, self._process)
            yield Job(env.name, "audit_ranges", TIDY_PERIOD, making.run)
            if env is self._portico.live:
                yield Job(env.name, "backups", LOOK_PERIOD, partial(look_for_backup, env))
            yield Job(env.name, "reminders", REMIND_PERIOD, partial(remind, env))
            yield Job(env.name, "imports", IDLE_PERIOD, partial(tell_of_idle, env))
            yield Job(
                env.name, "uploads", 0, ProcessUploads(env, self._portico.live[Users].get).run
            )
            yield Job(env.name, "feed", 0, env[Feed].run)
            yield Job(env.name, "streams", CHECK_PERIOD, env[Subscriptions].run, last=True)
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
        """Makes `/readyz` fail, so that load balancers send nothing more."""
        self._operations.readiness.leaving = True

    async def stop(self) -> None:
        """Stops the jobs and stores what they have gathered in memory. Call it after the last
        request."""
        await self._runner.stop()
        for _, _, deliver, mails, logouts in self._jobs_of:
            await deliver.close()
            await mails.close()
            await logouts.close()
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
