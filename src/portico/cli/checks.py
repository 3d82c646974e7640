"""What `portico doctor` looks at, each check by itself. None of them changes anything, but that
Valkey counts a probe."""

import http.client
import os
import shutil
import ssl
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from portico.app import system_clock
from portico.cli.lock import holder
from portico.domain.errors import Unavailable
from portico.domain.health import BEHIND, OK
from portico.engines import LIVE, SANDBOX, database, database_file
from portico.secret_file import NAME as SECRET
from portico.secret_file import SecretError, found_secret, is_given
from portico.services.signing import opens
from portico.settings import Settings
from portico.settings.values import redacted
from portico.state.valkey import ValkeyLimiter
from portico.storage.database import Database
from portico.storage.migrate import MigrationError, pending, shipped
from portico.storage.signing_keys import SigningKeys
from portico.storage.sqlite_files import FileError, faults

CLOCK_MILLISECONDS = 2000
"""How far clocks may be apart: the last second of a window is the last that this spoils."""

FREE_BYTES = 512 * 2**20
ANSWER_SECONDS = 3.0
CONNECTIONS = 32
"""Those of a process to PostgreSQL, at most."""

READINESS_BYTES = 4096
"""More than `/readyz` answers."""

ANOTHER_PORT = "stop it, or choose another port"
_UNPREPARED = "run this with the server's settings, or portico init, or restore a backup"

NO_COUNTS = {
    "read_only": "name the primary, by Sentinels where that changes, and see to its replicas",
    "cluster": "begin PORTICO_VALKEY_URL with valkey+cluster://",
}
"""What to do about a store that answers and does not count."""

_NEWEST = """
SELECT max(at) FROM (
    SELECT max(created_at) AS at FROM users
    UNION ALL SELECT max(created_at) FROM products
    UNION ALL SELECT max(last_used_at) FROM api_keys
)"""
_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
_PLACES = """
SELECT sum(setting::int * CASE name WHEN 'max_connections' THEN 1 ELSE -1 END) FROM pg_settings
WHERE name IN ('max_connections', 'superuser_reserved_connections', 'reserved_connections')"""
_VERSION = {"sqlite": "SELECT sqlite_version()", "postgres": "SHOW server_version"}
_NAMED = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


class Finding(msgspec.Struct, frozen=True):
    """What one check found. `advice` says what to do, and is empty where there is nothing."""

    check: str
    ok: bool
    message: str
    advice: str = ""


def well(check: str, message: str) -> Finding:
    """Nothing is wrong."""
    return Finding(check=check, ok=True, message=message)


def wrong(check: str, message: str, advice: str) -> Finding:
    """A problem, and what to do about it."""
    return Finding(check=check, ok=False, message=message, advice=advice)


def notice(check: str, message: str, advice: str) -> Finding:
    """Nothing is wrong, and still something may be better otherwise."""
    return Finding(check=check, ok=True, message=message, advice=advice)


def addresses(settings: Settings) -> Iterator[Finding]:
    """Whether clients come to the port that is listened on, which a forwarded port makes good."""
    if settings.trusted_proxies:
        return
    port = settings.port
    stray = [address for address in settings.addresses if (urlsplit(address).port or 443) != port]
    if stray:
        message = f"the server listens on port {port}, not on that of {stray[0]}"
        advice = "make port the same, unless that port is forwarded to this one"
        yield notice("addresses", message, advice)


def data_directory(settings: Settings) -> Iterator[Finding]:
    """Who may read the directory and the secret files, and how much space is left."""
    check, data = "data directory", settings.data
    if not data.is_dir():
        yield wrong(check, f"{data} does not exist", _UNPREPARED)
        return
    if not os.access(data, os.W_OK | os.X_OK):
        yield wrong(check, f"{data} cannot be written", "see that it is a directory of Portico's")
    elif data.stat().st_mode & 0o077:
        yield wrong(check, f"others may look into {data}", f"chmod 700 {data}")
    else:
        yield well(check, f"{data} is open to its owner alone")
    yield _space("disk space", data)


def _space(check: str, directory: Path) -> Finding:
    free = shutil.disk_usage(directory).free
    if free < FREE_BYTES:
        return wrong(check, f"{free // 2**20} MiB are left in {directory}", "make room")
    return well(check, f"{free // 2**20:,} MiB are left")


