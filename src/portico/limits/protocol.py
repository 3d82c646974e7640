"""The interface of a store of rate counters and failed attempts. The stores are `memory` and
`valkey`; only `portico.engines` chooses between them."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv6Address, IPv6Network
from typing import Protocol

import msgspec

from portico.core.plans import Plan, Verdict
from portico.limits.guard import Backoff, GuardEntry


class CallerKind(msgspec.Struct, frozen=True, eq=False):
    """A kind of caller. `spelling` is the prefix of its names in stores, and must never change.

    `by_strangers` is whether strangers choose the names, as with addresses. There can be any number
    of such names, so stores bound how many they keep.
    """

    spelling: str
    by_strangers: bool = True


ACCOUNT = CallerKind("user", by_strangers=False)
"""An account, by its id: requests to the API with any of its credentials."""
ACCOUNT_PAGES = CallerKind("pages", by_strangers=False)
"""An account, by its id: requests for pages."""
LIMITED = CallerKind("limit", by_strangers=False)
"""An account under a named limit, by its id and the limit's name, as `17:heavy`."""
CLIENT = CallerKind("client", by_strangers=False)
"""An OAuth client without an owner, by its id."""
MAIL = CallerKind("mail", by_strangers=False)
"""Mails to one account: by its id, the purpose and the hour."""
SIGN_UP = CallerKind("sign-up")
"""Mails to an e-mail without an account, by that e-mail and the hour; also sign-ups from one
address."""
ADDRESS = CallerKind("address")
"""Requests without a valid credential from an IPv4 address or an IPv6 network (/64)."""
NETWORK = CallerKind("network")
"""As `ADDRESS`, from a whole IPv6 network (/48), which is what one customer of a provider has."""
VISITOR = CallerKind("pages-address")
"""Requests for pages from an address, as for `ADDRESS`."""
VISITOR_NETWORK = CallerKind("pages-network")
"""As `VISITOR`, from a whole IPv6 network (/48)."""
GUARDED_ACCOUNT = CallerKind("guard-account")
"""Failed sign-ins to an account, existing or not, from addresses that it does not know."""
GUARDED_ACQUAINTANCE = CallerKind("guard-known")
"""Failed sign-ins to an account from one address that it knows."""
GUARDED_ADDRESS = CallerKind("guard-address")
"""Failed sign-ins from an address, to any account."""
GUARDED_CODE = CallerKind("guard-code")
"""Wrong codes of devices, from an account, by its id, or from an address."""

GUARDS = (GUARDED_ACCOUNT, GUARDED_ACQUAINTANCE, GUARDED_ADDRESS, GUARDED_CODE)

KINDS = {
    kind.spelling: kind
    for kind in (
        *(ACCOUNT, ACCOUNT_PAGES, LIMITED, CLIENT, MAIL, SIGN_UP),
        *(ADDRESS, NETWORK, VISITOR, VISITOR_NETWORK),
        *GUARDS,
    )
}

Caller = tuple[CallerKind, int | str]
"""A kind and a name. A plain tuple, since every request makes one."""


def spelled(caller: Caller) -> str:
    """A caller as text, for stores."""
    return f"{caller[0].spelling}:{caller[1]}"


def read_caller(text: str) -> Caller | None:
    """The inverse of `spelled`; None for a kind that no longer exists."""
    spelling, _, name = text.partition(":")
    kind = KINDS.get(spelling)
    if kind is None:
        return None
    return kind, int(name) if not kind.by_strangers and name.isdecimal() else name


@lru_cache(maxsize=4096)
def network_of(address: str) -> str | None:
    """The IPv6 network (/48) of an address; None for any other address."""
    try:
        return str(IPv6Network((IPv6Address(address), 48), strict=False).network_address)
    except ValueError:
        return None


Guards = Sequence[tuple[Caller, Backoff]]
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

    async def enter(self, guards: Guards, now_ms: int) -> GuardEntry:
        """Admits one attempt that may fail, such as to sign in, or refuses it (`limits.guard`).

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
