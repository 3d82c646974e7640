"""The clock of a process, the refusal to start behind what is stored, and its correction."""

import time

import pytest

from driving import Api
from portico.app import BEHIND_SECONDS, SystemClock
from portico.core.errors import Unavailable
from portico.features.operations.commands.maintenance import correct_times
from portico.features.operations.moments import newest
from signing_in import PASSWORD, Visitor

DAY = 86_400_000


@pytest.mark.parametrize(
    ("system", "shown"),
    [
        ([1_000, 9_000, 10_000], [1_000, 9_000, 10_000]),
        ([9_000, 1_000, 2_000], [9_000, 10_000, 11_000]),
        ([9_000, 1_000, 60_000], [9_000, 10_000, 60_000]),
    ],
    ids=["set forward", "set back", "set back and right again"],
)
def test_clock_of_a_process_never_runs_backwards(
    system: list[int], shown: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, found = SystemClock(), []
    for second, wall in enumerate(system):
        monkeypatch.setattr(time, "time_ns", lambda wall=wall: wall * 1_000_000)
        monkeypatch.setattr(time, "monotonic_ns", lambda at=second: at * 1_000_000_000)
        found.append(clock())
    assert found == shown


async def stored_ahead(api: Api, days: int) -> None:
    """Stores what a server stores, by a clock that is ahead."""
    api.clock.advance(days=days)
    caller = await api.caller(user=await api.account("admin", password=PASSWORD))
    made = await caller.post("/products", json={"name": "Lamp", "category": "x", "price": 1})
    assert made.status_code == 201
    assert (await Visitor(api).log_in(caller.user.email)).status_code == 200
    api.clock.advance(days=-days)


async def test_start_is_refused_behind_the_newest_stored_moment(api: Api) -> None:
    await stored_ahead(api, 0)
    await api.portico.ready()
    api.clock.advance(seconds=-BEHIND_SECONDS)
    await api.portico.ready()
    api.clock.advance(seconds=-1)
    with pytest.raises(Unavailable, match=r"61 s behind the newest stored change .*correct-times"):
        await api.portico.ready()


async def test_correct_times_makes_data_of_a_clock_ahead_usable(api: Api) -> None:
    await stored_ahead(api, 400)
    with pytest.raises(Unavailable, match="correct-times"):
        await api.portico.ready()
    await correct_times(api.portico)
    await api.portico.ready()
    now = api.clock()
    assert await newest(api.live.db) == now
    for table in ("users", "products", "api_keys", "tokens", "events"):
        column = "at" if table == "events" else "created_at"
        row = await api.live.db.one(f"SELECT max({column}) FROM {table}")  # noqa: S608 - names of this file
        assert row is not None
        assert row[0] <= now, table
    expiry = await api.live.db.one("SELECT max(refresh_expires_at) FROM tokens")
    assert expiry is not None
    assert now < expiry[0] <= now + 31 * DAY
