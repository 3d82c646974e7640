"""The checks of `portico doctor` on this host, its databases and its certificate, each independent
of the others. They change nothing."""

import os
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from portico.app import BEHIND_SECONDS, system_clock
from portico.cli.initialise import restore_fault
from portico.cli.trial import Untried, require_accepted
from portico.core.errors import DatabaseUnusable, Unavailable, WrongDatabase
from portico.core.text import counted
from portico.core.times import DAY
from portico.data.database import Database
from portico.data.disk import exists
from portico.data.migrate import MigrationError, pending, shipped
from portico.data.sqlite.connection import READ_ONLY, files_of, is_empty, is_read_only
from portico.data.sqlite.files import FileError, faults
from portico.data.vault import Vault
from portico.engines import LIVE, SANDBOX, database, database_file
from portico.features.access.sealing import COLUMNS, sealed_in
from portico.features.access.signing import opens
from portico.features.access.storage import SigningKey, SigningKeys
from portico.features.events.audit import Audit
from portico.features.operations.certificates import (
    AUTHORITY_NOTICE_DAYS,
    CertificateError,
    Inspection,
    check_issuer,
    check_pair,
    inspect,
    validity_fault,
    without_key,
)
from portico.features.operations.moments import last_backup, newest
from portico.lost import advice_if_lost, advice_to_move, is_lost, is_prepared
from portico.resource.loading import KindsError, load
from portico.resource.tables import OTHER_FILES, is_behind, require_none
from portico.secret_file import NAME as SECRET
from portico.secret_file import SecretError, Secrets, found_secrets, has_secret_file, is_given
from portico.settings import Settings
from portico.web.envelope import timestamp

_OURS = "make the account that serves its owner, and run this command as that account"


class Finding(msgspec.Struct, frozen=True):
    """What one check found. `advice` says what to do; it is empty if there is nothing to do."""

    check: str
    ok: bool
    message: str
    advice: str = ""


def ok(check: str, message: str) -> Finding:
    """A finding without a problem."""
    return Finding(check=check, ok=True, message=message)


def problem(check: str, message: str, advice: str) -> Finding:
    """A finding of a problem."""
    return Finding(check=check, ok=False, message=message, advice=advice)


def notice(check: str, message: str, advice: str) -> Finding:
    """A finding without a problem, but with advice."""
    return Finding(check=check, ok=True, message=message, advice=advice)


def advised(error: Exception, advice: str) -> str:
    """The advice about an error, or about file ownership if permissions caused the error."""
    is_refused = any(isinstance(one, PermissionError) for one in (error, error.__cause__))
    return _OURS if is_refused else advice


def _unusable(check: str, error: OSError) -> Finding:
    """A finding for a check that could not finish because of a system error."""
    place = f"{error.filename}: " if error.filename else ""
    advice = advised(error, "check the disk and its file system")
    return problem(check, f"{place}{error.strerror or error}", advice)


async def all_of(
    check: str, findings: Iterator[Finding] | AsyncIterator[Finding]
) -> AsyncIterator[Finding]:
    """The findings of a check. A system error ends the check and becomes its last finding."""
    try:
        if isinstance(findings, AsyncIterator):
            async for finding in findings:
                yield finding
        else:
            for finding in findings:
                yield finding
    except OSError as error:
        yield _unusable(check, error)


_TRIED = 1000
"""With one secret, so many values of a column are tried, from the oldest on: newer ones may have
been encrypted since. While one secret replaces another, all are tried."""

_KINDS = {
    "webhooks": "webhooks",
    "authenticators": "authenticator apps",
    "mails": "waiting mails",
}
"""What messages call the rows of a table. Signing keys have a check of their own."""


