"""The interface of a store of rate counters and failed attempts. The stores are `memory` and
`valkey`; only `portico.engines` chooses between them."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from portico.domain.guard import Entry, Patience
from portico.domain.limits import Plan, Verdict
from portico.state.callers import Caller

Guards = Sequence[tuple[Caller, Patience]]
"""The callers whose failures decide on an attempt, each with its permitted failures and waits."""

Claims = Sequence[tuple[Caller, Plan]]
"""The callers against which a request counts, each with its limits: such as an address and its
network."""


class Limiter(Protocol):
    """One environment's rate counters, for the minute, the day and, where the plan limits it, the
    month of each caller, and its failed attempts. All methods except `close` raise
    `errors.Unavailable` if the store does not answer."""

    async def take(self, caller: Caller, plan: Plan, now_ms: int) -> Verdict:
        """Counts one request of `caller` at `now_ms` (epoch milliseconds), or refuses it.

        Checking and counting are atomic: if N requests are left, exactly one of N + 1 concurrent
        requests is refused. A refused request counts in neither window. Counts belong to the
        caller, so they survive a change of plan.
        """
        ...

    async def take_all(
        self, claims: Claims, now_ms: int, costs: Sequence[int] | None = None
    ) -> Verdict:
        """As `take`, for several callers at once: counts against all of them, or none. `costs` are
        how much the request takes from each; by default 1. What costs nothing is always admitted.
        """
        ...

    async def used(self, caller: Caller, now_ms: int) -> tuple[int, int]:
        """How many requests of `caller` count in the minute and in the day of `now_ms`."""
        ...

    async def enter(self, guards: Guards, now_ms: int) -> Entry:
        """Admits one attempt that may fail, such as to sign in, or refuses it (`domain.guard`).

        Checking and taking a place are atomic, so no more attempts are under way than may still
        fail. An admitted attempt must `leave` with the same `guards`; otherwise its place expires
        after `guard.HELD`. A refused attempt changes nothing; its wait is that of the first guard
        that has one.
        """
        ...

    async def leave(
        self, guards: Guards, now_ms: int, *, entered_ms: int, has_failed: bool
    ) -> None:
        """Ends the attempt that `enter` admitted at `entered_ms`, and counts it if it failed."""
        ...

    async def forget(self, callers: Sequence[Caller]) -> None:
        """Clears the failures of these callers."""
        ...

    async def probe(self) -> None:
        """Checks that the store can do what `take` needs. Also raises `errors.Unavailable` if it
        refuses."""
        ...

    async def close(self) -> None:
        """Closes every connection. Counts stay in the store."""
        ...


class Volatile(Protocol):
    """A limiter whose counters are lost with the process unless they are stored elsewhere."""

    def changes(self) -> list[tuple[str, int, int, int, int]]:
        """The counters that changed since the last call, as rows of caller, minute, requests in
        that minute, day, requests on that day."""
        ...

    def restore(self, rows: Iterable[tuple[str, int, int, int, int]]) -> None:
        """Restores rows of `changes` from before a restart."""
        ...
