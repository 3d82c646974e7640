"""What holds for failed attempts in every store: how many are free, and the waits after them."""

import asyncio
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from valkey.asyncio import Valkey

from portico.limits.guard import ACCOUNT, ADDRESS, Backoff, GuardEntry
from portico.limits.memory import MemoryLimiter
from portico.limits.protocol import GUARDED_ACCOUNT, GUARDED_ADDRESS, Caller, Guards, Limiter
from portico.limits.valkey import ValkeyLimiter
from servers import RedisServer

SECOND, MINUTE, DAY = 1_000, 60_000, 86_400_000
NOON = 20_800 * DAY + DAY // 2

ADMITTED = GuardEntry(admitted=True, wait=0)
KEPT = 3_000
BUSY = GuardEntry(admitted=False, wait=0)


def account(name: str = "ada", timeouts: Backoff = ACCOUNT) -> tuple[Caller, Backoff]:
    return (GUARDED_ACCOUNT, name), timeouts


def address(name: str = "192.0.2.1") -> tuple[Caller, Backoff]:
    return (GUARDED_ADDRESS, name), ADDRESS


async def attempt(
    limiter: Limiter, now: int, *guards: tuple[Caller, Backoff], fails: bool = True
) -> GuardEntry:
    """One attempt from its beginning to its end."""
    entry = await limiter.enter(guards, now)
    if entry.admitted:
        await limiter.leave(guards, now, entered_ms=now, has_failed=fails)
    return entry


async def fail(limiter: Limiter, times: int, now: int, *guards: tuple[Caller, Backoff]) -> None:
    for _ in range(times):
        assert await attempt(limiter, now, *guards) == ADMITTED


async def test_ten_failures_are_free_and_each_after_them_waits_longer(limiter: Limiter) -> None:
    await fail(limiter, 10, NOON, account())
    now = NOON
    for minutes in (1, 2, 4, 8, 15, 15, 15):
        wait = minutes * MINUTE
        assert await attempt(limiter, now, account()) == GuardEntry(admitted=False, wait=wait)
        assert await attempt(limiter, now + wait - 1, account()) == GuardEntry(
            admitted=False, wait=1
        )
        now += wait
        assert await attempt(limiter, now, account()) == ADMITTED


async def test_free_failures_are_forgotten_a_window_after_the_first(limiter: Limiter) -> None:
    await fail(limiter, 1, NOON, account())
    await fail(limiter, 8, NOON + 14 * MINUTE, account())
    await fail(limiter, 10, NOON + 15 * MINUTE, account())
    assert (await attempt(limiter, NOON + 15 * MINUTE, account())).wait == MINUTE


async def test_whoever_must_wait_for_one_uses_nothing_of_the_other(limiter: Limiter) -> None:
    await fail(limiter, 10, NOON, account())
    for _ in range(40):
        assert not (await attempt(limiter, NOON, address(), account())).admitted
    for number in range(30):
        await fail(limiter, 1, NOON, address(), account(f"other {number}"))
    entry = await attempt(limiter, NOON, address(), account())
    assert entry.wait == 15 * MINUTE  # the longer of the two


@pytest.mark.parametrize(("already", "places"), [(0, 10), (7, 3), (9, 1)])
async def test_attempts_at_once_are_no_more_than_may_still_fail(
    limiter: Limiter, already: int, places: int
) -> None:
    await fail(limiter, already, NOON, account())
    guards: Guards = [account()]
    entries = await asyncio.gather(*(limiter.enter(guards, NOON) for _ in range(40)))
    assert entries.count(ADMITTED) == places
    assert entries.count(BUSY) == 40 - places
    await limiter.leave(guards, NOON, entered_ms=NOON, has_failed=False)
    assert await limiter.enter(guards, NOON) == ADMITTED  # what was right makes room
    for _ in range(places):
        await limiter.leave(guards, NOON, entered_ms=NOON, has_failed=True)
    assert await limiter.enter(guards, NOON) == GuardEntry(admitted=False, wait=MINUTE)


async def test_after_a_wait_there_is_one_attempt_at_a_time(limiter: Limiter) -> None:
    await fail(limiter, 10, NOON, account())
    guards: Guards = [account()]
    entries = await asyncio.gather(*(limiter.enter(guards, NOON + MINUTE) for _ in range(9)))
    assert entries.count(ADMITTED) == 1
    assert entries.count(BUSY) == 8


