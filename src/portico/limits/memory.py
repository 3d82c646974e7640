"""Rate counters in memory, for a server of one process. A job stores what `changes` returns, so
that `restore` can restore the counters after a restart."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from portico.core.plans import Plan, Use, Verdict, is_full, judge, judge_all
from portico.core.times import DAY, MINUTE, month_of_day, month_start
from portico.limits.guard import (
    Backoff,
    Failures,
    GuardEntry,
    failed,
    places,
    remembered,
    under_way,
)
from portico.limits.protocol import GUARDS, Caller, Claims, Guards, read_caller, spelled

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


def _known(guarded: _Guarded, backoff: Backoff, now: int) -> _Guarded:
    """The part of it that still counts at `now`."""
    return _Guarded(remembered(backoff, guarded.failures, now), under_way(guarded.begun, now))


class FailedAttempts:
    """One environment's failures and attempts under way. Nothing awaits between check and count."""

    def __init__(self) -> None:
        self._kept: dict[Caller, _Guarded] = {}
        self._changed: dict[Caller, None] = {}

    def enter(self, guards: Sequence[tuple[Caller, Backoff]], now: int) -> GuardEntry:
        """See `protocol.Limiter.enter`."""
        wait, busy = 0, False
        for caller, backoff in guards:
            known = _known(self._kept.get(caller, _NOBODY), backoff, now)
            free, later = places(backoff, known.failures, now)
            wait = wait or later
            busy = busy or len(known.begun) >= free
        if wait or busy:
            return GuardEntry(admitted=False, wait=wait)
        for caller, backoff in guards:
            guarded = self._keep(caller, now)
            known = _known(guarded, backoff, now)
            guarded.failures, guarded.begun = known.failures, (*known.begun, now)
        return GuardEntry(admitted=True, wait=0)

    def leave(
        self,
        guards: Sequence[tuple[Caller, Backoff]],
        now: int,
        entered: int,
        *,
        has_failed: bool,
    ) -> None:
        """See `protocol.Limiter.leave`."""
        for caller, backoff in guards:
            guarded = self._keep(caller, now)
            known = _known(guarded, backoff, now)
            begun = list(known.begun)
            if entered in begun:
                begun.remove(entered)
            guarded.begun = tuple(begun)
            if has_failed:
                guarded.failures = failed(backoff, known.failures, now)
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
            self._keep(caller, 0).failures = Failures(count, until)  # none is over yet

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


MONTH_ROW = "month:"
"""The beginning of a stored row with the count of a month."""

STRANGERS_KEPT = 100_000
STRANGERS_AT_ONCE = 1_000
"""The most callers of all kinds `by_strangers` to keep, and to return from one `changes`."""


class _Counter:
    """One caller's counts in its current minute and day."""

    __slots__ = ("day", "day_used", "minute", "minute_used")

    def __init__(self, minute: int, minute_used: int, day: int, day_used: int) -> None:
        self.minute = minute
        self.minute_used = minute_used
        self.day = day
        self.day_used = day_used

    def used(self, minute: int, day: int) -> tuple[int, int]:
        """The counts in this minute and on this day."""
        return (
            self.minute_used if minute == self.minute else 0,
            self.day_used if day == self.day else 0,
        )

    def turn_to(self, minute: int, day: int) -> None:
        """Makes these the current minute and day."""
        self.minute_used, self.day_used = self.used(minute, day)
        self.minute, self.day = minute, day


