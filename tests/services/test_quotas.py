"""`quota.reached`: once a month for each share of the limit, wherever the requests were counted."""

import asyncio

import pytest

from driving import Api, Caller
from portico.core.plans import Plan
from portico.core.requests import Quotas
from portico.core.times import month_of
from portico.features.people.accounts import tell_quotas

PLAN = Plan("monthly", 1_000, 1_000, 20)
"""As the declared one."""


async def told(admin: Caller) -> list[tuple[int, str, int]]:
    answer = await admin.get("/events", params={"type": "quota.reached"})
    events = [event["data"] for event in answer.json()["data"]]
    return [(one["user_id"], one["window"], one["percent"]) for one in events]


async def test_a_month_tells_80_and_100_percent_once_each_and_the_next_month_again(
    api: Api,
) -> None:
    admin, caller = await api.caller("admin"), await api.caller("viewer", plan="monthly")
    user_id, expected = caller.user.id, []
    for _month in range(2):
        for number in range(1, 24):  # the last three are refused
            await caller.get("/users/me")
            await tell_quotas(api.live)
            if number in (16, 20):
                expected.append((user_id, "month", number * 5))
            assert await told(admin) == expected
        month = month_of(api.clock.now)
        while month_of(api.clock.now) == month:
            api.clock.advance(seconds=86_400)


@pytest.mark.parametrize(("cost", "percents"), [(15, []), (16, [80]), (20, [80, 100])])
async def test_a_cost_tells_every_share_that_it_jumps_over(
    api: Api, cost: int, percents: list[int]
) -> None:
    admin, caller = await api.caller("admin"), await api.caller("viewer", plan="monthly")
    await admin.post("/verify", json={"credential": caller.key, "cost": cost})
    await tell_quotas(api.live)
    assert await told(admin) == [(caller.user.id, "month", percent) for percent in percents]


async def test_processes_that_saw_the_same_quota_tell_it_once(api: Api) -> None:
    admin, user = await api.caller("admin"), await api.account(plan="monthly")
    now = api.clock()
    for used in (16, 20):
        for _process in range(3):
            api.live[Quotas] = Quotas()
            api.live[Quotas].used(user.id, PLAN, used, now)
            await asyncio.gather(tell_quotas(api.live), tell_quotas(api.live))
    assert await told(admin) == [(user.id, "month", 80), (user.id, "month", 100)]


async def test_a_quota_stays_told_when_the_plan_grows_and_a_deleted_account_has_none(
    api: Api,
) -> None:
    admin, user, gone = await api.caller("admin"), await api.account(), await api.account()
    quotas, now = api.live[Quotas], api.clock()
    quotas.used(user.id, PLAN, 16, now)
    quotas.used(gone.id, PLAN, 16, now)
    await admin.delete(f"/users/{gone.id}")
    await tell_quotas(api.live)
    api.live[Quotas] = Quotas()
    api.live[Quotas].used(user.id, Plan("more", 1, 1, 200), 160, now)
    await tell_quotas(api.live)
    assert await told(admin) == [(user.id, "month", 80)]
    assert not api.live[Quotas].waiting
