"""The checks of `portico doctor` on what this host reaches by network: stores, mail and collector.
They change nothing, except that Valkey counts a probe."""

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pkgutil import resolve_name
from urllib.parse import parse_qs, unquote, urlsplit

from portico.cli.checks import compared
from portico.cli.findings import Finding, notice, ok, problem
from portico.cli.output import INSTALL_OTEL
from portico.cli.server_checks import ANSWER_SECONDS
from portico.domain.errors import Unavailable
from portico.domain.health import BEHIND, FOREIGN, OK, PRIMARY, SILENT
from portico.domain.networks import is_loopback
from portico.domain.store_urls import read_store_url
from portico.engines import LIVE, database
from portico.mail.protocol import Undelivered
from portico.mail.smtp import SmtpOutlet
from portico.settings import SettingError, Settings
from portico.settings.values import redacted
from portico.state.valkey import ValkeyLimiter
from portico.storage.database import Database, ReplicaState

LOOK_SECONDS = 0.1
LOOKS = 30

MESSAGES = {
    SILENT: "does not answer",
    BEHIND: "is behind",
    FOREIGN: "leads to another database than the primary",
}
"""Why a standby does not answer lists, by its state."""

ADVICE = {
    SILENT: "check that it runs and accepts the role and password of PORTICO_DATABASE_READ_URL from"
    " this machine",
    BEHIND: "check that it streams from the primary; after a failover it is used again from its"
    " next checkpoint on, or at once if the role has pg_read_all_stats",
    FOREIGN: "name standbys of PORTICO_DATABASE_URL in PORTICO_DATABASE_READ_URL, and the same"
    " database",
}
"""What to do about such a standby. Until then the primary answers in its place."""

NO_COUNTS = {
    "read_only": "name the primary, or the Sentinels if it changes, and check its replicas",
    "cluster": "begin PORTICO_VALKEY_URL with valkey+cluster://",
}
"""What to do about a store that answers but does not count."""

_VERIFYING = ("verify-ca", "verify-full")
_OVER_TLS = ("valkeys", "rediss")


async def replicas(settings: Settings) -> AsyncIterator[Finding]:
    """Whether each standby of `database_read_url` answers and follows the primary closely."""
    if settings.database_url is None or settings.database_read_url is None:
        return
    db = database(settings, LIVE)
    try:
        await db.open()
        found = await _judged(db)
    except Unavailable:
        return  # the check of the database reports it
    finally:
        await db.close()
    for name, state in found.items():
        yield _standby(name, state)


async def _judged(db: Database) -> Mapping[str, ReplicaState]:
    """The states of the standbys, once all answer lists or the time for that is over."""
    for _ in range(LOOKS):
        if all(state.word in (OK, PRIMARY) for state in db.replicas().values()):
            break
        await asyncio.sleep(LOOK_SECONDS)
    return db.replicas()


def _standby(name: str, state: ReplicaState) -> Finding:
    check = f"standby {name}"
    if state.word == OK:
        return ok(check, f"answers lists, {state.lag:.1f} s behind")
    if state.word == PRIMARY:
        return ok(check, "is the primary for now, so it is not used for lists")
    message = MESSAGES.get(state.word, state.word) + (f" ({state.reason})" if state.reason else "")
    advice = ADVICE.get(state.word, "read its log")
    return problem(check, f"{message}: the primary answers in its place", advice)


async def valkey(settings: Settings) -> AsyncIterator[Finding]:
    """Whether Valkey or Redis counts, which version it is, and its clock."""
    if settings.valkey_url is None:
        return
    place = redacted(settings.valkey_url)
    try:
        limiter = ValkeyLimiter(settings.valkey_url, LIVE, settings.key_prefix)
    except ValueError as error:
        yield problem("Valkey", f"{place}: {error}", "correct PORTICO_VALKEY_URL")
        return
    try:
        await limiter.probe()
        about = await limiter.about()
    except Unavailable as error:
        advice = (
            "check that it runs and accepts the password of PORTICO_VALKEY_URL from this machine;"
            " until then requests get 503"
        )
        message = f"{place}: {error.message} {error.__cause__ or ''}".rstrip(". ")
        yield problem("Valkey", message, NO_COUNTS.get(error.why, advice))
        return
    finally:
        await limiter.close()
    yield ok("Valkey", f"{about.name} {about.version}".rstrip() + " answers")
    yield compared(f"{about.name}'s", about.now)


