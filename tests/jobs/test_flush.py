"""What is counted is stored exactly once, wherever a flush is cut off."""

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
from portico.contract.events import published
from portico.domain.errors import Unavailable
from portico.domain.networks import Destinations
from portico.domain.times import DAY
from portico.jobs.flush import Flush
from portico.jobs.lease import Lease
from portico.services.credentials import Credentials
from portico.services.environment import Environment
from portico.services.wiring import Engines, Wiring
from portico.state.memory import MemoryLimiter
from portico.storage.database import Database
from portico.storage.migrate import migrate
from portico.storage.sqlite import SqliteDatabase

TODAY = NOON // DAY
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
    wiring = Wiring(
        name="live",
        addresses=api.live.addresses,
        foreign={},
        plans=api.settings.plans,
        max_key_days=None,
        refresh_family_days=api.settings.refresh_family_days,
        clock=api.clock,
        random=api.portico.random,
        tell=published,
        destinations=Destinations(),
        require_second_factor="off",
        events_days=30,
        has_mail_server=False,
        sign_up=False,
        sign_up_domains=(),
        providers=(),
    )
    engines = Engines(
        db=database,
        limiter=MemoryLimiter(),
        passwords=api.portico.passwords,
        vault=api.portico.vault,
        mail_queue=api.portico.mail_queue,
        relying_party=api.portico.relying_party,
    )
    return Environment(wiring, engines)


@pytest.fixture
async def faulty(tmp_path: Path) -> AsyncIterator[tuple[Faulty, Sequence[Environment]]]:
    """One database, and the environments of two processes that share it."""
    (tmp_path / "served").mkdir()
    api = Api(settings_for(tmp_path / "served", {}))
    await api.start()
    database = Faulty(tmp_path / "faulty.db")
    await database.open()
    await migrate(database, api.clock)
    yield database, [environment(api, database) for _ in range(2)]
    await database.close()
    await api.stop()


def flush_of(env: Environment, process: str) -> Flush:
    return Flush(env, Credentials(env), None, process)


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
    processes = [flush_of(env, f"process {next(NUMBERS)}") for env in envs]
    for which, requests, fault in runs:
        for _ in range(requests):
            envs[which].daily_counts.count(user_id, TODAY)
        database.fault = fault
        with suppress(Unavailable, asyncio.CancelledError):
            await processes[which].run()
        database.fault = ""
        if fault == "restarted":
            await processes[which].run()
            processes[which] = flush_of(envs[which], f"process {next(NUMBERS)}")
    for process in processes:
        await process.run()
    counted = sum(requests for _, requests, _ in runs)
    stored = await envs[0].daily_use.of_user(user_id, TODAY)
    assert stored == ({TODAY: counted} if counted else {})


async def test_a_flush_that_is_cancelled_anywhere_counts_each_request_once(api: Api) -> None:
    env = environment(api, api.live.db)
    flush = flush_of(env, "a process of its own")
    for steps in range(60):
        env.daily_counts.count(7, TODAY)
        running = asyncio.create_task(flush.run())
        for _ in range(steps):
            await asyncio.sleep(0)  # one step further
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        if steps % 3 == 0:  # else several batches are cut off before one is stored
            await flush.run()
            assert await env.daily_use.of_user(7, TODAY) == {TODAY: steps + 1}
    await flush.run()
    assert await env.daily_use.of_user(7, TODAY) == {TODAY: 60}


async def test_what_was_counted_while_the_server_stops_is_stored_once(api: Api) -> None:
    caller = await api.caller()
    for stops in range(1, 4):
        await asyncio.gather(*(caller.get("/users/me") for _ in range(10)))
        await api.stop()
        await api.start()
        use = await api.live.daily_use.of_user(caller.user.id, TODAY)
        assert use == {TODAY: 10 * stops}


async def test_a_lease_that_is_stored_and_not_heard_of_is_given_back(
    faulty: tuple[Faulty, Sequence[Environment]],
) -> None:
    database, (one, other) = faulty
    database.fault = "stored, and cancelled"
    with pytest.raises(asyncio.CancelledError):
        async with Lease(one, "mirrors", "one").held():
            pytest.fail("it never came so far")
    async with Lease(other, "mirrors", "another").held() as mine:
        assert mine
