"""Rate limits: plans, and the verdict of a plan on a caller's use of its windows.

The windows are fixed: the Unix minute, the UTC day and, where the plan limits it, the UTC calendar
month. The counts are kept in `state`; nothing here stores a count or reads a clock.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from portico.core.errors import RateLimited
from portico.core.text import counted
from portico.core.times import SECOND, month_of, month_start

UNLIMITED = 2**53
"""A limit that no count reaches."""

QUOTA_PERCENTS = (80, 100)
"""How much of a month's limit must be used for `quota.reached`."""


class Plan(msgspec.Struct, frozen=True):
    """How many requests a caller may make in a Unix minute, in a UTC day, and in a UTC calendar
    month (None: any number)."""

    name: str
    per_minute: int
    per_day: int
    per_month: int | None = None


DEFAULT_PLANS: dict[str, Plan] = {
    "free": Plan("free", 30, 1_000),
    "pro": Plan("pro", 100, 10_000),
    "enterprise": Plan("enterprise", 500, 100_000),
}
"""The plans of the specification, section 8, by name."""


class Verdict(msgspec.Struct, frozen=True):
    """Whether one request may pass, and the limits that its response reports.

    `limit`, `remaining` and `reset` (Unix seconds) describe the window with the fewest requests
    remaining. `retry_after` is in whole seconds: 0 when admitted, else at least 1. `month_used` is
    the count of the month of the first caller, 0 where its plan has no such window.
    """

    admitted: bool
    limit: int
    remaining: int
    reset: int
    retry_after: int
    month_used: int = 0


def over_limit(verdict: Verdict) -> RateLimited:
    """The error for a request that was not admitted."""
    return RateLimited(
        f"Too many requests; try again in {counted(verdict.retry_after, 'second')}.",
        retry_after=verdict.retry_after,
    )


def network_plan(plan: Plan) -> Plan:
    """The joint limit of a network of many addresses, each of which is on this plan."""
    return Plan(f"{plan.name} for a network", 10 * plan.per_minute, 10 * plan.per_day)


class Use(NamedTuple):
    """A plan, how much of its current windows is used, and what a request takes from each."""

    plan: Plan
    minute: int
    day: int
    month: int = 0
    cost: int = 1

    def windows(self, now_ms: int) -> Iterator[tuple[int, int, int]]:
        """The limit, the used and the reset (Unix seconds) of each window."""
        now = now_ms // SECOND
        yield self.plan.per_minute, self.minute, now - now % 60 + 60
        yield self.plan.per_day, self.day, now - now % 86400 + 86400
        if self.plan.per_month is not None:
            reset = month_start(month_of(now_ms) + 1) // SECOND
            yield self.plan.per_month, self.month, reset


def is_full(use: Use) -> bool:
    """Whether the request would be refused. What costs nothing never is."""
    plan, cost = use.plan, use.cost
    return cost > 0 and (
        use.minute + cost > plan.per_minute
        or use.day + cost > plan.per_day
        or (plan.per_month is not None and use.month + cost > plan.per_month)
    )


def judge_all(uses: Sequence[Use], now_ms: int, *, admitted: bool) -> Verdict:
    """As `judge`, on a request that counts against several callers, or takes more than one:
    describes the window with the fewest remaining, or of full ones the one that resets last."""
    windows = [
        (max(limit - used, 0), -reset, limit)
        for use in uses
        for limit, used, reset in reversed([*use.windows(now_ms)])  # the longer one wins a tie
        if admitted or (use.cost and used + use.cost > limit)
    ]
    remaining, back, limit = min(windows, key=lambda one: one[:2] if admitted else (one[1], one[0]))
    retry_after = 0 if admitted else -back - now_ms // SECOND
    month_used = uses[0].month if uses[0].plan.per_month is not None else 0
    return Verdict(admitted, limit, remaining, -back, retry_after, month_used)


def judge(plan: Plan, minute_used: int, day_used: int, now_ms: int, admitted: bool) -> Verdict:  # noqa: FBT001 — runs for every request, and a keyword costs time
    """The verdict on a request at `now_ms` (epoch milliseconds), by the specification, section 8.

    `minute_used` and `day_used` are the counts of the current windows after the request, which they
    include only if it was admitted. They may exceed the plan if the plan was made smaller.
    """
    remaining = plan.per_minute - minute_used
    day_remaining = plan.per_day - day_used
    now = now_ms // 1000
    # The day resets no earlier than its minute, so it wins a tie, also if both are exhausted.
    if day_remaining <= remaining or day_remaining <= 0:
        limit = plan.per_day
        remaining = day_remaining
        reset = now - now % 86400 + 86400
    else:
        limit = plan.per_minute
        reset = now - now % 60 + 60
    if remaining < 0:
        remaining = 0
    # If the request is refused, the chosen window is the exhausted one that resets last.
    return Verdict(admitted, limit, remaining, reset, 0 if admitted else reset - now)
