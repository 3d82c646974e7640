"""How guessing is slowed down: some failures are free, then each attempt must wait (decisions §13).

The counts are kept in `state`; nothing here stores a count or reads a clock.
"""

from collections.abc import Iterable

import msgspec

from portico.core.times import MINUTE


class Backoff(msgspec.Struct, frozen=True):
    """How many failures are free within a window, and the waits between further attempts.

    Times are in milliseconds. The last wait repeats. Without waits, no attempt is allowed until the
    window ends.
    """

    free: int
    window: int
    waits: tuple[int, ...] = ()

    def wait_after(self, count: int) -> int:
        """How long the next attempt must wait after so many failures; 0 if it need not."""
        if count < self.free or not self.waits:
            return 0
        return self.waits[min(count - self.free, len(self.waits) - 1)]


class Failures(msgspec.Struct, frozen=True):
    """How many attempts failed, and when (epoch milliseconds) the count expires.

    It expires a window after the first failure; once there are waits, a window after the last
    wait.
    """

    count: int
    until: int


class GuardEntry(msgspec.Struct, frozen=True):
    """Whether an attempt may be made now, and if not, after how many milliseconds; 0 if that
    depends on the attempts in progress."""

    admitted: bool
    wait: int


ACCOUNT = Backoff(10, 15 * MINUTE, tuple(minutes * MINUTE for minutes in (1, 2, 4, 8, 15)))
"""For attempts at one account from all addresses unknown to it."""

ACQUAINTANCE = ACCOUNT
"""For attempts at one account from one address that has signed in to it."""

ADDRESS = Backoff(30, 15 * MINUTE)
"""For attempts from one address at all accounts. Beyond it, only accounts that know the address
accept a right password from it."""

HELD = MINUTE
"""The longest time that an attempt holds its place, more than any attempt takes. It is needed after
a crash or a late response of the store, when no one reports the attempt's end."""


def remembered(backoff: Backoff, failures: Failures, now: int) -> Failures:
    """The failures that still count at `now`."""
    if failures.until <= now:
        return Failures(0, now + backoff.window)
    return failures


def under_way(begun: Iterable[int], now: int) -> tuple[int, ...]:
    """The attempts that still hold their places, of those that began then (epoch milliseconds)."""
    return tuple(time for time in begun if now - time < HELD)


def places(backoff: Backoff, failures: Failures, now: int) -> tuple[int, int]:
    """How many attempts may be in progress at once, and if none may, the milliseconds until one
    may. `failures` are those of `remembered`."""
    free = backoff.free - failures.count
    if free > 0:
        return free, 0
    ends = failures.until - backoff.window if backoff.waits else failures.until
    return (1, 0) if ends <= now else (0, ends - now)


def failed(backoff: Backoff, failures: Failures, now: int) -> Failures:
    """The count after one more failure. `failures` are those of `remembered`."""
    count = failures.count + 1
    until = now + backoff.window if count == 1 else failures.until
    if wait := backoff.wait_after(count):
        until = now + wait + backoff.window
    return Failures(count, until)
