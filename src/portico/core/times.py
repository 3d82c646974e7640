"""Times: whole milliseconds since the Unix epoch, UTC."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from portico.core.errors import BrokenRule

Clock = Callable[[], int]
"""Returns the current time. Only `app` chooses a real one."""

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_MOMENT = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:[0-5]\d)", re.ASCII | re.IGNORECASE
)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_START_OF_1 = -62_135_596_800_000
_END_OF_9999 = 253_402_300_800_000


def moment(text: str) -> int:
    """Reads a time in RFC 3339, such as 2027-01-31T08:15:30Z, to the millisecond. Raises
    `BrokenRule`."""
    try:
        if not _MOMENT.fullmatch(text):
            raise ValueError  # noqa: TRY301 - as for a day that is none
        at = (datetime.fromisoformat(text.upper()) - _EPOCH) // timedelta(milliseconds=1)
        if at >= _END_OF_9999:
            raise ValueError  # noqa: TRY301 - as above
    except ValueError:
        raise BrokenRule("must be a time such as 2027-01-31T08:15:30Z") from None
    return at


def storable(text: str) -> int:
    """As `moment`, but not before year 1 in UTC, which no answer could show."""
    at = moment(text)
    if at < _START_OF_1:
        raise BrokenRule("must not be before 0001-01-01T00:00:00Z")
    return at


def day(text: str) -> int:
    """Reads a date such as 2027-01-31 as the beginning of that day in UTC. Raises `BrokenRule`."""
    try:
        if not _DAY.fullmatch(text):
            raise ValueError  # noqa: TRY301 - as for a day that is none
        begins = datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError:
        raise BrokenRule("must be a date such as 2027-01-31") from None
    return (begins - _EPOCH) // timedelta(milliseconds=1)


@lru_cache(maxsize=64)
def month_of_day(number: int) -> int:
    """The UTC calendar month of a day since the epoch, counted since the year 0."""
    day = _EPOCH + timedelta(days=number)
    return day.year * 12 + day.month - 1


def month_of(now_ms: int) -> int:
    """The UTC calendar month of a moment, counted since the year 0."""
    return month_of_day(now_ms // DAY)


@lru_cache(maxsize=64)
def month_start(month: int) -> int:
    """The moment at which a month begins."""
    begins = datetime(month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return (begins - _EPOCH) // timedelta(milliseconds=1)


def date(number: int) -> str:
    """The date of the day with this number since the epoch, such as 2027-01-31."""
    return (_EPOCH + timedelta(days=number)).date().isoformat()


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