async def secret(settings: Settings, environment: str, db: Database) -> AsyncIterator[Finding]:
    """Whether the private signing keys, and everything else that is encrypted, can be decrypted."""
    check = f"{environment} signing keys"
    rows = [row for row in await SigningKeys(db).all() if row.retires_at is None]
    try:
        found = found_secrets(settings)  # creates none
    except SecretError as error:
        yield problem(check, str(error).rstrip("."), advised(error, "restore it from a backup"))
        return
    yield _signing_keys(settings, check, found, rows)
    closed, behind = await _sealed(found or (b"",), db)
    check = f"{environment} secrets"
    if behind:
        message = f"still encrypted under a former secret: {counted(behind, 'value')}"
        advice = "once every server has the new secret first, run portico secret reencrypt"
        yield notice(check, message, advice)
    elif found is not None and len(found) > 1 and not closed:
        message = "everything is encrypted under the first of the secrets"
        yield notice(check, message, "remove the others, and restart the servers")
    if closed:
        place = "by secret_key_file" if is_given(settings) else f"as {settings.data / SECRET}"
        advice = (
            f"give the server the old secret {place}; if that is lost, rotate the secrets of"
            " webhooks, and reset authenticator apps (portico users reset-second-factor)"
        )
        yield problem(check, f"no secret of this host decrypts these: {', '.join(closed)}", advice)


def _signing_keys(
    settings: Settings, check: str, found: Secrets | None, rows: Sequence[SigningKey]
) -> Finding:
    if not rows:
        return ok(check, "none yet: the first start creates one")
    if found is not None and opens(found, rows):
        return ok(check, f"{len(rows)} published, one of them signs here")
    if settings.database_url or is_given(settings):
        message = "the database was made with another secret than this host has"
        return problem(check, message, "give all hosts the same secret by secret_key_file")
    file = settings.data / SECRET
    message = (
        f"{file} does not decrypt the private keys"
        if found
        else f"{file}, which decrypts the private keys, is gone"
    )
    advice = "put the old file back; if no copy is left, start over with portico secret reset"
    return problem(check, message, advice)


async def _sealed(secrets: Secrets, db: Database) -> tuple[list[str], int]:
    """The kinds of values of which some cannot be decrypted with any of these secrets, and how many
    values are encrypted under another secret than the first."""
    vault = Vault(lambda: secrets, os.urandom)
    closed = dict[str, None]()
    behind = 0
    for where in COLUMNS:
        tried = 0
        async for found in sealed_in(db, vault, where):
            behind += sum(one.is_behind for one in found)
            if where.table in _KINDS and any(one.sealed is None for one in found):
                closed[_KINDS[where.table]] = None
            tried += len(found)
            if len(secrets) == 1 and tried >= _TRIED:
                break
    return [*closed], behind


CLOCK_MILLISECONDS = 2000
"""How far clocks may be apart: it spoils at most the last seconds of a rate window."""

FREE_BYTES = 512 * 2**20

_UNOPENED = {
    "sqlite": "check that it is Portico's file, that its disk works and has space, and that no"
    " other program locks it; if it is lost, restore a backup",
    "postgres": "check that it runs, accepts the role and password of its URL from this machine,"
    " and has space",
}
"""What to do about a database that cannot be opened."""

_UNUSABLE = {
    "sqlite": "stop the server, keep a copy of the file, and restore a backup",
    "postgres": "make Portico's role the owner of both schemas and everything in them; if"
    " something is lost, restore a backup",
}
"""What to do about a database that opens but has a wrong content."""

BACKUP_DAYS = 8
"""How old the last backup may be: those of every week are no reason for a notice."""

_NOW = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"
# What pg_database and pg_collation have recorded, and what the operating system has now. Server 14
# records nothing of the database's own collation. Materialized: of other collations, whose locale
# may be gone, nothing is asked.
_COLLATIONS = """
WITH used AS MATERIALIZED (
    SELECT oid, collname, collversion FROM pg_collation
    WHERE collname <> 'default' AND collversion IS NOT NULL
        AND oid IN (SELECT attcollation FROM pg_attribute)
)
SELECT format('COLLATION %s', oid::regcollation) AS name, collversion AS recorded,
    pg_collation_actual_version(oid) AS present FROM used"""
