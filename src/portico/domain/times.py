"""Time as Portico counts it: whole milliseconds since the Unix epoch, UTC."""

from collections.abc import Callable

Clock = Callable[[], int]
"""Answers the present time. Only `app` makes a real one."""

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
