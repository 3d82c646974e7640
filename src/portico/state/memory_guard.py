"""Failed attempts in memory, for a server of one process. See `memory`."""

from collections.abc import Iterable, Sequence
from itertools import islice

from portico.domain.guard import Entry, Failures, Patience, failed, places, remembered, under_way
from portico.domain.times import DAY
from portico.state.callers import Caller, spelled

KEPT = 100_000
"""The most callers to keep."""

Row = tuple[str, int, int, int, int]
"""A row of `MemoryLimiter.changes`, in this form: caller, when its failures are forgotten (epoch
milliseconds), their number, the day of that time, the number again."""


class _Guarded:
    """One caller's failures, and when its attempts under way began (epoch milliseconds)."""

    __slots__ = ("begun", "failures")

    def __init__(self, failures: Failures, begun: tuple[int, ...] = ()) -> None:
        self.failures = failures
        self.begun = begun


_NOBODY = _Guarded(Failures(0, 0))


def _known(guarded: _Guarded, patience: Patience, now: int) -> _Guarded:
    """The part of it that still counts at `now`."""
    return _Guarded(remembered(patience, guarded.failures, now), under_way(guarded.begun, now))


class FailedAttempts:
    """One environment's failures and attempts under way. Nothing awaits between check and count."""

    def __init__(self) -> None:
        self._kept: dict[Caller, _Guarded] = {}
        self._changed: dict[Caller, None] = {}

    def enter(self, guards: Sequence[tuple[Caller, Patience]], now: int) -> Entry:
        """See `protocol.Limiter.enter`."""
        wait, busy = 0, False
        for caller, patience in guards:
            known = _known(self._kept.get(caller, _NOBODY), patience, now)
            free, later = places(patience, known.failures, now)
            wait = wait or later
            busy = busy or len(known.begun) >= free
        if wait or busy:
            return Entry(admitted=False, wait=wait)
        for caller, patience in guards:
            guarded = self._keep(caller, now)
            known = _known(guarded, patience, now)
            guarded.failures, guarded.begun = known.failures, (*known.begun, now)
        return Entry(admitted=True, wait=0)

    def leave(
        self,
        guards: Sequence[tuple[Caller, Patience]],
        now: int,
        entered: int,
        *,
        has_failed: bool,
    ) -> None:
        """See `protocol.Limiter.leave`."""
        for caller, patience in guards:
            guarded = self._keep(caller, now)
            known = _known(guarded, patience, now)
            begun = list(known.begun)
            if entered in begun:
                begun.remove(entered)
            guarded.begun = tuple(begun)
            if has_failed:
                guarded.failures = failed(patience, known.failures, now)
                self._changed[caller] = None
                self._kept[caller] = self._kept.pop(caller)  # moves to the end, to be dropped last
            elif not begun and not guarded.failures.count:
                del self._kept[caller]

    def forget(self, callers: Iterable[Caller]) -> None:
        """See `protocol.Limiter.forget`."""
        for caller in callers:
            if caller in self._kept:
                guarded = self._kept[caller]
                guarded.failures = Failures(0, guarded.failures.until)
                self._changed[caller] = None

    def changes(self, at_most: int) -> list[Row]:
        """The failures that changed since the last call, in the order of their first change."""
        callers = list(self._changed)[:at_most]
        rows = []
        for caller in callers:
            del self._changed[caller]
            failures = self._kept.get(caller, _NOBODY).failures
            day = failures.until // DAY
            rows.append((spelled(caller), failures.until, failures.count, day, failures.count))
        return rows

    def restore(self, caller: Caller, until: int, count: int) -> None:
        """Restores the values of a row of `changes`."""
        if count:
            self._keep(caller, until).failures = Failures(count, until)

    def _keep(self, caller: Caller, now: int) -> _Guarded:
        """The caller's entry, created if missing."""
        guarded = self._kept.get(caller)
        if guarded is None:
            self._make_room(now)
            guarded = self._kept[caller] = _Guarded(_NOBODY.failures)
        return guarded

    def _make_room(self, now: int) -> None:
        """Drops the two oldest entries if they no longer count, so that more are dropped than
        added. If there are too many, drops the oldest in any case."""
        for caller in list(islice(self._kept, 2)):
            oldest = self._kept[caller]
            is_over = oldest.failures.until <= now and not under_way(oldest.begun, now)
            if is_over or len(self._kept) >= KEPT:
                del self._kept[caller]
                self._changed.pop(caller, None)