_DATABASE_COLLATION = """
SELECT format('DATABASE %I', datname), datcollversion, pg_database_collation_actual_version(oid)
FROM pg_database WHERE datname = current_database() AND datcollversion IS NOT NULL"""
_READ_ONLY = "SHOW transaction_read_only"
"""`on` on a standby too."""

_VERSION = {"sqlite": "SELECT sqlite_version()", "postgres": "SHOW server_version"}
_NAMED = {"sqlite": "SQLite", "postgres": "PostgreSQL"}


def data_directory(settings: Settings) -> Iterator[Finding]:
    """Who may access the directory, and how much space is left."""
    check, data = "data directory", settings.data
    if not data.is_dir():
        # portico init does not create it on a further host, whose database is prepared already.
        further = "if another host has prepared the database, portico serve creates it; otherwise "
        advice = (further if settings.database_url else "") + _unprepared(settings)
        yield problem(check, f"{data} does not exist", advice)
        return
    if not os.access(data, os.W_OK | os.X_OK):
        found = data.stat()
        is_closed = found.st_uid == os.geteuid() and found.st_mode & 0o300 != 0o300
        owned = "make the account that serves its owner, and its file system writable"
        advice = f"chmod 700 {data}" if is_closed else owned
        yield problem(check, f"{data} cannot be written", advice)
    elif data.stat().st_mode & 0o077:
        yield problem(check, f"other users can access {data}", f"chmod 700 {data}")
    else:
        yield ok(check, f"only its owner can access {data}")
    yield _space("disk space", data)


def _space(check: str, directory: Path) -> Finding:
    free = shutil.disk_usage(directory).free
    if free < FREE_BYTES:
        message = f"only {free // 2**20} MiB are free in {directory}"
        return problem(check, message, "free some space")
    return ok(check, f"{free // 2**20:,} MiB are free")


def restore(settings: Settings) -> Iterator[Finding]:
    """Whether a restore is unfinished, which keeps a server from starting."""
    if fault := restore_fault(settings.data):
        yield problem("restore", *fault)


def audit_archive(settings: Settings) -> Iterator[Finding]:
    """Whether the directory to which audit entries are archived can be written."""
    check, archive = "audit archive", settings.audit_archive
    if archive is None:
        return
    # The first export creates missing directories.
    there = next(path for path in (archive, *archive.parents) if exists(path))
    advice = "make it a directory that the account that serves owns: until then no entry is removed"
    if not there.is_dir():
        yield problem(check, f"{there} is not a directory", advice)
    elif not os.access(there, os.W_OK | os.X_OK):
        yield problem(check, f"{there} cannot be written", advice)
    else:
        yield _space(check, there)


def secret_files(settings: Settings) -> Iterator[Finding]:
    """Whether private keys, or a portico.toml with a secret, are readable by too many. Files that
    are named by settings may be readable by a group."""
    own = (*_in(settings.data, SECRET), *_in(settings.data / "tls", "*.key"))
    keys = [(path, 0o077) for path in own]
    configured = filter(None, (settings.tls_key, settings.secret_key_file, settings.secrets_file))
    keys += [(path, 0o007) for path in configured]
    exposed = [(path, others) for path, others in keys if path.stat().st_mode & others]
    for path, others in exposed:
        is_own = path.stat().st_uid == os.geteuid()
        whose, mode = ("", 600) if others & 0o070 else ("group of the ", 640)
        shared = f"have the {whose}account that serves own it, then chmod {mode} {path}"
        advice = f"chmod 600 {path}" if is_own else shared
        yield problem("secret files", f"other users can read {path}", advice)
    if keys and not exposed:
        yield ok("secret files", "no other users can read private keys")


