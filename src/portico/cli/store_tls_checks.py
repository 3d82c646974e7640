"""The check for `portico doctor` of the networks between this host and its stores."""

import os
import re
from collections.abc import Iterator, Sequence
from urllib.parse import parse_qs, unquote, urlsplit

from portico.cli.findings import Finding, notice
from portico.domain.networks import is_loopback
from portico.domain.store_urls import read_store_url
from portico.settings import Settings

_VERIFYING = ("verify-ca", "verify-full")
_OVER_TLS = ("valkeys", "rediss")


def store_tls(settings: Settings) -> Iterator[Finding]:
    """Whether a store on another machine could be reached without TLS, or be impersonated."""
    for name in ("database_url", "database_listen_url", "database_read_url"):
        url: str | None = getattr(settings, name)
        if url is not None and _driver_option(url, "sslmode", "PGSSLMODE") not in _VERIFYING:
            hosts = read_store_url(url).hosts
            if hosts == [""]:
                hosts = _driver_option(url, "host", "PGHOST").split(",")
            yield from _finding("PostgreSQL", name, hosts, "add sslmode=verify-full to")
    url = settings.valkey_url
    if url is not None and urlsplit(url).scheme.partition("+")[0] not in _OVER_TLS:
        hosts = read_store_url(url).hosts
        yield from _finding("Valkey", "valkey_url", hosts, "use valkeys:// or rediss:// in")


def _driver_option(url: str, name: str, variable: str) -> str:
    """What the driver of PostgreSQL uses: what the URL's query says, or else its environment
    variable."""
    asked = parse_qs(read_store_url(url).rest.query).get(name, [])
    return asked[-1] if asked else os.environ.get(variable, "")


def _finding(store: str, name: str, hosts: Sequence[str], change: str) -> Iterator[Finding]:
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
