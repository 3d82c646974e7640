"""How guessing is slowed: so many failures are free, then each attempt has to wait (decisions §13).

Counting is `state`'s work; nothing here keeps a count or reads a clock.
"""

from collections.abc import Iterable

import msgspec

from portico.domain.times import AHEAD, MINUTE


class Patience(msgspec.Struct, frozen=True):
    """How many failures are free within a window, and the waits between the attempts after them.

    Milliseconds. The last wait holds for all that follow. Where there are no waits, nothing is
    tried until the window ends.
    """

    free: int
    window: int
    waits: tuple[int, ...] = ()

    @property
    def longest(self) -> int:
        """How long a count can be kept after its last failure, by a clock behind that one's."""
        return self.window + (self.waits[-1] if self.waits else 0) + AHEAD


class Failures(msgspec.Struct, frozen=True):
    """How many attempts failed, and when (epoch milliseconds) that is forgotten.

    It is forgotten a window after the first failure; once there are waits, a window after the last
    of them.
    """

    count: int
    until: int


class Entry(msgspec.Struct, frozen=True):
    """Whether an attempt may be made now, and if not, in how many milliseconds one may be. 0: that
    depends on what becomes of the attempts under way."""

    admitted: bool
    wait: int


ACCOUNT = Patience(10, 15 * MINUTE, tuple(minutes * MINUTE for minutes in (1, 2, 4, 8, 15)))
"""For attempts at one account from all addresses that it does not know."""

ACQUAINTANCE = ACCOUNT
"""For attempts at one account from one address that has signed in to it."""

ADDRESS = Patience(30, 15 * MINUTE)
"""For attempts from one address at all accounts. Then those that know it let in what is right, and
nobody else is let in."""

HELD = MINUTE
"""How long an attempt holds its place at most, longer than any takes: after a crash, or where the
store answered too late, nobody tells of its end."""


def remembered(patience: Patience, failures: Failures, now: int) -> Failures:
    """What still counts at `now`. What seems to end too far ahead was counted by a wrong clock."""
    if not 0 < failures.until - now <= patience.longest:
        return Failures(0, now + patience.window)
    return failures


def under_way(begun: Iterable[int], now: int) -> tuple[int, ...]:
    """Of the attempts that began then (epoch milliseconds) those that hold their places still."""
    return tuple(time for time in begun if abs(now - time) < HELD)


def places(patience: Patience, failures: Failures, now: int) -> tuple[int, int]:
    """How many attempts may be under way at once, and where none may, the milliseconds until one
    may. `failures` are those that are remembered."""
    free = patience.free - failures.count
    if free > 0:
        return free, 0
    ends = failures.until - patience.window if patience.waits else failures.until
    return (1, 0) if ends <= now else (0, ends - now)


def failed(patience: Patience, failures: Failures, now: int) -> Failures:
    """The count after one more failure. `failures` are those that are remembered."""
    count = failures.count + 1
    until = now + patience.window if count == 1 else failures.until
    if patience.waits and count >= patience.free:
        wait = patience.waits[min(count - patience.free, len(patience.waits) - 1)]
        until = now + wait + patience.window
    return Failures(count, until)
