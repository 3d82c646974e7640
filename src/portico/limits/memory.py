"""Rate counters in memory, for a server of one process. A job stores what `changes` returns, so
that `restore` can restore the counters after a restart."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from portico.core.plans import Plan, Use, Verdict, is_full, judge, judge_all
from portico.core.times import DAY, MINUTE, month_of_day, month_start
from portico.limits.guard import HELD, Backoff, GuardEntry
from portico.limits.protocol import GUARDS, Caller, Claims, Guards, read_caller, spelled

KEPT = 100_000
"""The most callers to keep."""

Row = tuple[str, int, int, int, int]
"""A row of `MemoryLimiter.changes`, in this form: caller, when its failures are forgotten (epoch
milliseconds), their number, the day of that time, the number again."""


class _Guarded(NamedTuple):
    """One caller's failures, when their count expires, and when its attempts under way began (all
    in epoch milliseconds).

    The count expires a window after the first failure; once there are waits, a window after the
    last wait.
    """

    failures: int = 0
    until: int = 0
    begun: tuple[int, ...] = ()

    def at(self, backoff: Backoff, now: int) -> "_Guarded":
        """What of it still counts at `now`."""
        begun = tuple(time for time in self.begun if now - time < HELD)
        if self.until <= now:
            return _Guarded(0, now + backoff.window, begun)
        return self._replace(begun=begun)

    def places(self, backoff: Backoff, now: int) -> tuple[int, int]:
        """How many attempts may be in progress at once, and if none may, the milliseconds until one
        may."""
        free = backoff.free - self.failures
        if free > 0:
            return free, 0
        ends = self.until - backoff.window if backoff.waits else self.until
        return (1, 0) if ends <= now else (0, ends - now)

    def failed(self, backoff: Backoff, now: int) -> "_Guarded":
        """The same after one more failure."""
        count = self.failures + 1
        until = now + backoff.window if count == 1 else self.until
        if wait := backoff.wait_after(count):
            until = now + wait + backoff.window
        return self._replace(failures=count, until=until)


_NOBODY = _Guarded()


class FailedAttempts:
    """One environment's failures and attempts under way. Nothing awaits between check and count."""

    def __init__(self) -> None:
        self._kept: dict[Caller, _Guarded] = {}
        self._changed: dict[Caller, None] = {}

    def enter(self, guards: Guards, now: int) -> GuardEntry:
        wait, busy = 0, False
        for caller, backoff in guards:
            known = self._kept.get(caller, _NOBODY).at(backoff, now)
            free, later = known.places(backoff, now)
            wait = wait or later
            busy = busy or len(known.begun) >= free
        if wait or busy:
            return GuardEntry(admitted=False, wait=wait)
        for caller, backoff in guards:
            known = self._of(caller, now).at(backoff, now)
            self._kept[caller] = known._replace(begun=(*known.begun, now))
        return GuardEntry(admitted=True, wait=0)

    def leave(self, guards: Guards, now: int, entered: int, *, has_failed: bool) -> None:
        for caller, backoff in guards:
            before = self._of(caller, now)
            known = before.at(backoff, now)
            begun = list(known.begun)
            if entered in begun:
                begun.remove(entered)
            if has_failed:
                del self._kept[caller]  # so that it stands at the end, to be dropped last
                self._kept[caller] = known.failed(backoff, now)._replace(begun=tuple(begun))
                self._changed[caller] = None
            elif begun or before.failures:
                self._kept[caller] = before._replace(begun=tuple(begun))
            else:
                del self._kept[caller]

    def forget(self, callers: Iterable[Caller]) -> None:
        for caller in callers:
            if caller in self._kept:
                self._kept[caller] = self._kept[caller]._replace(failures=0)
                self._changed[caller] = None

    def changes(self, at_most: int) -> list[Row]:
        """The failures that changed since the last call, in the order of their first change."""
        rows = []
        for caller in list(self._changed)[:at_most]:
            del self._changed[caller]
            failures, until, _ = self._kept.get(caller, _NOBODY)
            rows.append((spelled(caller), until, failures, until // DAY, failures))
        return rows

    def restore(self, caller: Caller, until: int, count: int) -> None:
        """Restores the values of a row of `changes`."""
        if count:
            self._kept[caller] = self._of(caller, 0)._replace(failures=count, until=until)

    def _of(self, caller: Caller, now: int) -> _Guarded:
        """The caller's entry, created if missing. Drops the two oldest entries if they no longer
        count, so that more are dropped than added, or in any case if there are too many."""
        if caller not in self._kept:
            for old in list(islice(self._kept, 2)):
                _, until, begun = self._kept[old]
                is_over = until <= now and all(now - time >= HELD for time in begun)
                if is_over or len(self._kept) >= KEPT:
                    del self._kept[old]
                    self._changed.pop(old, None)
            self._kept[caller] = _NOBODY
        return self._kept[caller]


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
        """Runs for every request: its budget is 1.5 µs."""
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
        counter = self._counters.get(caller)
        return counter.used(now_ms // MINUTE, now_ms // DAY) if counter else (0, 0)

    async def enter(self, guards: Guards, now_ms: int) -> GuardEntry:
        return self._attempts.enter(guards, now_ms)

    async def leave(
        self, guards: Guards, now_ms: int, *, entered_ms: int, has_failed: bool
    ) -> None:
        self._attempts.leave(guards, now_ms, entered_ms, has_failed=has_failed)

    async def forget(self, callers: Sequence[Caller]) -> None:
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
