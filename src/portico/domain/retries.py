"""When a failed attempt is followed by another: the waits of every queue that tries again."""

import msgspec

from portico.domain.times import SECOND


class Retries(msgspec.Struct, frozen=True):
    """`waits` are the seconds before the second attempt and each one after it. `spread` is the
    fraction by which a wait is randomly longer or shorter, so that retries do not coincide."""

    waits: tuple[int, ...]
    spread: float = 0.0

    def next(
        self, now: int, attempts: int, *, chance: float = 0.5, at_least: int = 0
    ) -> int | None:
        """When to try again after so many failed attempts, in epoch milliseconds; None: never.
        `chance` is a random number from 0 to 1; `at_least` is the shortest wait, in seconds."""
        if attempts > len(self.waits):
            return None
        wait = self.waits[attempts - 1] * (1 - self.spread + 2 * self.spread * chance)
        return now + round(SECOND * max(wait, at_least))


DELIVERIES = Retries((5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400), spread=0.2)
MAILS = Retries((2, 15, 120, 600, 1_800, *[3_600] * 23))
"""For a day, which is how long a mail is kept."""
