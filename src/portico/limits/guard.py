"""How guessing is slowed down: some failures are free, then each attempt must wait (decisions §13).

Nothing here stores a count or reads a clock.
"""

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
