"""The values of settings: parsers of text.

A parser raises `BrokenRule`, whose message continues the setting's name. It knows no other setting
and opens no file.
"""

import re
from collections.abc import Callable, Collection
from difflib import get_close_matches
from ipaddress import ip_address, ip_network
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from portico.core.errors import BrokenRule
from portico.core.networks import ANY, Network, origin, read_store_url
from portico.core.rules import OneOf
from portico.core.text import trimmed

T = TypeVar("T")

LONGEST_SITE_NAME = 50
"""In characters, so that the subjects of mails stay short."""


def whole(low: int, high: int) -> Callable[[str], int]:
    """A parser of plain decimal numbers from `low` to `high`."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,12}", text) or not low <= int(text) <= high:
            raise BrokenRule(f"must be a whole number from {low} to {high}")
        return int(text)

    return parse


_on_or_off = OneOf(("on", "off"))


def switch(text: str) -> bool:
    """`on` or `off`."""
    return _on_or_off(text) == "on"


def listening_address(text: str) -> str:
    """An IP address in its shortest form. Of names only localhost is accepted: others may have
    several addresses."""
    try:
        return str(ip_address("127.0.0.1" if text == "localhost" else text))
    except ValueError:
        raise BrokenRule("must be an IP address of this host; 0.0.0.0 or :: means all") from None


def networks(text: str) -> tuple[Network, ...]:
    """Comma-separated addresses and CIDR networks; empty text is none."""
    try:
        return _separated(text, ip_network)
    except ValueError:
        raise BrokenRule(
            "must be comma-separated addresses or networks (without bits set beyond the prefix),"
            " such as 192.0.2.7,10.0.0.0/8"
        ) from None


def site_name(text: str) -> str:
    """A name of at most 50 characters on one line. A colon would end it in authenticator apps (Key
    URI format)."""
    name = trimmed(text, 1, LONGEST_SITE_NAME)
    if ":" in name or not name.isprintable():
        raise BrokenRule("must not contain a colon, nor invisible characters such as line ends")
    return name


_BASE = re.compile(
    r"https://(?P<host>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[(?P<ipv6>[0-9a-f:.]+)\])"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>(?:/[a-z0-9._~-]+)*)/*",
    re.IGNORECASE | re.ASCII,
)


def base(text: str) -> str:
    """A base address in its normal form, so that two are the same only if they are equal.

    It has https, a lower-case host, no port 443 and no final slash.
    """
    match = _BASE.fullmatch(text)
    port = int(match["port"] or 443) if match else 0
    if not match or not 1 <= port <= 65535 or {".", ".."} & set(match["path"].split("/")):
        raise BrokenRule(
            "must be an https:// address without user, query or fragment, such as"
            " https://api.example.com/v1"
        )
    host = f"[{listening_address(match['ipv6'])}]" if match["ipv6"] else match["host"].lower()
    return f"https://{host}{'' if port == 443 else f':{port}'}{match['path']}"


def origins(text: str) -> tuple[str, ...]:
    """Comma-separated origins of web pages, or `ANY` alone; empty text is none."""
    return (ANY,) if text.strip() == ANY else _separated(text, origin)


def store_url(*schemes: str, kinds: Collection[str] = ()) -> Callable[[str], str]:
    """A parser of URLs with one of `schemes`, which may be followed by one of `kinds`. The driver
    checks the rest."""
    known = tuple(f"{scheme}{kind}://" for scheme in schemes for kind in ("", *kinds))

    def parse(text: str) -> str:
        if not text.startswith(known):
            first = " or ".join(f"{scheme}://" for scheme in schemes)
            more = f", or with {' or '.join(kinds)} before its colon" if kinds else ""
            raise BrokenRule(f"must start with {first}{more}")
        try:
            given = read_store_url(text)
            for host in given.hosts:
                _ = urlsplit(given.naming(host)).port
            usable = given.user.count("@") < 2  # drivers disagree on which @ ends the password
        except ValueError:
            usable = False
        if not usable:
            raise BrokenRule(
                "must be a URL with a number for its port; write special characters in the"
                " password as %XX"
            )
        return text

    return parse


def url_parts(text: str, *schemes: str) -> SplitResult | None:
    """The parts of a URL with one of these schemes and a host; None if it is none."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in schemes and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def collector(text: str) -> str:
    """The address of an OTLP collector over HTTP, without a final slash. It may contain no secret,
    since it is logged when the collector is unreachable."""
    parts = url_parts(text, "http", "https")
    if parts is None or "@" in parts.netloc or parts.query or parts.fragment:
        raise BrokenRule(
            "must be http:// or https:// with a host and no user, query or fragment, such as"
            " http://127.0.0.1:4318; set credentials in OTEL_EXPORTER_OTLP_HEADERS"
        )
    address = text.rstrip("/")
    if address.endswith(("/v1/traces", "/v1/metrics")):
        raise BrokenRule("must not include /v1/traces or /v1/metrics, which are added to it")
    return address


