"""Text of any kind: the rules for its length, its address form, its order; and how it counts."""

import re
from ipaddress import IPv6Address
from unicodedata import normalize

from portico.domain.errors import BrokenRule

MAX_URL_LENGTH = 2048
MAX_PORT = 65_535

# RFC 3986 with the scheme http or https, a host, and no credentials before it.
_WEB_URL = re.compile(
    r"[Hh][Tt][Tt][Pp][Ss]?://"
    r"(?:[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?|\[(?P<ipv6>[0-9A-Fa-f:.]+)\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?:/(?:[A-Za-z0-9._~:/@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)?"
    r"(?:\?(?:[A-Za-z0-9._~:/?@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)?"
    r"(?:#(?:[A-Za-z0-9._~:/?@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*)?"
)

_TURNS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What says in which direction the text around it runs."""


def counted(count: int, noun: str) -> str:
    """So many of something: 1 day, 2 days."""
    return f"{count} {noun}{'s' if count != 1 else ''}"


def text_fault(text: str) -> str | None:
    """Why a string cannot be stored, if so."""
    if "\0" in text:
        return "must not contain the NUL character"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "must not contain lone surrogates"
    return None


def unturned(text: str) -> str:
    """Text that somebody chose, as it stands among other words: it turns none of them round."""
    return _TURNS.sub("", text)


def measured(text: str, low: int, high: int) -> str:
    """Accept text of `low` to `high` code points; anything else raises `BrokenRule`."""
    if low <= len(text) <= high:
        return text
    if low == 0:
        raise BrokenRule(f"must be at most {high} characters long")
    raise BrokenRule(f"must be {low} to {high} characters long")


def trimmed(text: str, low: int, high: int) -> str:
    """Strip Unicode white space from both ends, then measure: `low` to `high` code points."""
    return measured(text.strip(), low, high)


def case_key(text: str) -> str:
    """Fold text so that what differs in case or composition alone becomes equal.

    Unicode NFC and full case folding. A key is its own key, and keys sort alike by code point and
    by UTF-8 byte.
    """
    if text.isascii():
        return text.lower()
    return normalize("NFC", normalize("NFC", text).casefold())


def web_url(text: str) -> str:
    """Accept an absolute http or https URL (RFC 3986), at most 2048 characters, no credentials.

    Raises `BrokenRule`. What a URL cannot hold (spaces, control characters, letters outside
    ASCII) must come percent-encoded, and a host outside ASCII as its IDNA form.
    """
    measured(text, 0, MAX_URL_LENGTH)
    match = _WEB_URL.fullmatch(text)
    if match is None or not _names_a_host(match["ipv6"]):
        raise BrokenRule("must be an absolute http or https URL without credentials")
    if match["port"] is not None and not 0 < int(match["port"]) <= MAX_PORT:
        raise BrokenRule(f"must have a port from 1 to {MAX_PORT}, or none")
    return text


def _names_a_host(ipv6: str | None) -> bool:
    if ipv6 is None:
        return True
    try:
        IPv6Address(ipv6)
    except ValueError:
        return False
    return True
