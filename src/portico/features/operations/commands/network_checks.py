"""The checks of `portico doctor` on what this host reaches by network: stores, mail and collector.
They change nothing, except that Valkey counts a probe."""

import asyncio
import http.client
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from portico.cli.lock import ANOTHER_PORT, holder, is_elsewhere, port_fault
from portico.cli.output import INSTALL_OTEL
from portico.core.errors import BEHIND, FOREIGN, FULL, OK, PRIMARY, SILENT, Unavailable
from portico.core.networks import is_loopback, read_store_url
from portico.data.database import Database, ReplicaState
from portico.engines import LIVE, database
from portico.features.operations.commands.checks import Finding, compared, notice, ok, problem
from portico.limits.valkey import ValkeyLimiter
from portico.outbound.mail import Undelivered
from portico.outbound.smtp import SmtpOutlet
from portico.settings import SettingError, Settings
from portico.settings.values import redacted

ANSWER_SECONDS = 3.0
READINESS_BYTES = 4096
"""More than the size of any answer of `/readyz`."""


def server(settings: Settings) -> Iterator[Finding]:
    """Whether a server runs, answers, and serves the certificate that is on disk. If none runs,
    whether one could listen."""
    held = holder(settings.data)
    if held is None:
        yield from _vacant(settings)
        return
    if held.port:  # it may have been started with another port than the settings here say
        settings = replace(settings, port=held.port)
    where = f"{settings.host} port {settings.port}"
    try:
        status, served, body = _ask(settings, "/readyz")
    except (OSError, http.client.HTTPException) as error:
        yield _silent(settings, held.process, where, error)
        return
    readiness = _readiness(body)
    if readiness is None:
        yield problem("server", f"another program uses {where}", ANOTHER_PORT)
        return
    yield _state(readiness, where, status, held.process)
    path = settings.tls_cert or settings.data / "tls" / "server.pem"
    if served and (stored := _first(path)) and served != stored:
        advice = "it looks every 15 seconds; if this stays, its log says why"
        yield problem("certificate", "the server serves an older certificate", advice)


def _silent(settings: Settings, process: int, where: str, error: Exception) -> Finding:
    """Why a server that runs does not answer."""
    if is_elsewhere(settings.data):
        message = f"runs in another container, and {where} of this one does not lead to it"
        return notice("server", message, "run this in its container to examine it too")
    if isinstance(error, ConnectionRefusedError):
        advice = "wait, or read its log and restart it"
        return problem("server", f"process {process} does not listen on {where}", advice)
    advice = "read its log, and restart it"
    return problem("server", f"process {process} does not answer on {where}", advice)


def _vacant(settings: Settings) -> Iterator[Finding]:
    """Whether a server could listen, if none uses the data directory."""
    free = True
    for port in filter(None, (settings.port, settings.http_port)):
        if fault := port_fault(settings.host, port):
            free = False
            another = fault.is_used and _is_portico(replace(settings, port=port))
            which = ", a Portico with another data directory" if another else ""
            yield problem("server", fault.message + which, fault.advice)
    if free:
        yield ok("server", f"not running; {settings.host} port {settings.port} is free")


def _is_portico(settings: Settings) -> bool:
    try:
        return _readiness(_ask(settings, "/readyz")[2]) is not None
    except (OSError, http.client.HTTPException):
        return False


class _Readiness(msgspec.Struct):
    ready: bool
    stores: dict[str, str]


def _readiness(body: bytes) -> _Readiness | None:
    try:
        return msgspec.json.decode(body, type=_Readiness)
    except (ValueError, RecursionError):
        return None


def _state(readiness: _Readiness, where: str, status: int, process: int) -> Finding:
    """What the answer of a server's `/readyz` says."""
    stores = readiness.stores
    if stores.get("database") == BEHIND:
        return problem("server", f"{where}: waits for migrations", "run portico migrate")
    if status != 200:
        return problem("server", f"{where}: is stopping", "wait, or start it again")
    if away := ", ".join(f"{store} {state}" for store, state in stores.items() if state != OK):
        advice = "the other findings say why; the server recovers by itself"
        if FULL in stores.values():
            advice = "free some space there; the server then recovers by itself"
        return problem("server", f"{where}: its stores are not available: {away}", advice)
    return ok("server", f"answers on {where}, process {process}")


def _ask(settings: Settings, path: str) -> tuple[int, bytes | None, bytes]:
    """The status of one GET, the certificate that was served (DER), and the body."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - compared, not bound
    connection: http.client.HTTPConnection
    if settings.tls:
        # Another check says whether clients can trust the certificate.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(
            host, settings.port, timeout=ANSWER_SECONDS, context=context
        )
    else:
        connection = http.client.HTTPConnection(host, settings.port, timeout=ANSWER_SECONDS)
    try:
        connection.connect()
        served = (
            connection.sock.getpeercert(binary_form=True)
            if isinstance(connection.sock, ssl.SSLSocket)
            else None
        )
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, served, answer.read(READINESS_BYTES)
    finally:
        connection.close()


def _first(path: Path) -> bytes | None:
    """The first certificate of a file (DER), or None if it cannot be read, which the check of the
    certificate reports."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0].public_bytes(Encoding.DER)
    except (OSError, ValueError):
        return None


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