def secret_keys(text: str) -> tuple[str, ...]:
    """Secrets separated by white space or commas, the current one first."""
    keys = tuple(_secret_key(part) for part in re.split(r"[\s,]+", text.strip()))
    if len(set(keys)) < len(keys):
        raise BrokenRule("must not hold the same secret twice")
    return keys


def _secret_key(text: str) -> str:
    """32 random bytes: as 64 hexadecimal digits, or in the form of older releases."""
    if re.fullmatch(r"[0-9A-Fa-f]{64}", text):
        return text.lower()
    if not re.fullmatch(r"[0-9A-Za-z_-]{43}", text):
        raise BrokenRule("must be 64 hexadecimal digits, such as openssl rand -hex 32 prints")
    return text


def key_prefix(text: str) -> str:
    """The beginning of keys. Braces are not allowed: a cluster hashes only what is in them."""
    if not re.fullmatch(r"[A-Za-z0-9_.:-]{1,64}", text):
        raise BrokenRule("must be 1 to 64 of the characters A-Z, a-z, 0-9, _, ., : and -")
    return text


def mail_server(text: str) -> str:
    """A URL with the scheme smtp or smtps, a host, and optionally a port and a user with a
    password."""
    parts = url_parts(text, "smtp", "smtps")
    if (
        parts is None
        or not re.fullmatch(r"[a-z0-9._:-]+", parts.hostname or "")
        or bool(parts.username) != bool(parts.password)
        or (parts.path.strip("/") or parts.query or parts.fragment)
    ):
        raise BrokenRule(
            "must be smtp:// or smtps:// with a host, such as"
            " smtps://user:password@mail.example.com; write special characters in the password"
            " as %XX"
        )
    return text


def redacted(url: str) -> str:
    """A URL as it may be shown: without its password and query.

    Never fails. It shows less if a badly encoded password makes the parts ambiguous.
    """
    match = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", url)
    scheme = match[0] if match else ""
    address, *query = re.split(r"[?#]", url[len(scheme) :], maxsplit=1)
    if query and "@" in query[0]:
        return f"{scheme}***"
    credentials, at, place = address.rpartition("@")
    user, colon, _ = credentials.partition(":")
    return f"{scheme}{user if colon else ''}{colon}{'***@' if at else ''}{place}" + (
        "?***" if query else ""
    )


def domain(text: str) -> str:
    """A domain of at least two labels, without the leading dot of old cookie domains."""
    name = text.lower().removeprefix(".")
    if not name.isascii():
        raise BrokenRule("must be in its ASCII form, such as xn--mnchen-3ya.de for münchen.de")
    if not re.fullmatch(r"(?:[a-z0-9-]+\.)+[a-z0-9-]*[a-z][a-z0-9-]*", name):
        raise BrokenRule("must be a domain name, such as example.com")
    return name


def domains(text: str) -> tuple[str, ...]:
    """Comma-separated domains of e-mails; empty text is none."""
    return _separated(text, domain)


def _separated(text: str, parse: Callable[[str], T]) -> tuple[T, ...]:
    """The parsed parts of comma-separated text; empty text has none."""
    return tuple(parse(part.strip()) for part in text.split(",")) if text.strip() else ()


def suggestion(name: str, known: Collection[str], prefix: str = "") -> str:
    """The end of a message that `name` is unknown: what to do about it.

    `prefix` is common to all names and does not count for their similarity.
    """
    close = get_close_matches(name.removeprefix(prefix), [n.removeprefix(prefix) for n in known], 1)
    if close:
        return f": did you mean {prefix}{close[0]}?"
    return ": remove it, or see docs/operations/settings.md"
