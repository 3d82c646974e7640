"""Rate limits: plans, and the verdict of a plan on a caller's use of its two windows.

Both windows are fixed: the Unix minute and the UTC day. The counts are kept in `state`; nothing
here stores a count or reads a clock.
"""

from collections.abc import Sequence

import msgspec

from portico.domain.errors import RateLimited
from portico.domain.text import counted


class Plan(msgspec.Struct, frozen=True):
    """How many requests a caller may make in a Unix minute and in a UTC day."""

    name: str
    per_minute: int
    per_day: int


DEFAULT_PLANS: dict[str, Plan] = {
    "free": Plan("free", 30, 1_000),
    "pro": Plan("pro", 100, 10_000),
    "enterprise": Plan("enterprise", 500, 100_000),
}
"""The plans of the specification, section 8, by name."""


class Verdict(msgspec.Struct, frozen=True):
    """Whether one request may pass, and the limits that its response reports.

    `limit`, `remaining` and `reset` (Unix seconds) describe the window with the fewest requests
    remaining. `retry_after` is in whole seconds: 0 when admitted, else at least 1.
    """

    admitted: bool
    limit: int
    remaining: int
    reset: int
    retry_after: int


def over_limit(verdict: Verdict) -> RateLimited:
    """The error for a request that was not admitted."""
    return RateLimited(
        f"Too many requests; try again in {counted(verdict.retry_after, 'second')}.",
        retry_after=verdict.retry_after,
    )


def network_plan(plan: Plan) -> Plan:
    """The joint limit of a network of many addresses, each of which is on this plan."""
    return Plan(f"{plan.name} for a network", 10 * plan.per_minute, 10 * plan.per_day)


Use = tuple[Plan, int, int]
"""A plan, and how many requests its current minute and day have."""


def is_full(use: Use) -> bool:
    """Whether one more request would be refused."""
    plan, minute_used, day_used = use
    return minute_used >= plan.per_minute or day_used >= plan.per_day


def judge_all(uses: Sequence[Use], now_ms: int, *, admitted: bool) -> Verdict:
    """As `judge`, on a request that counts against several callers: describes the window with the
    fewest remaining, or if some are full, the one of those that resets last."""
    telling = uses if admitted else [use for use in uses if is_full(use)]
    verdicts = [judge(*use, now_ms, admitted) for use in telling]
    return min(verdicts, key=lambda verdict: (verdict.remaining, -verdict.reset))


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