def _in(directory: Path, pattern: str) -> list[Path]:
    """The files of a directory that match the pattern; empty if there is no directory. Raises
    `OSError` if it cannot be read, which `Path.glob` ignores on newer releases of Python."""
    with suppress(FileNotFoundError):
        return sorted(path for path in directory.iterdir() if path.match(pattern))
    return []


def _unprepared(settings: Settings) -> str:
    """What to do if there is no database. `portico init` is no advice where parts of an
    installation are left."""
    if hint := advice_to_move(settings):
        return hint.rstrip(".")
    if has_secret_file(settings) or (settings.database_url is None and is_prepared(settings)):
        return "run this with the server's settings, put the database back, or restore a backup"
    return "run this with the server's settings, or portico init, or restore a backup"


async def _without(settings: Settings, environment: str) -> str:
    """What to do about an empty database."""
    if await is_lost(settings, environment):
        return advice_if_lost(environment)
    return _unprepared(settings)


async def databases(settings: Settings) -> AsyncIterator[Finding]:
    """Whether both databases exist, are intact, are up to date and agree with the clock."""
    for environment in (LIVE, SANDBOX):
        check = f"{environment} database"
        async for finding in all_of(check, _one_of_both(settings, environment, check)):
            yield finding


async def _one_of_both(settings: Settings, environment: str, check: str) -> AsyncIterator[Finding]:
    file = None if settings.database_url else database_file(settings, environment)
    if file is not None and is_empty(file):
        what = f"{file} is empty" if exists(file) else f"{file} does not exist"
        yield problem(check, what, await _without(settings, environment))
        return
    # Opening a read-only database would leave read-only files beside it.
    if file is not None and (closed := _closed(file)):
        advice = f"chmod 600 {closed}, as the account that serves, and start the server again"
        if is_read_only(file):
            reason, _, advice = READ_ONLY.partition(": ")
            closed = f"{closed}: {reason}"
        yield problem(check, f"this account cannot read and write {closed}", advice)
        return
    db = database(settings, environment)
    try:
        if file is not None and (found := faults(file)):
            yield problem(check, f"{file} is damaged: {found[0]}", _UNUSABLE[db.engine])
            return
        await db.open()
        try:
            async for finding in _database(settings, environment, check, db):
                yield finding
        finally:
            await db.close()
    except WrongDatabase as error:
        what, _, advice = str(error).rstrip(".").partition(": ")
        yield problem(check, what, advice)
    except DatabaseUnusable as error:
        yield problem(check, str(error).rstrip("."), _UNUSABLE[db.engine])
    except (Unavailable, FileError) as error:
        yield problem(check, str(error).rstrip("."), _UNOPENED[db.engine])


def _closed(file: Path) -> str:
    """The database's files that this account may not both read and write."""
    closed = [one for one in files_of(file) if not os.access(one, os.R_OK | os.W_OK)]
    return " ".join(str(one) for one in closed)


async def _database(
    settings: Settings, environment: str, check: str, db: Database
) -> AsyncIterator[Finding]:
    version = await db.slow.one(_VERSION[db.engine])
    engine = f"{_NAMED[db.engine]} {version[0].split()[0] if version else ''}"
    try:
        due = await pending(db)
    except MigrationError as error:
        yield problem(check, str(error).rstrip("."), "use the release of Portico that migrated it")
        return
    if len(due) == len(shipped(db.engine)):
        yield problem(check, f"{engine} is empty", await _without(settings, environment))
        return
    if due:
        names = ", ".join(f"{one.number:04d} {one.name}" for one in due)
        yield problem(check, f"{engine}: migrations are pending: {names}", "run portico migrate")
        return
    if db.engine == "postgres" and await db.slow.one(_READ_ONLY) == ("on",):
        advice = "name the primary in database_url, or unset default_transaction_read_only"
        yield problem(check, f"{engine} is read-only", advice)
    else:
        yield ok(check, f"{engine}, up to date" + (", intact" if db.engine == "sqlite" else ""))
    if environment == LIVE and db.engine == "postgres":
        async for finding in _collations(db):
            yield finding
    async for finding in secret(settings, environment, db):
        yield finding
    if environment == LIVE and (made_at := await last_backup(Audit(db))) is not None:
        yield _backup(made_at)
    yield await _clock(environment, db)
    if settings.kinds is not None:
        yield await _declared_kinds(settings, settings.kinds, environment, db)
    else:
        try:
            await require_none(db)
        except Unavailable as error:
            yield notice(f"{environment} kinds", error.message.rstrip("."), SAME_FILES)