class MemoryLimiter:
    """One environment's rate counters in this process. Nothing awaits between check and count, so
    every `take` is atomic."""

    def __init__(self) -> None:
        self._counters: dict[Caller, _Counter] = {}
        self._strangers: deque[Caller] = deque()
        self._changed: set[Caller] = set()
        self._now_ms = 0
        self._day = 0
        self._attempts = FailedAttempts()
        self._month = 0
        self._months: dict[Caller, int] = {}
        """The counts of the current month, of callers whose plan limits it."""
        self._months_changed: set[Caller] = set()

    async def take(self, caller: Caller, plan: Plan, now_ms: int) -> Verdict:
        """See `protocol.Limiter`. Runs for every request: its budget is 1.5 µs."""
        if plan.per_month is not None:
            return await self.take_all([(caller, plan)], now_ms)
        counter = self._counters.get(caller)
        if counter is None or counter.minute != now_ms // MINUTE:
            counter = self._turn(caller, now_ms)
        minute_used = counter.minute_used
        day_used = counter.day_used
        admitted = minute_used < plan.per_minute and day_used < plan.per_day
        if admitted:
            counter.minute_used = minute_used = minute_used + 1
            counter.day_used = day_used = day_used + 1
            self._changed.add(caller)
        return judge(plan, minute_used, day_used, now_ms, admitted)

    async def take_all(
        self, claims: Claims, now_ms: int, costs: Sequence[int] | None = None
    ) -> Verdict:
        """See `protocol.Limiter`."""
        costs = costs or [1] * len(claims)
        counters = [self._turn(caller, now_ms) for caller, _ in claims]
        uses = [
            Use(plan, counter.minute_used, counter.day_used, self._month_used(caller, plan), cost)
            for (caller, plan), counter, cost in zip(claims, counters, costs, strict=True)
        ]
        admitted = not any(map(is_full, uses))
        if admitted:
            for i, (use, counter) in enumerate(zip(uses, counters, strict=True)):
                caller, plan = claims[i]
                counter.minute_used += use.cost
                counter.day_used += use.cost
                uses[i] = use._replace(minute=counter.minute_used, day=counter.day_used)
                if plan.per_month is not None and use.cost:
                    self._months[caller] = used = use.month + use.cost
                    self._months_changed.add(caller)
                    uses[i] = uses[i]._replace(month=used)
            # One may just have been dropped to make room for another of the callers.
            self._changed.update(caller for caller, _ in claims if caller in self._counters)
        return judge_all(uses, now_ms, admitted=admitted)

    async def used(self, caller: Caller, now_ms: int) -> tuple[int, int]:
        """See `protocol.Limiter`."""
        counter = self._counters.get(caller)
        return counter.used(now_ms // MINUTE, now_ms // DAY) if counter else (0, 0)

    async def enter(self, guards: Guards, now_ms: int) -> GuardEntry:
        """See `protocol.Limiter`."""
        return self._attempts.enter(guards, now_ms)

    async def leave(
        self, guards: Guards, now_ms: int, *, entered_ms: int, has_failed: bool
    ) -> None:
        """See `protocol.Limiter`."""
        self._attempts.leave(guards, now_ms, entered_ms, has_failed=has_failed)

    async def forget(self, callers: Sequence[Caller]) -> None:
        """See `protocol.Limiter`."""
        self._attempts.forget(callers)

    async def probe(self) -> None:
        """Memory always answers."""

    async def close(self) -> None:
        """There is nothing to close."""

    def changes(self) -> list[tuple[str, int, int, int, int]]:
        """The counters that changed since the last call, in no particular order.

        A row is (caller, minute, requests in that minute, day, requests on that day), for the
        caller's last windows; minutes and days are numbered from the Unix epoch. The counts are
        absolute: a later row replaces an earlier one. Of strangers at most 1,000 are returned per
        call, so that a flood does not reach the database; the rest follow with the next calls. The
        same goes for failed attempts, which are returned in the same form.
        """
        strangers = [caller for caller in self._changed if caller[0].by_strangers]
        later = set(strangers[STRANGERS_AT_ONCE:])
        changed, self._changed = self._changed - later, later
        counters = ((caller, self._counters[caller]) for caller in changed)
        return [
            *(
                (
                    spelled(caller),
                    counter.minute,
                    counter.minute_used,
                    counter.day,
                    counter.day_used,
                )
                for caller, counter in counters
            ),
            *self._changed_months(),
            *self._attempts.changes(STRANGERS_AT_ONCE),
        ]

    def _changed_months(self) -> Iterator[tuple[str, int, int, int, int]]:
        """Rows of months: the number of the month stands in the place of the minute, its last day
        in that of the day."""
        last_day = month_start(self._month + 1) // DAY - 1 if self._month else 0
        changed, self._months_changed = self._months_changed, set()
        for caller in changed:
            if caller in self._months:
                text = f"{MONTH_ROW}{spelled(caller)}"
                yield text, self._month, self._months[caller], last_day, 0

    def restore(self, rows: Iterable[tuple[str, int, int, int, int]]) -> None:
        """Restores the last row of each caller, oldest first. Call it before the first `take`."""
        for text, minute, minute_used, day, day_used in rows:
            of_month = text.startswith(MONTH_ROW)
            caller = read_caller(text.removeprefix(MONTH_ROW))
            if caller is None:
                continue
            if of_month:
                self._turn_month(minute)
                if minute == self._month:
                    self._months[caller] = minute_used
            elif caller[0] in GUARDS:
                self._attempts.restore(caller, minute, minute_used)
            else:
                self._add(caller, _Counter(minute, minute_used, day, day_used))

    def _turn(self, caller: Caller, now_ms: int) -> _Counter:
        """The caller's counter, turned to the windows of `now_ms`. A request that has waited while
        others turned a window counts in the present one."""
        self._now_ms = now_ms = max(now_ms, self._now_ms)
        minute, day = now_ms // MINUTE, now_ms // DAY
        if day != self._day:
            self._start_day(day)
        counter = self._counters.get(caller)
        if counter is None:
            return self._add(caller, _Counter(minute, 0, day, 0))
        counter.turn_to(minute, day)
        return counter

    def _turn_month(self, month: int) -> None:
        """Forgets the counts of an earlier month."""
        if month > self._month:
            self._month = month
            self._months.clear()

    def _month_used(self, caller: Caller, plan: Plan) -> int:
        return self._months.get(caller, 0) if plan.per_month is not None else 0

    def _add(self, caller: Caller, counter: _Counter) -> _Counter:
        """Adds a caller's counter. If there are too many strangers, drops the oldest."""
        if caller[0].by_strangers:
            self._strangers.append(caller)
            if len(self._strangers) > STRANGERS_KEPT:
                oldest = self._strangers.popleft()
                del self._counters[oldest]
                self._changed.discard(oldest)
        self._counters[caller] = counter
        return counter

    def _start_day(self, day: int) -> None:
        """Drops the callers without requests on this day, in one sweep a day that takes about
        0.1 µs per caller."""
        self._day = day
        self._turn_month(month_of_day(day))
        self._counters = {
            caller: counter for caller, counter in self._counters.items() if counter.day == day
        }
        self._strangers = deque(caller for caller in self._strangers if caller in self._counters)
        self._changed.intersection_update(self._counters)
