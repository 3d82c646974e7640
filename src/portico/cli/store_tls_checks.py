"""The check for `portico doctor` of the networks between this host and its stores."""

import os
from collections.abc import Iterator
from urllib.parse import parse_qs, unquote, urlsplit

from portico.cli.findings import Finding, notice
from portico.domain.networks import is_loopback
from portico.domain.store_urls import read_store_url
from portico.settings import Settings

_VERIFYING = ("verify-ca", "verify-full")
_OVER_TLS = ("valkeys", "rediss")


def store_tls(settings: Settings) -> Iterator[Finding]:
    """Whether a store on another machine could be reached without TLS, or be posed as."""
    for name in ("database_url", "database_listen_url", "database_read_url"):
        url: str | None = getattr(settings, name)
        if url is not None and _ssl_mode(url) not in _VERIFYING:
            yield from _finding("PostgreSQL", name, url, "add sslmode=verify-full to")
    url = settings.valkey_url
    if url is not None and urlsplit(url).scheme.partition("+")[0] not in _OVER_TLS:
        yield from _finding("Valkey", "valkey_url", url, "use valkeys:// or rediss:// in")


def _ssl_mode(url: str) -> str:
    """The mode that the driver uses: that of the URL, or else of its environment variable."""
    asked = parse_qs(read_store_url(url).rest.query).get("sslmode", [])
    return asked[-1] if asked else os.environ.get("PGSSLMODE", "")


def _finding(store: str, name: str, url: str, change: str) -> Iterator[Finding]:
    if far := list(dict.fromkeys(_elsewhere(url))):
        variable = f"PORTICO_{name.upper()}"
        message = f"{', '.join(far)}: {variable} does not require TLS with a verified certificate"
        advice = f"{change} {variable}, unless only trusted machines are in that network"
        yield notice(f"TLS to {store}", message, advice)


def _elsewhere(url: str) -> Iterator[str]:
    """The hosts of a store's URL that are not this machine."""
    given = read_store_url(url)
    for host in given.hosts:
        name = urlsplit(given.naming(host)).hostname or ""
        is_socket = not name or unquote(name).startswith("/")
        if not (is_socket or is_loopback(name)):
            yield name
