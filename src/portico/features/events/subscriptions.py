"""The open event streams: limits those of an account, and ends those whose credential has ended."""

import asyncio
from collections.abc import Sequence

import msgspec

from portico.core.caller import Principal
from portico.core.errors import RateLimited
from portico.core.times import SECOND, Clock
from portico.data.database import Database, Dependency
from portico.data.leases import Leases
from portico.features.access.live_credentials import LiveCredentials, holder, parts
from portico.features.events.feed import Feed, Follower

MOST = 10
"""How many open streams an account may have, over all processes and hosts."""

CHECK_PERIOD = 0.5
"""Seconds between two checks of whether credentials are still valid."""

LEASE_SECONDS = 15
"""How many seconds the places of a process that was killed stay taken."""

_RENEW_SECONDS = 5


class _Open(msgspec.Struct):
    """An open stream: its principal, and its place, which is a lease. `until` is when its
    credential expires, as known under this version."""

    principal: Principal
    place: str
    parts: tuple[Dependency, ...]
    until: int | None
    version: int | None = None

    def is_over(self, now: int) -> bool:
        """Whether the credential has expired, as far as is known."""
        return self.until is not None and now >= self.until


class Subscriptions:
    """The streams of one environment that are open in this process."""

    def __init__(
        self,
        leases: Leases,
        credentials: LiveCredentials,
        db: Database,
        feed: Feed,
        clock: Clock,
        process: str,
    ) -> None:
        """`process` is a name that is unique to this process."""
        self._leases = leases
        self._credentials = credentials
        self._db = db
        self._feed = feed
        self._clock = clock
        self._holder = f"{process} streams"
        self._open: dict[Follower, _Open] = {}
        self._to_release: set[str] = set()
        """Places to give back: not taken again before that is done, which would free them."""
        self._releasing = asyncio.Lock()
        self._renew_at = 0

    async def open(
        self, principal: Principal, after: int | None, types: Sequence[str] | None
    ) -> Follower:
        """Begins to follow the feed on behalf of a caller; see `Feed.follow`. The stream ends with
        the caller's credential. Raises `RateLimited` if the account already has `MOST` streams."""
        await self._release()
        place = await self._take(principal)
        try:
            follower = await self._feed.follow(after, types)
        except BaseException:
            self._to_release.add(place)
            raise
        self._open[follower] = _Open(principal, place, parts(principal), principal.expires_at)
        return follower

    async def _take(self, principal: Principal) -> str:
        now = self._clock()
        names = (f"stream {principal.user_id} {number}" for number in range(MOST))
        places = [name for name in names if name not in self._to_release]
        until = now + LEASE_SECONDS * SECOND
        place = await self._leases.take_one(places, self._holder, now=now, until=until)
        if place is None:
            raise RateLimited(
                f"This account has {MOST} streams open; close one first.", retry_after=LEASE_SECONDS
            )
        return place

    def close(self, follower: Follower) -> None:
        """Ends a stream that was opened; its place is free within `CHECK_PERIOD`."""
        follower.end()
        self._to_release.add(self._open.pop(follower).place)

    async def run(self) -> None:
        """Ends streams whose credential has ended, and renews the places of the others. Raises
        `Unavailable`; the next run then does the rest."""
        await self._release()
        if not self._open:
            return
        now = self._clock()
        if now >= self._renew_at:
            await self._renew(now + LEASE_SECONDS * SECOND)
            self._renew_at = now + _RENEW_SECONDS * SECOND
        await self._check(now)

    async def _renew(self, until: int) -> None:
        """Renews the places. Ends the streams whose place another process has taken, because this
        one stalled for too long."""
        opened = [*self._open.items()]
        kept = await self._leases.renew([its.place for _, its in opened], self._holder, until)
        for follower, its in opened:
            if its.place not in kept:
                follower.end()

    async def _check(self, now: int) -> None:
        """Checks the credentials that may have changed, and those whose known expiry has come,
        which use may have extended. Ends the streams of those that are no longer valid or have
        another role."""
        due = self._due(now)
        if not due:
            return
        try:
            holders = {holder(its.principal) for _, its in due}
            standing = await self._credentials.statuses(holders)
        except BaseException:
            for follower, its in due:
                its.version = None
                if its.is_over(now):
                    follower.end()
            raise
        for follower, its in due:
            found = standing.get(holder(its.principal))
            its.until = found.until if found else now
            if found is None or found.role != its.principal.role or its.is_over(now):
                follower.end()

    def _due(self, now: int) -> list[tuple[Follower, _Open]]:
        due = []
        for follower, its in self._open.items():
            version = self._db.version(*its.parts)
            if version != its.version or its.is_over(now):
                its.version = version  # before the check, so that a change meanwhile is noticed
                due.append((follower, its))
        return due

    async def _release(self) -> None:
        async with self._releasing:
            if places := [*self._to_release]:
                await self._leases.release_all(places, self._holder)
                self._to_release.difference_update(places)