async def test_place_that_nobody_gives_back_ends_after_a_minute(limiter: Limiter) -> None:
    guards: Guards = [address(), account()]
    for _ in range(10):
        assert await limiter.enter(guards, NOON) == ADMITTED  # and never left
    assert await limiter.enter(guards, NOON + MINUTE - 1) == BUSY
    await limiter.leave(guards, NOON + 2 * MINUTE, entered_ms=NOON, has_failed=True)  # far too late
    entries = [await limiter.enter(guards, NOON + 2 * MINUTE) for _ in range(10)]
    assert entries == [ADMITTED] * 9 + [BUSY]


async def test_who_is_forgiven_begins_anew(limiter: Limiter) -> None:
    await fail(limiter, 12, NOON, account(timeouts=Backoff(12, MINUTE, (MINUTE,))))
    await fail(limiter, 10, NOON, account("bob"))
    await limiter.forget([account()[0], account("never seen")[0]])
    assert (await attempt(limiter, NOON, account("bob"))).wait == MINUTE
    await fail(limiter, 10, NOON, account())
    assert (await attempt(limiter, NOON, account())).wait == MINUTE


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["enter", "right", "wrong", "wrong", "wrong", "forget"]),
            st.sampled_from([0, 0, 0, 1, 20_000, MINUTE, 5 * MINUTE, 15 * MINUTE]),
        ),
        max_size=60,
    )
)
def test_both_stores_decide_alike(redis: RedisServer, steps: list[tuple[str, int]]) -> None:
    async def compare() -> None:
        stores: list[Limiter] = [MemoryLimiter(), ValkeyLimiter(redis.url, uuid.uuid4().hex)]
        guards: Guards = [account(timeouts=Backoff(3, 15 * MINUTE, (MINUTE, 4 * MINUTE)))]
        now, entered = NOON, [NOON]
        for step, milliseconds in steps:
            now += milliseconds
            if step == "enter":
                memory, valkey = [await store.enter(guards, now) for store in stores]
                assert memory == valkey
                entered.append(now)
            then = entered[len(entered) // 2]
            for store in stores:
                if step == "forget":
                    await store.forget([guards[0][0]])
                elif step != "enter":
                    await store.leave(guards, now, entered_ms=then, has_failed=step == "wrong")
        for store in stores:
            await store.close()

    asyncio.run(compare())


async def test_failures_and_pardons_survive_a_restart() -> None:
    names = ("ada", "bob", "cyd")
    limiter = MemoryLimiter()
    for later, name in enumerate(names):
        await fail(limiter, 10, NOON + later, account(name))
    stored = {row[0]: row for row in limiter.changes()}
    await limiter.forget([account("bob")[0]])
    assert await attempt(limiter, NOON, account("bob"), fails=False) == ADMITTED
    stored.update({row[0]: row for row in limiter.changes()})
    limiter = MemoryLimiter()
    limiter.restore(stored.values())
    entries = [await attempt(limiter, NOON + SECOND, account(name)) for name in names]
    assert [entry.wait for entry in entries] == [MINUTE - SECOND, 0, MINUTE - SECOND + 2]
    assert [entry.admitted for entry in entries] == [False, True, False]


async def test_made_up_accounts_are_bounded_in_memory_and_in_what_is_stored_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("portico.limits.memory.KEPT", KEPT)
    limiter = MemoryLimiter()
    await fail(limiter, 10, NOON, account("the first"))
    for number in range(KEPT + 2_000):
        await attempt(limiter, NOON, account(str(number)))
    rows = limiter.changes()
    assert len(rows) <= 1_000
    stored = len(rows)
    while rows := limiter.changes():
        assert len(rows) <= 1_000
        stored += len(rows)
    assert stored == KEPT
    assert await attempt(limiter, NOON, account("the first")) == ADMITTED  # the oldest went


async def test_keys_in_the_server_vanish_with_what_they_count(redis: RedisServer) -> None:
    environment = uuid.uuid4().hex
    limiter = ValkeyLimiter(redis.url, environment)
    await fail(limiter, 10, NOON, account(), address())
    await attempt(limiter, NOON, account("right"), fails=False)
    await limiter.enter([account("a crash gives this place never back")], NOON)
    async with Valkey.from_url(redis.url) as client:
        keys = [key async for key in client.scan_iter(f"portico:{{{environment}:*")]
        assert len(keys) == 3
        for key in keys:
            assert 15 * MINUTE < await client.pttl(key) <= 17 * MINUTE
    await limiter.close()
