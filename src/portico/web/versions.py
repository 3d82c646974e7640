"""The headers on every response of a superseded version (specification §9, decisions §9)."""

from datetime import datetime, timedelta
from email.utils import format_datetime

KEPT = timedelta(days=366)
"""How long a superseded version is served at least: twelve months, even in a leap year."""


def superseded(since: datetime, until: datetime, successor: str) -> tuple[tuple[str, str], ...]:
    """The `extra_headers` of a mount whose version has a successor.

    It is deprecated from `since` (RFC 9745) and ends at `until` (RFC 8594), both in UTC;
    `successor` is the base address of the version that replaces it (RFC 5829). Raises ValueError
    if the two are less than `KEPT` apart.
    """
    if until - since < KEPT:
        raise ValueError(f"a superseded version answers for {KEPT.days} days at least")
    return (
        ("deprecation", f"@{int(since.timestamp())}"),
        ("sunset", format_datetime(until, usegmt=True)),
        ("link", f'<{successor}>; rel="successor-version"'),
    )
