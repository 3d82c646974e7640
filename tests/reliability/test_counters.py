"""What gathers in memory is stored in the end, whatever happens to a batch, and to the clock."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from driving import Api, Caller, settings_for
from operating import eventually
from portico.core.plans import Plan

PER_DAY = 100
PLAN = Plan("daily", 10 * PER_DAY, PER_DAY)
"""Its day always has fewer requests left than its minute: so every answer tells of the day."""

FAILURES = r'^portico_job_failures_total\{environment="live",job="flush"\} (\S+)$'
COUNTED = "SELECT day_count FROM rate_counters WHERE caller = :caller"


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The running application on SQLite, with a plan whose day is short."""
    settings = settings_for(tmp_path, {})
    async with Api(replace(settings, plans={**settings.plans, PLAN.name: PLAN})) as api:
        yield api


async def left(caller: Caller) -> int:
    """How many requests the caller's day has left after this one."""
    answer = await caller.get("/users/me")
    assert answer.status_code == 200
    return int(answer.headers["x-ratelimit-remaining"])


async def stored(api: Api, caller: Caller, count: int) -> None:
    """Waits until so many requests of the caller's are stored."""
    name = {"caller": f"user:{caller.user.id}"}

    async def is_stored() -> bool:
        return await api.live.db.one(COUNTED, name) == (count,)

    await eventually(is_stored, "the last count")


async def test_a_batch_that_fails_in_an_unforeseen_way_is_stored_later(
    api: Api, caplog: pytest.LogCaptureFixture
) -> None:
    caller = await api.caller(plan=PLAN.name)
    async with api.live.db.transaction() as tx:
        await tx.script("ALTER TABLE rate_counters RENAME TO elsewhere")
    assert await left(caller) == PER_DAY - 1

    async def failed_twice() -> bool:
        answer = await api.stranger().get("https://localhost:8443/metrics")
        failures = re.search(FAILURES, answer.text, re.MULTILINE)
        return failures is not None and float(failures[1]) >= 2

    await eventually(failed_twice, "the second failure")
    assert caplog.text.count("the job live flush fails") == 1, "the reason stayed the same"
    async with api.live.db.transaction() as tx:
        await tx.script("ALTER TABLE elsewhere RENAME TO rate_counters")
    assert await left(caller) == PER_DAY - 2
    await stored(api, caller, 2)
    await api.crash()
    await api.start()
    assert await left(caller) == PER_DAY - 3
