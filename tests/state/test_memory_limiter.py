"""What holds for the counters in memory alone: exactness, bounds, and surviving a restart."""

from collections.abc import Coroutine, Iterator
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from portico.core.plans import Plan, Use, Verdict, judge, judge_all
from portico.core.times import month_of
from portico.limits.memory import STRANGERS_AT_ONCE, MemoryLimiter
from portico.limits.protocol import ACCOUNT, ADDRESS, NETWORK, VISITOR, Caller, spelled

MINUTE, DAY = 60_000, 86_400_000
MIDNIGHT = 20_800 * DAY

ONE = Plan("one", 1, 10)
STRANGERS_KEPT = 5_000
WHO: tuple[Caller, ...] = ((ACCOUNT, 1), (ADDRESS, "1"))
T = TypeVar("T")


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few strangers are kept, so that too many come soon."""
    monkeypatch.setattr("portico.limits.memory.STRANGERS_KEPT", STRANGERS_KEPT)


def at_once(call: Coroutine[None, None, T]) -> T:
    """The result of a coroutine that must not wait for anything: what counts must not be
    interrupted between its check and its count."""
    try:
        call.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("it waits")


def take(limiter: MemoryLimiter, caller: Caller, plan: Plan, now_ms: int) -> Verdict:
    return at_once(limiter.take(caller, plan, now_ms))


def changes(limiter: MemoryLimiter) -> dict[str, tuple[int, int, int, int]]:
    """All that there is to be told, in as many calls as that takes, each caller once."""
    told = []
    while rows := limiter.changes():
        told += rows
    by_caller = {row[0]: row[1:] for row in told}
    assert len(by_caller) == len(told)
    return by_caller


def rows_of_addresses(number: int, now_ms: int) -> Iterator[tuple[str, int, int, int, int]]:
    """Rows to restore: so many addresses, the oldest with the lowest number, one request each."""
    return ((f"address:{n}", now_ms // MINUTE, 1, now_ms // DAY, 1) for n in range(number))


def full_of_addresses(now_ms: int) -> MemoryLimiter:
    """A limiter with as many addresses as it keeps, each of which has made one request."""
    limiter = MemoryLimiter()
    limiter.restore(rows_of_addresses(STRANGERS_KEPT, now_ms))
    return limiter


class NeverForgets(RuleBasedStateMachine):
    """The limiter beside a model that keeps the count of every window for ever. Now and then the
    process restarts."""

    def __init__(self) -> None:
        super().__init__()
        self.limiter = MemoryLimiter()
        self.kept: dict[str, tuple[str, int, int, int, int]] = {}
        self.used: dict[tuple[Caller, int, int], int] = {}

    @initialize(now_ms=st.integers(MIDNIGHT, MIDNIGHT + DAY))
    def start(self, now_ms: int) -> None:
        self.now_ms = now_ms

    @rule(
        milliseconds=st.sampled_from([1, 999, 20_000, MINUTE, 7 * MINUTE, DAY, 3 * DAY, 20 * DAY])
    )
    def time_goes_on(self, milliseconds: int) -> None:
        self.now_ms += milliseconds

    @rule(
        caller=st.sampled_from([(ACCOUNT, 1), (ACCOUNT, 2), (ADDRESS, "192.0.2.1")]),
        plan=st.sampled_from(
            [Plan("small", 2, 3), Plan("even", 4, 4), Plan("large", 3, 9), Plan("month", 9, 9, 12)]
        ),
        times=st.integers(1, 4),
    )
    def requests_come(self, caller: Caller, plan: Plan, times: int) -> None:
        windows = [
            (caller, MINUTE, self.now_ms // MINUTE),
            (caller, DAY, self.now_ms // DAY),
            (caller, 31 * DAY, month_of(self.now_ms)),
        ][: 2 if plan.per_month is None else 3]
        limits = (plan.per_minute, plan.per_day, plan.per_month)
        for _ in range(times):
            used = [self.used.get(window, 0) for window in windows]
            admitted = all(n < (limits[i] or 0) for i, n in enumerate(used))
            if admitted:
                used = [n + 1 for n in used]
                self.used.update(zip(windows, used, strict=True))
            expected = judge_all([Use(plan, *used)], self.now_ms, admitted=admitted)
            assert take(self.limiter, caller, plan, self.now_ms) == expected
            if plan.per_month is None:
                assert expected == judge(plan, used[0], used[1], self.now_ms, admitted)

    @rule()
    def changes_are_kept(self) -> None:
        self.kept.update({row[0]: row for row in self.limiter.changes()})

    @rule()
    def the_process_restarts(self) -> None:
        self.changes_are_kept()
        self.limiter = MemoryLimiter()
        self.limiter.restore(self.kept.values())


NeverForgets.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTheCountsAreThoseOfAModelThatNeverForgets = NeverForgets.TestCase


def test_changes_are_told_once_with_absolute_numbers() -> None:
    limiter = MemoryLimiter()
    minute, day = MIDNIGHT // MINUTE, MIDNIGHT // DAY
    take(limiter, (ACCOUNT, 1), Plan("any", 9, 9), MIDNIGHT)
    take(limiter, (ACCOUNT, 1), Plan("any", 9, 9), MIDNIGHT)
    take(limiter, (ACCOUNT, 2), ONE, MIDNIGHT)
    assert sorted(limiter.changes()) == [
        ("user:1", minute, 2, day, 2),
        ("user:2", minute, 1, day, 1),
    ]
    assert take(limiter, (ACCOUNT, 2), ONE, MIDNIGHT).admitted is False
    assert limiter.changes() == []
    take(limiter, (ACCOUNT, 1), Plan("any", 9, 9), MIDNIGHT + MINUTE)
    assert limiter.changes() == [("user:1", minute + 1, 1, day, 3)]


def test_flood_of_addresses_is_told_bit_by_bit_and_holds_up_no_account() -> None:
    limiter = MemoryLimiter()
    flood: list[Caller] = [
        (VISITOR if number % 2 else ADDRESS, str(number))
        for number in range(2 * STRANGERS_AT_ONCE + 1)
    ]
    for caller in [*flood, (ACCOUNT, 1), (ACCOUNT, 2)]:
        take(limiter, caller, ONE, MIDNIGHT)
    first = [row[0] for row in limiter.changes()]
    assert {"user:1", "user:2"} < set(first)
    assert len(first) == STRANGERS_AT_ONCE + 2
    assert set(changes(limiter)) == set(map(spelled, flood)) - set(first)


def test_who_is_forgotten_is_not_told_any_more() -> None:
    limiter = full_of_addresses(MIDNIGHT)
    take(limiter, (ADDRESS, "0"), ONE, MIDNIGHT + MINUTE)
    take(limiter, (ADDRESS, "one more"), ONE, MIDNIGHT)
    assert set(changes(limiter)) == {"address:one more"}
    take(limiter, (ACCOUNT, 1), ONE, MIDNIGHT)
    for day in (1, 2):
        take(limiter, (ACCOUNT, 2), ONE, MIDNIGHT + day * DAY)
    assert set(changes(limiter)) == {"user:2"}


def test_address_forgotten_for_its_network_keeps_no_other_change_from_being_told() -> None:
    limiter = MemoryLimiter()
    limiter.restore([("network:n", MIDNIGHT // MINUTE, 1, MIDNIGHT // DAY, 1)])
    limiter.restore(rows_of_addresses(STRANGERS_KEPT - 1, MIDNIGHT))
    take(limiter, (ADDRESS, "one more"), ONE, MIDNIGHT)  # for which the network is forgotten
    take(limiter, (ACCOUNT, 1), ONE, MIDNIGHT)
    at_once(limiter.take_all([((ADDRESS, "0"), ONE), ((NETWORK, "n"), ONE)], MIDNIGHT + MINUTE))
    assert set(changes(limiter)) == {"address:one more", "user:1", "network:n"}


def test_of_too_many_addresses_the_oldest_is_forgotten_and_no_account() -> None:
    limiter = full_of_addresses(MIDNIGHT)
    take(limiter, (ACCOUNT, 1), ONE, MIDNIGHT)
    assert take(limiter, (ADDRESS, "0"), ONE, MIDNIGHT).admitted is False
    take(limiter, (ADDRESS, "one more"), ONE, MIDNIGHT)
    assert take(limiter, (ADDRESS, "1"), ONE, MIDNIGHT).admitted is False
    assert take(limiter, (ACCOUNT, 1), ONE, MIDNIGHT).admitted is False
    assert take(limiter, (ADDRESS, "0"), ONE, MIDNIGHT).admitted is True


def test_request_that_waited_over_midnight_counts_on_the_new_day() -> None:
    limiter = MemoryLimiter()
    assert take(limiter, (ACCOUNT, 1), ONE, MIDNIGHT - 1).admitted
    assert take(limiter, (ACCOUNT, 2), ONE, MIDNIGHT).admitted
    assert take(limiter, (ACCOUNT, 1), ONE, MIDNIGHT - 1).admitted
    for number in (1, 2):
        assert not take(limiter, (ACCOUNT, number), ONE, MIDNIGHT).admitted
