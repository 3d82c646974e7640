"""The open streams of events: how many an account has, and whether its credential still holds."""

from collections.abc import Sequence

import msgspec

from portico.domain.caller import Principal
from portico.domain.errors import RateLimited
from portico.domain.times import SECOND, Clock
from portico.services.feed import Feed, Follower
from portico.storage.database import Database
from portico.storage.live_credentials import holder, parts
from portico.storage.parts import Part
from portico.storage.stores import Stores

MOST = 10
"""Open streams of an account, in all processes and on all hosts."""

CHECK_PERIOD = 0.5
"""Seconds between two looks at whether credentials still hold."""

LEASE_SECONDS = 15
"""After how long the places of a process that was killed are free."""

_RENEW_SECONDS = 5


class _Open(msgspec.Struct):
    """Whose a stream is, and the lease that is its place; `until` is when its credential ends, as
    far as was known under this version."""

    principal: Principal
    place: str
    parts: tuple[Part, ...]
    until: int | None
    version: int | None = None

    def is_over(self, now: int) -> bool:
        """Whether the end has come, as far as is known."""
        return self.until is not None and now >= self.until


class Subscriptions:
    """The streams of one environment that are open in this process."""

    def __init__(
        self, stores: Stores, db: Database, feed: Feed, clock: Clock, process: str
    ) -> None:
        """`process` is a name that no other process has."""
        self._stores = stores
        self._db = db
        self._feed = feed
        self._clock = clock
        self._holder = f"{process} streams"
        self._open: dict[Follower, _Open] = {}
        self._begun = self._ended = 0
        """How many times a stream was to be opened, and how many of them are through with."""
        self._left: set[str] = set()
        self._giving: set[str] = set()
        """Places to give back, and those that are being given back."""
        self._renew_at = 0

    async def open(
        self, principal: Principal, after: int | None, types: Sequence[str] | None
    ) -> Follower:
        """Begins to follow the feed on behalf of a caller; see `Feed.follow`. It ends with the
        caller's credential. Raises `RateLimited` where the account has `MOST` already."""
        await self._give_back()
        self._begun += 1
        try:
            place = await self._take(principal)
            try:
                follower = await self._feed.follow(after, types)
            except BaseException:
                self._left.add(place)
                raise
            self._open[follower] = _Open(principal, place, parts(principal), principal.expires_at)
        finally:
            self._ended += 1
        return follower

    async def _take(self, principal: Principal) -> str:
        now = self._clock()
        # A return whose end is not known yet may be repeated, and would free what is taken now.
        names = (f"stream {principal.user_id} {number}" for number in range(MOST))
        places = [name for name in names if name not in self._left | self._giving]
        until = now + LEASE_SECONDS * SECOND
        place = await self._stores.leases.take_one(places, self._holder, now=now, until=until)
        if place is None:
            raise RateLimited(
                f"This account has {MOST} streams open; close one first.", retry_after=LEASE_SECONDS
            )
        return place

    def close(self, follower: Follower) -> None:
        """Ends a stream that was opened; its place is free within `CHECK_PERIOD`."""
        follower.end()
        self._left.add(self._open.pop(follower).place)

    async def run(self) -> None:
        """Ends what must end, and renews the places of all others. Raises `Unavailable`; what is
        left is done by the next run."""
        await self._give_back()
        if not self._open:
            return
        now = self._clock()
        # Also where the clock was put back: what ends too far ahead holds no place.
        if not 0 < self._renew_at - now <= _RENEW_SECONDS * SECOND:
            await self._renew(now + LEASE_SECONDS * SECOND)
            self._renew_at = now + _RENEW_SECONDS * SECOND
        await self._check(now)

    async def _renew(self, until: int) -> None:
        """Keeps the places; ends the streams whose place another process has got, because this one
        stood still for too long, and gives back those whose commit was lost sight of."""
        opened, known, begun = [*self._open.items()], self._known(), self._begun
        is_opening = begun > self._ended
        kept = await self._stores.leases.renew(self._holder, until)
        for follower, its in opened:
            if its.place not in kept:
                follower.end()
        if not is_opening and begun == self._begun:
            self._left |= kept - known

    def _known(self) -> set[str]:
        """The places that this process knows to have."""
        return {its.place for its in self._open.values()} | self._left | self._giving

    async def _check(self, now: int) -> None:
        """Looks at the credentials that may have changed, and at those that have come to the end
        that was known, which use puts off. Ends the streams of those that do not hold any more, or
        hold for another role."""
        due = self._due(now)
        if not due:
            return
        try:
            holders = {holder(its.principal) for _, its in due}
            standing = await self._stores.live_credentials.standing(holders)
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
                its.version = version  # before the look: what changes meanwhile asks for another
                due.append((follower, its))
        return due

    async def _give_back(self) -> None:
        if self._left:
            left, self._left = self._left, set()
            self._giving |= left
            try:
                await self._stores.leases.release_all(left, self._holder)
            except BaseException:
                self._left |= left
                raise
            finally:
                self._giving -= left
