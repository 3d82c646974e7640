"""The new events of one environment, read once per process for all followers; and the streams of
callers, limited by account, and ended with their credential."""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import takewhile

import msgspec

from portico.core.caller import Principal
from portico.core.errors import Gone, RateLimited, Unavailable
from portico.core.events import StoredEvent
from portico.core.times import SECOND, Clock
from portico.data.database import Database, Dependency, Signal, Waiter
from portico.data.leases import Leases
from portico.features.access.live_credentials import LiveCredentials, holder, parts
from portico.features.events.storage import EventPage, Events


async def read_events(
    store: Events, after: int, types: Sequence[str] | None, limit: int
) -> EventPage:
    """The oldest events with an id above `after`, of these types or of all; for `after` 0, the
    oldest that are kept. Includes every change that was acknowledged before the call. Raises `Gone`
    if some events after `after` are no longer kept."""
    await store.number()
    page = await store.page(after, types, limit)
    # If no id is skipped, no event is missing, and no further query is needed. Otherwise check
    # after reading, because events may be removed between the statements of a read.
    if page.rows and page.rows[-1].id == after + len(page.rows):
        return page
    if after:
        await require_kept(store, after)
    elif page.rows and page.rows[0].id <= await store.removed_up_to():
        return await read_events(store, after, types, limit)
    return page


async def latest_events(
    store: Events, types: Sequence[str] | None, limit: int, *, before: int | None = None
) -> EventPage:
    """The newest events, or the newest with an id below `before`, of these types or of all, newest
    first. Includes every change that was acknowledged before the call."""
    await store.number()
    return await store.latest(before, types, limit)


async def events_after(
    store: Events, after: int, types: Sequence[str] | None, limit: int
) -> EventPage:
    """The events that directly follow the id `after`, of these types or of all, newest first.
    `has_more` is whether there are newer ones."""
    await store.number()
    page = await store.page(after, types, limit)
    return EventPage(page.rows[::-1], page.has_more)


async def require_kept(store: Events, after: int) -> None:
    """Raises `Gone` if some events with an id above `after` are no longer kept."""
    removed = await store.removed_up_to()
    if after < removed:
        raise Gone(
            f"Events up to {removed} are no longer kept. The oldest that is kept has the id"
            f" {removed + 1}; pass after=0 to begin with it."
        )


LOOK_SECONDS = 5.0
"""How often new events are read although no signal rang."""

PAGE = 100
"""How many events are read at once."""

RECENT = 256
RECENT_BYTES = 1 << 20
"""How many events, and about how many bytes of them, are kept for followers that have not taken
them yet; a follower further behind reads from the database."""


class Feed:
    """Keeps the latest events for its followers. Without followers it reads nothing."""

    def __init__(self, store: Events, signal: Signal) -> None:
        """`signal` rings when there may be new events."""
        self._store = store
        self._news = signal.listener()
        self._signal = Signal()
        self._followers: set[Follower] = set()
        self._recent: deque[StoredEvent] = deque()
        self._bytes = 0
        self._live = False
        self._from = 0
        self._to = 0
        """While `_live`, `_recent` has every event with an id above `_from`, up to `_to`."""

    async def follow(self, after: int | None, types: Sequence[str] | None) -> "Follower":
        """Begins to follow the events with an id above `after`, or from now on if that is None, of
        these types or of all. Raises `Unavailable`."""
        if after is None:
            await self._store.number()
            after = await self._store.last_id()
        follower = Follower(self, self._signal.listener(), after, types)
        self._followers.add(follower)
        self._news.hear()
        return follower

    def leave(self, follower: "Follower") -> None:
        """Removes a follower."""
        self._followers.discard(follower)

    async def run(self) -> None:
        """Waits until there may be new events, then reads all of them. Raises `Unavailable`; the
        next run then reads them."""
        await self._news.wait(LOOK_SECONDS)
        if not self._followers:
            self._live = False
            return
        if not self._live:
            self._begin(await self._store.last_id())
        more = True
        while more:
            page = await self._store.page(self._to, None, PAGE)
            more = page.has_more
            if page.rows:
                self._keep(page.rows)
                self._signal.notify()
                await asyncio.sleep(0)  # followers take this page before the next pushes it out

    async def after(self, after: int, types: Sequence[str] | None) -> tuple[list[StoredEvent], int]:
        """Events with an id above `after`, at most a page, and the id up to which they are
        complete. Raises `Gone` and `Unavailable`."""
        if self._live and after >= self._from:
            new = [*takewhile(lambda event: event.id > after, reversed(self._recent))]
            chosen = [event for event in reversed(new) if types is None or event.type in types]
            return chosen, max(after, self._to)
        known = self._to
        page = await read_events(self._store, after, types, PAGE)
        last = page.rows[-1].id if page.rows else after
        return page.rows, last if page.has_more else max(last, known)

    def _begin(self, last_id: int) -> None:
        self._recent.clear()
        self._bytes = 0
        self._from = self._to = last_id
        self._live = True
        self._signal.notify()

    def _keep(self, rows: Sequence[StoredEvent]) -> None:
        self._recent.extend(rows)
        self._bytes += sum(event.size for event in rows)
        self._to = rows[-1].id
        while len(self._recent) > RECENT or self._bytes > RECENT_BYTES:
            oldest = self._recent.popleft()
            self._bytes -= oldest.size
            self._from = oldest.id


class Follower:
    """One follower of a feed, at its own pace: it gets each event once, in order."""

    def __init__(self, feed: Feed, heard: Waiter, after: int, types: Sequence[str] | None) -> None:
        """`heard` is notified of new events in the feed."""
        self._feed = feed
        self._heard = heard
        self.position = after
        """The id up to which it has got all events."""
        self._types = types
        self.ended = False
        """Whether it gets no further events."""

    async def take(self, seconds: float) -> list[StoredEvent]:
        """The events since the last call, at most a page; waits up to `seconds` for one. Empty if
        none came or the follower has ended. Raises `Gone` if events in between are no longer
        kept."""
        time = asyncio.get_running_loop().time
        over = time() + seconds
        while not self.ended:
            with suppress(Unavailable):  # the signal rings when the database is back
                events, self.position = await self._feed.after(self.position, self._types)
                if events:
                    return events
            if not await self._heard.wait(over - time()):
                break
        return []

    def end(self) -> None:
        """Ends the follower: it gets no further events, and a waiting `take` returns."""
        self.ended = True
        self._feed.leave(self)
        self._heard.hear()


MOST_STREAMS = 10
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
        the caller's credential. Raises `RateLimited` if the account has `MOST_STREAMS` already."""
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
        names = (f"stream {principal.user_id} {number}" for number in range(MOST_STREAMS))
        places = [name for name in names if name not in self._to_release]
        until = now + LEASE_SECONDS * SECOND
        place = await self._leases.take_one(places, self._holder, now=now, until=until)
        if place is None:
            raise RateLimited(
                f"This account has {MOST_STREAMS} streams open; close one first.",
                retry_after=LEASE_SECONDS,
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