SAME_FILES = "give every host the same files, then run portico migrate"


async def _declared_kinds(
    settings: Settings, directory: Path, environment: str, db: Database
) -> Finding:
    """Whether the database was last migrated to the files of kinds of this host."""
    check = f"{environment} kinds"
    try:
        kinds = load(directory, frozenset(settings.declared.roles))
    except KindsError as error:
        advice = "correct the files; portico kinds check tells every fault"
        return problem(check, str(error).partition("\n")[0].rstrip("."), advice)
    if await is_behind(db, kinds):
        return notice(check, f"{directory} has {OTHER_FILES}", SAME_FILES)
    return ok(check, f"as in {directory}")


def _backup(made_at: int) -> Finding:
    """How old the last backup is; there is no finding where `portico backup` never made one."""
    message = f"the last one was made at {timestamp(made_at)}"
    if system_clock() - made_at <= BACKUP_DAYS * DAY:
        return ok("backup", message)
    return notice("backup", message, "see why portico backup has not run since")


async def _collations(db: Database) -> AsyncIterator[Finding]:
    """Whether the operating system still sorts text as it did when PostgreSQL's indexes were built.
    Portico's own do not depend on it."""
    rows = [*await db.slow.all(_COLLATIONS)]
    version = await db.slow.one("SELECT current_setting('server_version_num')::int")
    if version is not None and version[0] >= 150000:
        rows += await db.slow.all(_DATABASE_COLLATION)
    for name, recorded, present in rows:
        if present != recorded:
            verb = "REFRESH COLLATION VERSION" if name.startswith("DATABASE") else "REFRESH VERSION"
            yield problem(
                "collation",
                f"{name} had version {recorded} and has {present}: indexes that others have made"
                " with it may find too little and take duplicates",
                f"rebuild them (REINDEX DATABASE), then ALTER {name} {verb}",
            )


async def _clock(environment: str, db: Database) -> Finding:
    """Compares this clock with the newest stored moment, and with PostgreSQL's."""
    behind = (await newest(db) - system_clock()) // 1000
    if behind > BEHIND_SECONDS:
        message = f"this clock is {behind} s behind the newest {environment} data"
        advice = (
            "set this machine's clock, by NTP; if it is right now and was ahead then, run portico"
            " correct-times"
        )
        return problem("clock", message, advice)
    if db.engine == "postgres":
        row = await db.slow.one(_NOW)
        return compared("PostgreSQL's", int(row[0]) if row else 0)
    return ok("clock", f"not behind the newest {environment} data")


def compared(whose: str, theirs: int) -> Finding:
    apart = system_clock() - theirs
    if abs(apart) > CLOCK_MILLISECONDS:
        message = (
            f"this clock is {abs(apart) / 1000:,.1f} s {'ahead of' if apart > 0 else 'behind'}"
        )
        return problem("clock", f"{message} {whose}", "set the clocks of both machines by NTP")
    return ok("clock", f"within {CLOCK_MILLISECONDS // 1000} s of {whose}")


_FITTING = (
    "replace it by a pair that can be served, with the server's own certificate before those of its"
    " chain; a running server picks it up without a restart"
)


