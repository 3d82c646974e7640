"""The check of the certificate for `portico doctor`."""

from collections.abc import Iterator
from pathlib import Path

from portico.app import system_clock
from portico.cli.trial import Untried, require_accepted
from portico.core.text import counted
from portico.core.times import DAY
from portico.data.disk import exists
from portico.features.operations.certificates import (
    AUTHORITY_NOTICE_DAYS,
    RENEWAL_DAYS,
    CertificateError,
    Inspection,
    check_issuer,
    check_pair,
    inspect,
    without_key,
)
from portico.features.operations.commands.findings import Finding, advised, notice, ok, problem
from portico.settings import Settings

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


def validity_fault(found: Inspection, now: int, *, last: bool) -> str:
    """What is wrong with a certificate's validity period, or "". The `last` certificate of an
    authority is not renewed before it expires."""
    left = found.expires_at - now
    if found.starts_at > now:
        return "is not valid yet"
    if left < 0:
        return "has expired"
    # Certificates valid for days are renewed later than those valid for a year.
    soon = min(RENEWAL_DAYS * DAY, (found.expires_at - found.starts_at) // 4)
    return "" if last or left >= soon else f"expires in {counted(left // DAY, 'day')}"


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
