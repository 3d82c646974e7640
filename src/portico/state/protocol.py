"""What the service asks of a store of rate counters. The stores are `memory` and `valkey`."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from portico.domain.guard import Entry, Patience
from portico.domain.limits import Plan, Verdict
from portico.state.callers import Caller

Guards = Sequence[tuple[Caller, Patience]]
"""Whose failures an attempt depends on, and what is granted to each."""

Claims = Sequence[tuple[Caller, Plan]]
"""Who answers for a request, and what each may use: an address, and the network that it is in."""


class Limiter(Protocol):
    """One environment's rate counters: a minute's and a day's for every caller."""

    async def take(self, caller: Caller, plan: Plan, now_ms: int) -> Verdict:
        """Counts one request of `caller` at `now_ms` (epoch milliseconds), or refuses it.

        Checking and counting are one step: of N + 1 concurrent requests for N places, one is
        refused. A refused request counts in neither window. Counts belong to the caller, so a
        change of plan keeps them. A clock that is set back finds the window again that it left.
        Raises `errors.Unavailable` when the store does not answer.
        """
        ...

    async def take_all(self, claims: Claims, now_ms: int) -> Verdict:
        """As `take`, of several callers in one step: counts in all of them, or in none."""
        ...

    async def give_back(self, caller: Caller, now_ms: int) -> None:
        """Takes back one request that `take` counted at `now_ms`. Raises `errors.Unavailable` when
        the store does not answer."""
        ...

    async def used(self, caller: Caller, now_ms: int) -> tuple[int, int]:
        """How many requests of `caller` count in the minute and in the day of `now_ms`; counts
        none. Raises `errors.Unavailable` when the store does not answer."""
        ...

    async def enter(self, guards: Guards, now_ms: int) -> Entry:
        """Admits one attempt that may fail, or refuses it (`domain.guard`).

        Checking and holding a place are one step, so that attempts at once are no more than may
        still fail. Whoever was admitted calls `leave` with the same `guards`, and holds no place
        any more after `guard.HELD`. A refused attempt changes nothing, and the wait is that of the
        first guard that has one. Raises `errors.Unavailable` when the store does not answer.
        """
        ...

    async def leave(
        self, guards: Guards, now_ms: int, *, entered_ms: int, has_failed: bool
    ) -> None:
        """Ends an attempt that entered then, and counts it where it failed. Raises
        `errors.Unavailable` when the store does not answer."""
        ...

    async def forget(self, callers: Sequence[Caller]) -> None:
        """Forgets the failures of these. Raises `errors.Unavailable` when the store does not
        answer."""
        ...

    async def probe(self) -> None:
        """Does what `take` does, for nobody. Raises `errors.Unavailable` when the store does not
        answer, or refuses it."""
        ...

    async def close(self) -> None:
        """Closes every connection. What was counted stays in the store."""
        ...


class Volatile(Protocol):
    """A limiter whose counters die with the process, unless someone keeps them."""

    def changes(self) -> list[tuple[str, int, int, int, int]]:
        """The counters that changed since the last call: caller, minute, requests in it, day,
        requests in it."""
        ...

    def restore(self, rows: Iterable[tuple[str, int, int, int, int]]) -> None:
        """Takes up counters that `changes` gave before a restart."""
        ...
