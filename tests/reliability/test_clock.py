"""A clock that is set forward and back under a running server: everything goes on."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import valkey

from busy_machine import leave_time
from driving import Api, refused, settings_for
from portico.domain.limits import Plan

PLAN = Plan("tight", 5, 8)
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
STEPS = [HOUR, -HOUR, -1, 2 * MINUTE, -MINUTE, DAY, -DAY, 400 * DAY, -800 * DAY, 400 * DAY]
LAMP = {"name": "Lamp", "description": "A lamp", "category": "light", "price": 1}


@pytest.fixture(params=["sqlite+memory", "postgres+redis"])
async def api(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Api]:
    """The running application, with a plan that is soon exhausted."""
    environ = {}
    if request.param != "sqlite+memory":
        leave_time(monkeypatch)
        environ = {
            "PORTICO_DATABASE_URL": request.getfixturevalue("postgres").fresh_database(),
            "PORTICO_VALKEY_URL": request.getfixturevalue("redis").url.removesuffix("0") + "9",
        }
        with valkey.Valkey.from_url(environ["PORTICO_VALKEY_URL"]) as client:
            client.flushdb()
    settings = settings_for(tmp_path, environ)
    async with Api(replace(settings, plans={**settings.plans, PLAN.name: PLAN})) as api:
        yield api


async def test_reads_writes_and_rotations_go_on_over_any_step(api: Api) -> None:
    caller = await api.caller()
    for number, step in enumerate(STEPS, start=1):
        api.clock.advance(milliseconds=step)
        made = await caller.post("/products", json=LAMP)
        assert made.status_code == 201
        product = made.json()["data"]
        path = f"/products/{product['id']}"
        changed = await caller.patch(path, json={"price": 2})
        assert changed.status_code == 200
        assert changed.json()["data"]["created_at"] == product["created_at"]
        assert (await caller.get(path)).status_code == 200
        listed = await caller.get("/products", params={"status": "draft"})
        assert listed.json()["pagination"]["total_items"] == number
        spare = await api.caller(user=caller.user)
        assert (await spare.post("/api-keys/rotate")).status_code == 201
        assert (await spare.get("/users/me")).status_code == 200


async def test_a_key_that_the_clock_let_expire_is_good_again_when_the_clock_is(api: Api) -> None:
    caller = await api.caller(expires_at=api.clock() + HOUR)
    for step, status in ((0, 200), (HOUR, 401), (-HOUR, 200), (2 * DAY, 401), (-2 * DAY, 200)):
        api.clock.advance(milliseconds=step)
        assert (await caller.get("/users/me")).status_code == status


async def test_no_step_gives_a_window_twice_or_closes_it_for_longer_than_it_lasts(
    api: Api,
) -> None:
    caller = await api.caller(plan=PLAN.name)
    given: dict[int, int] = {}
    for step in (0, MINUTE, -MINUTE, MINUTE, -MINUTE, DAY, -DAY, 10 * SECOND):
        api.clock.advance(milliseconds=step)
        for _ in range(PLAN.per_minute + 1):
            answer = await caller.get("/users/me")
            if answer.status_code == 200:
                minute = api.clock() // MINUTE
                given[minute] = given.get(minute, 0) + 1
            else:
                refused(answer, 429, "RATE_LIMITED")
                left = DAY - api.clock() % DAY
                assert 0 < int(answer.headers["retry-after"]) <= -(-left // SECOND)
    days: dict[int, int] = {}
    for minute, count in given.items():
        assert count <= PLAN.per_minute
        day = minute * MINUTE // DAY
        days[day] = days.get(day, 0) + count
    assert sorted(days.values()) == [PLAN.per_minute, PLAN.per_day]
