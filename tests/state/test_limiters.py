"""What holds for every store of rate counters, in memory and in Valkey or Redis alike."""

import asyncio
from collections.abc import Callable

import pytest

from portico.core.plans import UNLIMITED, Plan, Verdict
from portico.core.times import month_of, month_start
from portico.limits.memory import MemoryLimiter
from portico.limits.protocol import ACCOUNT, ADDRESS, LIMITED, NETWORK, Caller, Claims, Limiter

SECOND, MINUTE, DAY = 1_000, 60_000, 86_400_000
MIDNIGHT = 20_800 * DAY
NOON = MIDNIGHT + DAY // 2

Open = Callable[[str], Limiter]


async def take(limiter: Limiter, times: int, plan: Plan, now_ms: int) -> list[Verdict]:
    return [await limiter.take((ACCOUNT, 1), plan, now_ms) for _ in range(times)]


def admitted(verdicts: list[Verdict]) -> int:
    return sum(verdict.admitted for verdict in verdicts)


async def test_of_n_plus_one_concurrent_requests_exactly_one_is_refused(limiter: Limiter) -> None:
    for plan in (Plan("by minute", 30, 1_000), Plan("by day", 1_000, 60)):
        caller = (ACCOUNT, plan.name)
        places = min(plan.per_minute, plan.per_day)
        verdicts = await asyncio.gather(
            *(limiter.take(caller, plan, NOON) for _ in range(places + 1))
        )
        assert admitted(verdicts) == places
        left = sorted(verdict.remaining for verdict in verdicts if verdict.admitted)
        assert left == list(range(places))


async def test_look_at_the_counts_counts_nothing(limiter: Limiter) -> None:
    assert await limiter.used((ACCOUNT, 1), NOON) == (0, 0)
    await take(limiter, 3, Plan("any", 30, 1_000), NOON)
    for _ in range(2):
        assert await limiter.used((ACCOUNT, 1), NOON) == (3, 3)
    assert await limiter.used((ACCOUNT, 1), NOON + MINUTE) == (0, 3)
    assert await limiter.used((ACCOUNT, 1), NOON + DAY) == (0, 0)
    assert await limiter.used((ACCOUNT, 2), NOON) == (0, 0)
    (verdict,) = await take(limiter, 1, Plan("any", 30, 1_000), NOON)
    assert verdict.remaining == 26


async def test_several_callers_are_counted_together_or_not_at_all(limiter: Limiter) -> None:
    small, large = Plan("address", 3, 100), Plan("network", 5, 6)
    network: Caller = (NETWORK, "2001:db8:1::")

    async def ask(number: int, now_ms: int = NOON) -> Verdict:
        address: Caller = (ADDRESS, f"2001:db8:1:{number}::")
        return await limiter.take_all([(address, small), (network, large)], now_ms)

    assert [(await ask(1)).remaining for _ in range(3)] == [2, 1, 0]
    refused = await ask(1)
    assert (refused.admitted, refused.limit, refused.retry_after) == (False, 3, 60)
    assert await limiter.used(network, NOON) == (3, 3)  # nothing for what was refused
    told = await ask(2)
    assert (told.admitted, told.limit, told.remaining) == (True, 5, 1)
    assert (await ask(2)).remaining == 0
    refused = await ask(2)
    assert (refused.admitted, refused.limit, refused.retry_after) == (False, 5, 60)
    assert await limiter.used((ADDRESS, "2001:db8:1:2::"), NOON) == (2, 2)
    told = await ask(2, NOON + MINUTE)
    assert (told.limit, told.remaining, told.reset) == (6, 0, (MIDNIGHT + DAY) // SECOND)
    refused = await ask(1, NOON + MINUTE)
    assert (refused.limit, refused.retry_after) == (6, (DAY // 2 - MINUTE) // SECOND)


async def test_of_a_network_at_once_as_many_pass_as_may(limiter: Limiter) -> None:
    small, large = Plan("address", 1, 100), Plan("network", 10, 100)
    claims = [
        [((ADDRESS, f"2001:db8:2:{n}::"), small), ((NETWORK, "2001:db8:2::"), large)]
        for n in range(40)
    ]
    verdicts = await asyncio.gather(*(limiter.take_all(claim, NOON) for claim in claims))
    assert admitted(verdicts) == 10


MONTHLY = Plan("monthly", 10**6, 10**6, 20)
HEAVY = Plan("heavy", 3, UNLIMITED)


def judged(
    limit: int, remaining: int, reset: int, retry_after: int = 0, *, month_used: int
) -> Verdict:
    return Verdict(not retry_after, limit, remaining, reset, retry_after, month_used)


async def test_a_month_is_counted_to_its_end_and_begins_anew(limiter: Limiter) -> None:
    end = month_start(month_of(NOON) + 1)
    assert admitted(await take(limiter, 15, MONTHLY, NOON)) == 15
    verdicts = await take(limiter, 6, MONTHLY, end - 1)
    assert [one.admitted for one in verdicts] == [True] * 5 + [False]
    assert verdicts[0] == judged(20, 4, end // SECOND, month_used=16)
    assert verdicts[-1] == judged(20, 0, end // SECOND, 1, month_used=20)
    assert admitted(await take(limiter, 21, MONTHLY, end)) == 20


@pytest.mark.parametrize(("cost", "times"), [(7, 2), (1, 20), (20, 1), (21, 0)])
async def test_a_cost_is_taken_whole_or_not_at_all(limiter: Limiter, cost: int, times: int) -> None:
    claims: Claims = [((ACCOUNT, 1), MONTHLY)]
    verdicts = [await limiter.take_all(claims, NOON, [cost]) for _ in range(times + 1)]
    assert [one.admitted for one in verdicts] == [True] * times + [False]
    assert verdicts[-1].remaining == 20 - cost * times
    free = await limiter.take_all(claims, NOON, [0])
    assert (free.admitted, free.month_used) == (True, cost * times)


async def test_a_named_limit_refuses_and_the_plan_is_not_charged(limiter: Limiter) -> None:
    claims: Claims = [((ACCOUNT, 1), MONTHLY), ((LIMITED, "1:heavy"), HEAVY)]
    verdicts = [await limiter.take_all(claims, NOON, [2, 1]) for _ in range(4)]
    assert [one.admitted for one in verdicts] == [True, True, True, False]
    assert verdicts[-1] == judged(3, 0, NOON // SECOND + 60, 60, month_used=6)
    assert await limiter.used((ACCOUNT, 1), NOON) == (6, 6)
    other: Claims = [((ACCOUNT, 2), MONTHLY), ((LIMITED, "2:heavy"), HEAVY)]
    assert (await limiter.take_all(other, NOON, [2, 1])).admitted


async def test_windows_cost_and_named_limit_are_exact_together(open_limiter: Open) -> None:
    plan, named = Plan("all", 70 * 7, 60 * 7, 50 * 7), Plan("named", 40, UNLIMITED)
    first = open_limiter("live")
    hosts = [first, first if isinstance(first, MemoryLimiter) else open_limiter("live")]
    claims: Claims = [((ACCOUNT, 1), plan), ((LIMITED, "1:named"), named)]
    takes = [hosts[i % 2].take_all(claims, NOON, [7, 1]) for i in range(200)]
    assert admitted(list(await asyncio.gather(*takes))) == 40
    alone = [hosts[i % 2].take_all(claims[:1], NOON, [7]) for i in range(200)]
    assert admitted(list(await asyncio.gather(*alone))) == 10
