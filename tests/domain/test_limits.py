"""Plans, and the verdict on a request."""

from hypothesis import example, given
from hypothesis import strategies as st

from portico.core.plans import DEFAULT_PLANS, Plan, Use, Verdict, judge, judge_all

MINUTE_AND_DAY = 60, 86_400
NOON = 1_800_014_400_000  # 2027-01-15T12:00:00Z, epoch milliseconds

plans = st.builds(Plan, st.just("any"), st.integers(1, 10_000), st.integers(1, 10_000))
counts = st.integers(0, 20_000)
moments = st.integers(0, 4_102_444_800_000)


def by_the_book(plan: Plan, used: tuple[int, int], now_ms: int, *, admitted: bool) -> Verdict:
    """The rules of the decisions, section 8, one after the other."""
    windows = [
        (max(0, limit - count), (now_ms // 1000 // seconds + 1) * seconds, limit)
        for limit, count, seconds in zip(
            (plan.per_minute, plan.per_day), used, MINUTE_AND_DAY, strict=True
        )
    ]
    # In the last minute of a day both may end alike: then it is the day's that is told.
    remaining, reset, limit = min(reversed(windows), key=lambda window: (window[0], -window[1]))
    exhausted = [window[1] for window in windows if window[0] == 0]
    wait = 0 if admitted else max(1, -((now_ms - max(exhausted) * 1000) // 1000))
    return Verdict(admitted, limit, remaining, reset, wait)


def test_the_plans_are_those_of_the_specification() -> None:
    numbers = {name: (plan.per_minute, plan.per_day) for name, plan in DEFAULT_PLANS.items()}
    assert numbers == {"free": (30, 1_000), "pro": (100, 10_000), "enterprise": (500, 100_000)}
    assert all(plan.name == name for name, plan in DEFAULT_PLANS.items())


@given(plans, counts, counts, moments)
@example(Plan("any", 5, 5), 5, 5, NOON)
@example(Plan("any", 5, 5), 9, 7, NOON)
@example(Plan("any", 1, 2), 0, 1, NOON + 43_199_000)
def test_a_verdict_follows_the_rules(
    plan: Plan, minute_used: int, day_used: int, now_ms: int
) -> None:
    used = minute_used, day_used
    if minute_used <= plan.per_minute and day_used <= plan.per_day:
        expected = by_the_book(plan, used, now_ms, admitted=True)
        assert judge(plan, *used, now_ms, admitted=True) == expected
    if minute_used >= plan.per_minute or day_used >= plan.per_day:
        expected = by_the_book(plan, used, now_ms, admitted=False)
        assert judge(plan, *used, now_ms, admitted=False) == expected


def test_where_several_refuse_the_wait_is_for_the_last_to_let_it_pass() -> None:
    by_the_day, by_the_minute = Use(Plan("any", 9, 1), 1, 1), Use(Plan("any", 1, 9), 1, 1)
    for uses in ([by_the_day, by_the_minute], [by_the_minute, by_the_day]):
        assert judge_all(uses, NOON, admitted=False) == judge(*by_the_day[:3], NOON, admitted=False)


def test_of_windows_that_are_full_and_reset_together_the_longest_is_told() -> None:
    last_minute = 86_400_000 - 60_000
    for use in (Use(Plan("a", 2, 3), 3, 3), Use(Plan("b", 2, 3), 2, 3)):
        told = judge_all([use], last_minute, admitted=False)
        assert told == judge(*use[:3], last_minute, admitted=False)
        assert told.limit == 3