def audit_archive(settings: Settings) -> Iterator[Finding]:
    """Whether files can be written where entries of the audit log go before they are removed."""
    check, archive = "audit archive", settings.audit_archive
    if archive is None:
        return
    # What is not there is made by the first export.
    there = next(path for path in (archive, *archive.parents) if path.exists())
    advice = "until it can be written, no entry is removed: see that it is a directory of Portico's"
    if not there.is_dir():
        yield wrong(check, f"{there} is no directory", advice)
    elif not os.access(there, os.W_OK | os.X_OK):
        yield wrong(check, f"{there} cannot be written", advice)
    else:
        yield _space(check, there)


def secret_files(settings: Settings) -> Iterator[Finding]:
    """Private keys that more can read than must. A group may share configured ones."""
    own = (*settings.data.glob(SECRET), *sorted((settings.data / "tls").glob("*.key")))
    keys = [(path, 0o077) for path in own]
    configured = filter(None, (settings.tls_key, settings.secret_key_file))
    keys += [(path, 0o007) for path in configured]
    exposed = [path for path, others in keys if path.stat().st_mode & others]
    for path in exposed:
        yield wrong("secret files", f"{path} can be read by others", f"chmod 600 {path}")
    if keys and not exposed:
        yield well("secret files", "private keys can be read by their owner alone")


async def databases(settings: Settings) -> AsyncIterator[Finding]:
    """Both databases: there, sound, of this program's version, and in step with the clock."""
    for environment in (LIVE, SANDBOX):
        check = f"{environment} database"
        file = None if settings.database_url else database_file(settings, environment)
        if file is not None and not file.exists():
            yield wrong(check, f"there is no {file}", _UNPREPARED)
            continue
        db = database(settings, environment)
        try:
            if file is not None and (found := faults(file)):
                advice = "stop the server, keep a copy of the file, and restore a backup"
                yield wrong(check, f"{file} is damaged: {found[0]}", advice)
                continue
            await db.open()
            try:
                async for finding in _database(settings, environment, check, db):
                    yield finding
            finally:
                await db.close()
        except (Unavailable, FileError) as error:
            advice = "see that it runs, lets this machine in, and has space"
            yield wrong(check, str(error).rstrip("."), advice)


async def _database(
    settings: Settings, environment: str, check: str, db: Database
) -> AsyncIterator[Finding]:
    version = await db.slow.one(_VERSION[db.engine])
    engine = f"{_NAMED[db.engine]} {version[0].split()[0] if version else ''}"
    try:
        due = await pending(db)
    except MigrationError as error:
        yield wrong(check, str(error).rstrip("."), "start the Portico that wrote it")
        return
    if len(due) == len(shipped(db.engine)):
        yield wrong(check, f"{engine} is empty", _UNPREPARED)
        return
    if due:
        names = ", ".join(f"{one.number:04d} {one.name}" for one in due)
        yield wrong(check, f"{engine}: migrations are pending: {names}", "run portico migrate")
        return
    yield well(check, f"{engine}, up to date" + (", sound" if db.engine == "sqlite" else ""))
    if environment == LIVE and settings.database_url and not settings.database_listen_url:
        yield await _places(settings, db)
    yield await _signing(settings, environment, db)
    yield await _clock(environment, db)


async def _places(settings: Settings, db: Database) -> Finding:
    """Whether PostgreSQL has places for as many connections as this host may open."""
    row = await db.slow.one(_PLACES)
    places, wanted = int(row[0]) if row else 0, settings.workers * CONNECTIONS
    message = f"PostgreSQL takes {places}, of which this host may use {wanted}"
    if wanted <= places:
        return well("connections", message)
    advice = "raise max_connections, or put PgBouncer between: until then, who is late waits"
    return notice("connections", message, advice)


async def _signing(settings: Settings, environment: str, db: Database) -> Finding:
    """Whether a private signing key can be decrypted."""
    check = f"{environment} signing keys"
    rows = [row for row in await SigningKeys(db).all() if row.retires_at is None]
    try:
        secret = found_secret(settings)  # which makes none
    except SecretError as error:
        return wrong(check, str(error).rstrip("."), "restore it from a backup")
    if not rows:
        return well(check, "none yet: the first start makes one")
    if secret is not None and opens(secret, rows):
        return well(check, f"{len(rows)} published, one of them signs here")
    if settings.database_url or is_given(settings):
        message = "the database was made with another secret than this host has"
        return wrong(check, message, "give all hosts the same one by secret_key_file")
    advice = "restore it from a backup; without it, the server makes a new signing key"
    return notice(check, f"{settings.data / SECRET} does not open the private keys", advice)