def store_tls(settings: Settings) -> Iterator[Finding]:
    """Whether a store on another machine could be reached without TLS, or be impersonated."""
    for name in ("database_url", "database_listen_url", "database_read_url"):
        url: str | None = getattr(settings, name)
        if url is not None and _driver_option(url, "sslmode", "PGSSLMODE") not in _VERIFYING:
            hosts = read_store_url(url).hosts
            if hosts == [""]:
                hosts = _driver_option(url, "host", "PGHOST").split(",")
            yield from _unverified("PostgreSQL", name, hosts, "add sslmode=verify-full to")
    url = settings.valkey_url
    if url is not None and urlsplit(url).scheme.partition("+")[0] not in _OVER_TLS:
        hosts = read_store_url(url).hosts
        yield from _unverified("Valkey", "valkey_url", hosts, "use valkeys:// or rediss:// in")


def _driver_option(url: str, name: str, variable: str) -> str:
    """What the driver of PostgreSQL uses: what the URL's query says, or else its environment
    variable."""
    asked = parse_qs(read_store_url(url).rest.query).get(name, [])
    return asked[-1] if asked else os.environ.get(variable, "")


def _unverified(store: str, name: str, hosts: Sequence[str], change: str) -> Iterator[Finding]:
    if far := list(dict.fromkeys(_elsewhere(hosts))):
        variable = f"PORTICO_{name.upper()}"
        message = f"{', '.join(far)}: {variable} does not require TLS with a verified certificate"
        advice = f"{change} {variable}, unless only trusted machines are in that network"
        yield notice(f"TLS to {store}", message, advice)


def _elsewhere(hosts: Sequence[str]) -> Iterator[str]:
    """The names of those hosts, each with a port if there is one, that are not this machine."""
    for host in hosts:
        name = re.sub(":[0-9]*$", "", host).strip("[]").lower()
        is_socket = not name or unquote(name).startswith("/")
        if not (is_socket or is_loopback(name)):
            yield name


async def mail(settings: Settings) -> AsyncIterator[Finding]:
    """Whether the mail server accepts mail."""
    if settings.smtp_url is None or settings.mail_from is None:
        return
    place = redacted(settings.smtp_url)
    try:
        outlet = SmtpOutlet(
            settings.smtp_url, settings.mail_from, settings.site_name, seconds=ANSWER_SECONDS
        )
        await outlet.check()
    except Undelivered as error:
        advice = "correct PORTICO_SMTP_URL, or check that it runs and accepts this machine"
        yield problem("mail", f"{place} does not accept mail: {error.reason}", advice)
        return
    yield ok("mail", f"{place} answers")


def collector(settings: Settings) -> Iterator[Finding]:
    """Whether the OpenTelemetry collector accepts an export, which is empty."""
    check, endpoint = "collector", settings.otlp_endpoint
    if endpoint is None:
        return
    advice = "correct PORTICO_OTLP_ENDPOINT or the OTEL_ variables, or check that it runs"
    try:
        refusal: Callable[[str, float], str] = resolve_name("portico.telemetry.exporting:refusal")
        reason = refusal(endpoint, ANSWER_SECONDS)
    except ModuleNotFoundError:
        yield problem(check, "OpenTelemetry is not installed", INSTALL_OTEL)
    except (SettingError, ValueError, RuntimeError) as error:  # the SDK's, about its variables
        yield problem(check, str(error), advice)
    else:
        message = f"{endpoint} does not accept exports: {reason}"
        yield problem(check, message, advice) if reason else ok(check, f"{endpoint} answers")
