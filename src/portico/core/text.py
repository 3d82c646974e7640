"""Rules for text of any kind: its characters, length, sort key, and web URLs."""

import re
from ipaddress import IPv6Address
from unicodedata import normalize

from portico.core.errors import BrokenRule

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
"""The Unicode characters that control the direction of text."""


def counted(count: int, noun: str) -> str:
    """A count with its noun: 1 day, 2 days."""
    return f"{count} {noun}{'s' if count != 1 else ''}"


def text_fault(text: str) -> str | None:
    """Why a string cannot be stored; None if it can."""
    if "\0" in text:
        return "must not contain the NUL character"
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return "must not contain lone surrogates"
    return None


def without_direction_marks(text: str) -> str:
    """Text chosen by a user, without characters that could reverse the text around it."""
    return _TURNS.sub("", text)


def measured(text: str, low: int, high: int) -> str:
    """Accepts text of `low` to `high` code points; anything else raises `BrokenRule`."""
    if low <= len(text) <= high:
        return text
    if low == 0:
        raise BrokenRule(f"must be at most {high} characters long")
    raise BrokenRule(f"must be {low} to {high} characters long")


def trimmed(text: str, low: int, high: int) -> str:
    """The text without Unicode white space at its ends, `low` to `high` code points long. Raises
    `BrokenRule`."""
    return measured(text.strip(), low, high)


def case_key(text: str) -> str:
    """A key that is equal for texts that differ only in case or composition.

    It is made by Unicode NFC and full case folding. The key of a key is itself, and keys sort the
    same by code point and by UTF-8 byte.
    """
    if text.isascii():
        return text.lower()
    return normalize("NFC", normalize("NFC", text).casefold())


def web_url(text: str) -> str:
    """Accepts an absolute http or https URL (RFC 3986), at most 2048 characters, no credentials.

    Raises `BrokenRule`. Characters that a URL cannot contain (spaces, control characters, letters
    outside ASCII) must be percent-encoded, and a host outside ASCII be in IDNA form.
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
