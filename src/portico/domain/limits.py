"""Rate limits: plans, and what a plan says about a caller's use of its two windows.

Both windows are fixed: the Unix minute and the UTC day. Counting is `state`'s work; nothing here
keeps a counter or reads a clock.
"""

import msgspec


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
    """Whether one request may pass, and what its response tells of the limits.

    `limit`, `remaining` and `reset` (Unix seconds) describe the window with the fewest requests
    remaining. `retry_after` is in whole seconds: 0 when admitted, else at least 1.
    """

    admitted: bool
    limit: int
    remaining: int
    reset: int
    retry_after: int


def judge(plan: Plan, minute_used: int, day_used: int, now_ms: int, admitted: bool) -> Verdict:  # noqa: FBT001 — runs for every request, and a keyword costs time
    """The verdict on a request at `now_ms` (epoch milliseconds), by the specification, section 8.

    `minute_used` and `day_used` are the counts of the present windows after the request, which is
    in them only when it was admitted. They may exceed the plan, where the plan became smaller.
    """
    remaining = plan.per_minute - minute_used
    day_remaining = plan.per_day - day_used
    now = now_ms // 1000
    # No minute resets after its day, so the day wins a tie; and nothing is below an empty window.
    if day_remaining <= remaining or day_remaining <= 0:
        limit = plan.per_day
        remaining = day_remaining
        reset = now - now % 86400 + 86400
    else:
        limit = plan.per_minute
        reset = now - now % 60 + 60
    if remaining < 0:
        remaining = 0
    # What refuses is an empty window, the later of two: the very one that was chosen.
    return Verdict(admitted, limit, remaining, reset, 0 if admitted else reset - now)
