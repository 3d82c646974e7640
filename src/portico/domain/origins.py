"""Origins of web pages, as browsers send them (RFC 6454)."""

import re

from portico.domain.errors import BrokenRule

ANY = "*"
"""Every origin."""

_ORIGIN = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.IGNORECASE | re.ASCII,
)
_USUAL_PORT = {"https": 443, "http": 80}


def origin(text: str) -> str:
    """An origin in the form that browsers send (RFC 6454 §6.2): lower case, no default port.
    Raises `BrokenRule`."""
    match = _ORIGIN.fullmatch(text)
    if not match or not 1 <= int(match["port"] or 1) <= 65535:
        raise BrokenRule(
            "must be * or comma-separated origins (scheme, host and optional port), such as"
            " https://app.example.com,http://localhost:5173"
        )
    scheme, port = match["scheme"].lower(), int(match["port"] or 0)
    shown = f":{port}" if port not in (0, _USUAL_PORT[scheme]) else ""
    return f"{scheme}://{match['host'].lower()}{shown}"