async def _clock(environment: str, db: Database) -> Finding:
    """The clock against the server's, or, where there is none, against what was stored."""
    row = await db.slow.one(_NOW if db.engine == "postgres" else _NEWEST)
    stored = row[0] if row else None
    if db.engine == "postgres":
        return _compared("clock", "PostgreSQL's", int(stored or 0))
    ahead = (stored or 0) - system_clock()
    if ahead > CLOCK_MILLISECONDS:
        message = f"this clock is {ahead // 1000} s behind the newest {environment} data"
        return wrong("clock", message, "set this machine's clock, and keep it with NTP")
    return well("clock", f"not behind the newest {environment} data")


def _compared(check: str, whose: str, theirs: int) -> Finding:
    apart = system_clock() - theirs
    if abs(apart) > CLOCK_MILLISECONDS:
        message = (
            f"this clock is {abs(apart) / 1000:,.1f} s {'ahead of' if apart > 0 else 'behind'}"
        )
        return wrong(check, f"{message} {whose}", "keep the clocks of both machines with NTP")
    return well(check, f"within {CLOCK_MILLISECONDS // 1000} s of {whose}")


async def valkey(settings: Settings) -> AsyncIterator[Finding]:
    """Valkey or Redis: whether it counts, which it is, and its clock."""
    if settings.valkey_url is None:
        return
    place = redacted(settings.valkey_url)
    try:
        limiter = ValkeyLimiter(settings.valkey_url, LIVE, settings.key_prefix)
    except ValueError as error:
        yield wrong("Valkey", f"{place}: {error}", "correct PORTICO_VALKEY_URL")
        return
    try:
        await limiter.probe()
        about = await limiter.about()
    except Unavailable as error:
        advice = "see that it runs and lets this machine in; until then requests get 503"
        message = f"{place}: {error.message} {error.__cause__ or ''}".rstrip(". ")
        yield wrong("Valkey", message, NO_COUNTS.get(error.why, advice))
        return
    finally:
        await limiter.close()
    yield well("Valkey", f"{about.name} {about.version} answers")
    yield _compared("clock", f"{about.name}'s", about.now)


def server(settings: Settings) -> Iterator[Finding]:
    """Whether a server runs, answers, and serves the certificate that is on disk."""
    held = holder(settings.data)
    process = held and held.process
    if held and held.port:  # it may have been started with another than is set here
        settings = replace(settings, port=held.port)
    where = f"{settings.host} port {settings.port}"
    try:
        status, served, body = _ask(settings, "/readyz")
    except ConnectionRefusedError:
        if process:
            advice = "wait, or look into its log and start it again"
            yield wrong("server", f"process {process} does not listen on {where}", advice)
        else:
            yield well("server", f"none runs; {where} is free")
        return
    except (OSError, http.client.HTTPException):
        if process:
            advice = "look into its log, and restart it"
            yield wrong("server", f"process {process} does not answer on {where}", advice)
        else:
            yield wrong("server", f"another program uses {where}", ANOTHER_PORT)
        return
    try:
        told = msgspec.json.decode(body, type=_Readiness)
    except (ValueError, RecursionError):
        yield wrong("server", f"another program uses {where}", ANOTHER_PORT)
        return
    behind = told.stores.get("database") == BEHIND
    away = ", ".join(f"{store} {state}" for store, state in told.stores.items() if state != OK)
    if behind:
        yield wrong("server", f"{where}: it waits for migrations", "run portico migrate")
    elif status != 200:
        yield wrong("server", f"{where}: it is stopping", "wait, or start it again")
    elif away:
        advice = "the other findings say why; it recovers by itself"
        yield wrong("server", f"{where}: of its stores, {away}", advice)
    else:
        yield well("server", f"answers on {where}" + (f", process {process}" if process else ""))
    path = settings.tls_cert or settings.data / "tls" / "server.pem"
    if served and (stored := _first(path)) and served != stored:
        advice = "it looks every 15 seconds; if this stays, its log says why"
        yield wrong("certificate", "the server serves an older one", advice)


class _Readiness(msgspec.Struct):
    ready: bool
    stores: dict[str, str]


def _ask(settings: Settings, path: str) -> tuple[int, bytes | None, bytes]:
    """The status of one GET, the certificate that was served with it (DER), and the body."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104 - compared, not bound
    connection: http.client.HTTPConnection
    if settings.tls:
        # Whether clients can trust the certificate is a check of its own.
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
    """DER; None where there is none that can be read, which the check of the certificate tells."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())[0].public_bytes(Encoding.DER)
    except (OSError, ValueError):
        return None
