"""Use cases of events."""

from collections.abc import Sequence

from portico.domain.errors import Gone
from portico.storage.events import EventPage, Events


async def read_events(
    store: Events, after: int, types: Sequence[str] | None, limit: int
) -> EventPage:
    """The oldest events with an id above `after`, of these types or of all; for `after` 0, the
    oldest that are kept. Includes every change that was acknowledged before the call. Raises `Gone`
    if some events after `after` are no longer kept."""
    await store.settle()
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
    await store.settle()
    return await store.latest(before, types, limit)


async def events_after(
    store: Events, after: int, types: Sequence[str] | None, limit: int
) -> EventPage:
    """The events that directly follow the id `after`, of these types or of all, newest first.
    `has_more` is whether there are newer ones."""
    await store.settle()
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
