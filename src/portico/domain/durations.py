"""Durations as people write them."""

import re

from portico.domain.errors import BrokenRule
from portico.domain.times import DAY, HOUR, MINUTE, SECOND

MAX_DURATION = 36_500 * DAY

_DURATION = re.compile(r"([0-9]{1,10})([smhd])")
_UNITS = {"s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}


def parse_duration(text: str) -> int:
    """Reads "30s", "15m", "24h" or "90d" as milliseconds, at most 100 years of 365 days.

    Raises `BrokenRule`.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not (milliseconds := int(match[1]) * _UNITS[match[2]]):
        raise BrokenRule("must be a duration, such as 30s, 15m, 24h or 90d")
    if milliseconds > MAX_DURATION:
        raise BrokenRule("must be at most 100 years (36500d)")
    return milliseconds