def certificate(settings: Settings) -> Iterator[Finding]:
    """Whether the server's certificate can be served, for which names and for how long."""
    tls = settings.data / "tls"
    if not settings.tls:
        yield ok("certificate", "not needed: a trusted proxy terminates TLS")
    elif settings.tls_cert is not None and settings.tls_key is not None:
        yield from _given(settings, settings.tls_cert, settings.tls_key)
    elif exists(tls / "server.pem"):  # else the finding about the database says what to do
        yield from _local(settings, tls)


def _given(settings: Settings, path: Path, key: Path) -> Iterator[Finding]:
    """The findings about a certificate that the settings name."""
    try:
        check_pair(path, key)
        require_accepted(path, key)  # as the start does
        found = inspect(path)
    except (CertificateError, Untried) as error:
        yield problem("certificate", str(error), advised(error, _FITTING))
        return
    renew = "renew it; a running server picks it up without a restart"
    early = "set this machine's clock"
    yield from _served(settings, path, found, last=False, renew=renew, early=early)


def _local(settings: Settings, tls: Path) -> Iterator[Finding]:
    """The findings about a certificate of the local authority, and about the authority."""
    path, authority_path = tls / "server.pem", tls / "ca.pem"
    renew = "start the server, which renews it"
    if lost := _lost(tls):
        renew = advised(lost, without_key(authority_path))
        # An operator may have moved the key away on purpose: no problem before the renewal.
        tell = problem if exists(tls / "ca.key") else notice
        yield tell("authority", f"the server certificate cannot be renewed: {lost}", renew)
    try:
        check_pair(path, tls / "server.key")
        found, authority = inspect(path), inspect(authority_path)
        check_issuer(path, authority_path)
    except CertificateError as error:
        yield problem("certificate", str(error), advised(error, renew))
        return
    now = system_clock()
    if (left := (authority.expires_at - now) // DAY) < AUTHORITY_NOTICE_DAYS:
        yield _ends(authority_path, left)
    early = renew
    if authority.starts_at > now:
        early = (
            f"set this machine's clock; if it is right, remove {authority_path} and start the"
            " server, which creates a new authority that clients must then trust"
        )
        yield problem("authority", f"{authority_path} is not valid yet", early)
    # A certificate that expires together with its authority cannot be renewed.
    last = found.expires_at >= authority.expires_at
    yield from _served(settings, path, found, last=last, renew=renew, early=early)


def _served(
    settings: Settings, path: Path, found: Inspection, *, last: bool, renew: str, early: str
) -> Iterator[Finding]:
    """The findings about a certificate's validity period and names. `early` is the advice if it is
    not valid yet, `renew` if anything else is wrong."""
    now, names = system_clock(), sorted(settings.host_names)
    missing = [name for name in names if not _names(found.names, name)]
    if what := validity_fault(found, now, last=last):
        yield problem("certificate", f"{path} {what}", early if found.starts_at > now else renew)
    if missing:
        yield problem("certificate", f"{path} does not name {', '.join(missing)}", renew)
    if not (what or missing):
        days = (found.expires_at - now) // DAY
        yield ok("certificate", f"names {', '.join(names)}; expires in {counted(days, 'day')}")


def _lost(tls: Path) -> CertificateError | None:
    """Why the local authority can no longer sign, or None. A missing authority is no problem: the
    server creates a new one."""
    authority = tls / "ca.pem"
    try:
        if exists(authority):
            check_pair(authority, tls / "ca.key")
    except CertificateError as error:
        return error
    return None


def _ends(authority: Path, days: int) -> Finding:
    advice = (
        f"remove {authority} once all clients can be made to trust the new one that the server"
        " then creates"
    )
    end = f"expires in {counted(days, 'day')}" if days >= 0 else "has expired"
    return problem("authority", f"{authority} {end}", advice)


def _names(patterns: frozenset[str], host: str) -> bool:
    """Whether a certificate's names cover a host. One label may be a wildcard (RFC 6125 §6.4.3)."""
    return host in patterns or f"*.{host.partition('.')[2]}" in patterns
