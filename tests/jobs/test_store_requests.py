"""Requests are stored exactly once, wherever that is cut off."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driving import EXAMPLES, NOON, Api, settings_for
from portico.core.errors import Unavailable
from portico.core.requests import (
    EVERYBODY,
    MOST_ACCOUNTS,
    MOST_FAILED,
    FailedRequest,
    RequestCounts,
    Sums,
)
from portico.core.times import HOUR
from portico.data.database import Database
from portico.data.leases import Leases
from portico.data.migrate import migrate
from portico.data.sqlite.engine import SqliteDatabase
from portico.environment import Environment
from portico.features.operations.requests import DAYS, HOURS, Flushes, RequestFilter, Requests
from portico.features.operations.storing import BATCH, StoreRequests
from portico.limits.memory import MemoryLimiter

HOUR_NOW = NOON // HOUR
ROUTE = "GET /v1/users"
NUMBERS = count(1)


class Faulty(SqliteDatabase):
    """A database whose next transaction fails as it is told to."""

    fault = ""

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """As usual, but for the fault."""
        fault, self.fault = self.fault, ""
        async with super().transaction() as tx:
            yield tx
            if fault == "undone":
                raise Unavailable("The database failed; nothing was changed.")
        if fault == "stored, and nobody heard":
            raise Unavailable("The connection broke.")
        if fault == "stored, and cancelled":
            raise asyncio.CancelledError


def environment(api: Api, database: Database) -> Environment:
    """An environment with nobody else's counts."""
    return Environment(
        "live",
        api.settings,
        addresses=api.live.addresses,
        foreign={},
        db=database,
        limiter=MemoryLimiter(),
        outlet=api.live.outlet,
        change=api.live.change,
        clock=api.clock,
        random=api.portico.random,
        services=(Requests(database), RequestCounts(), Flushes(), Leases(database)),
    )


@pytest.fixture
async def faulty(tmp_path: Path) -> AsyncIterator[tuple[Faulty, Sequence[Environment]]]:
    """One database, and the environments of two processes that share it."""
    (tmp_path / "served").mkdir()
    async with Api(settings_for(tmp_path / "served", {})) as api:
        database = Faulty(tmp_path / "faulty.db", create=True)
        await database.open()
        await migrate(database, api.clock)
        yield database, [environment(api, database) for _ in range(2)]
        await database.close()


def make(env: Environment, user_id: int, status: int = 200) -> None:
    """An account makes a request, which fails from status 400 on."""
    env[RequestCounts].count((user_id, HOUR_NOW, ROUTE, status, 0), 1)
    if status >= 400:
        request_id = f"req_{next(NUMBERS):08}"
        env[RequestCounts].failed(
            FailedRequest(user_id, NOON, ROUTE, status, "CODE", 0, request_id)
        )


async def stored(env: Environment, user_id: int) -> int:
    """How many requests of an account are stored: the same by hours and by days."""
    by_hour, by_day = [await env[Requests].over_time(span, user_id, NOON) for span in (HOURS, DAYS)]
    assert [*by_hour.values()] == [*by_day.values()]
    return sum((*by_hour.values(),), Sums()).requests


@given(
    runs=st.lists(
        st.tuples(
            st.integers(0, 1),
            st.integers(0, 3),
            st.sampled_from(
                ["", "undone", "stored, and nobody heard", "stored, and cancelled", "restarted"]
            ),
        ),
        max_size=20,
    )
)
@EXAMPLES
async def test_each_request_is_added_once_whatever_becomes_of_a_commit(
    faulty: tuple[Faulty, Sequence[Environment]], runs: list[tuple[int, int, str]]
) -> None:
    """Two processes count and store in turns; one that is restarted stores what it has before."""
    database, envs = faulty
    user_id = next(NUMBERS)
    before = await stored(envs[0], EVERYBODY)
    processes = [StoreRequests(env, f"process {next(NUMBERS)}") for env in envs]
    for which, requests, fault in runs:
        for number in range(requests):
            make(envs[which], user_id, (200, 429, 500)[number % 3])
        database.fault = fault
        with suppress(Unavailable, asyncio.CancelledError):
            await processes[which].run()
        database.fault = ""
        if fault == "restarted":
            await processes[which].run()
            processes[which] = StoreRequests(envs[which], f"process {next(NUMBERS)}")
    for process in processes:
        await process.run()
    counted = sum(requests for _, requests, _ in runs)
    assert await stored(envs[0], user_id) == counted
    assert await stored(envs[0], EVERYBODY) == before + counted
    failed = await envs[0][Requests].latest_failed(RequestFilter(user_id))
    assert len(failed) == sum(min(max(requests - 1, 0), 2) for _, requests, _ in runs)


async def test_what_is_stored_in_several_batches_is_added_once_wherever_it_is_cancelled(
    api: Api,
) -> None:
    env = environment(api, api.live.db)
    process = StoreRequests(env, "a process of its own")
    for steps in range(30):
        for user_id in range(1000, 1000 + BATCH + 1):
            make(env, user_id)
        running = asyncio.create_task(process.run())
        for _ in range(steps):
            await asyncio.sleep(0)  # one step further
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        if steps % 3 == 0:  # else several batches are cut off before one is stored
            await process.run()
            assert await stored(env, 1000) == await stored(env, 1000 + BATCH) == steps + 1
    await process.run()
    assert await stored(env, 1000) == await stored(env, 1000 + BATCH) == 30


async def test_a_flood_of_failures_leaves_the_latest_of_each_account(api: Api) -> None:
    env = environment(api, api.live.db)
    process = StoreRequests(env, "another process")
    for user_id in (71, 72, 71):
        first = next(NUMBERS)
        for _ in range(3 * MOST_FAILED):
            make(env, user_id, 429)
        await process.run()
    for user_id, last in ((71, first + 3 * MOST_FAILED), (72, first - 1)):
        failed = await env[Requests].latest_failed(RequestFilter(user_id))
        ids = [f"req_{last - back:08}" for back in range(MOST_FAILED)]
        assert [one.request.request_id for one in failed] == ids
    assert await stored(env, 71) == 6 * MOST_FAILED


def test_failures_that_nobody_stores_stay_within_bounds() -> None:
    counts = RequestCounts()
    for user_id in range(MOST_ACCOUNTS + 10):
        for _ in range(2):
            counts.failed(FailedRequest(user_id, NOON, ROUTE, 429, "RATE_LIMITED", 0, "req_1"))
    _, failed = counts.take()
    assert len(failed) == 2 * MOST_ACCOUNTS
    assert counts.take() == ({}, [])
