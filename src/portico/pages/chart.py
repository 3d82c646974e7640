"""Bars of a chart, as shapes of a picture."""

from collections.abc import Mapping
from typing import NamedTuple

from portico.domain.times import DAY

WIDTH, HEIGHT = 900, 160
DAYS = 30

_STEP = WIDTH // DAYS
_GAP = 8


class Bar(NamedTuple):
    """One day: its beginning in epoch milliseconds, its requests, and where its bar is."""

    at: int
    requests: int
    x: int
    y: int
    width: int
    height: int


class Chart(NamedTuple):
    """The last 30 days, the oldest first."""

    bars: list[Bar]
    width: int = WIDTH
    height: int = HEIGHT


def chart(use: Mapping[int, int], today: int) -> Chart:
    """The chart of requests by UTC day (days since the epoch). The tallest bar is as high as the
    picture, and no day with a request is left without a trace."""
    most = max(use.values(), default=0)
    bars = []
    for number in range(DAYS):
        day = today - DAYS + 1 + number
        requests = use.get(day, 0)
        height = max(2, requests * HEIGHT // most) if requests else 0
        x = number * _STEP + _GAP // 2
        bars.append(Bar(day * DAY, requests, x, HEIGHT - height, _STEP - _GAP, height))
    return Chart(bars)
