"""Use cases of events."""

from collections.abc import Sequence

from portico.domain.errors import Gone
from portico.storage.events import EventPage
from portico.storage.stores import Stores


async def read_events(
    stores: Stores, after: int, types: Sequence[str] | None, limit: int
) -> EventPage:
    """The oldest events after the one with the id `after`, or after 0 the oldest that are kept, of
    these types or of all: with every change that was acknowledged before. Raises `Gone` where some
    in between are no longer kept."""
    await stores.events.settle()
    page = await stores.events.page(after, types, limit)
    # Ids without a gap tell without a look that none is missing; it comes after the reading, which
    # takes several statements: between them events may be removed.
    if page.rows and page.rows[-1].id == after + len(page.rows):
        return page
    if after:
        await require_kept(stores, after)
    elif page.rows and page.rows[0].id <= await stores.events.removed_up_to():
        return await read_events(stores, after, types, limit)
    return page


async def latest_events(
    stores: Stores, types: Sequence[str] | None, limit: int, *, before: int | None = None
) -> EventPage:
    """The newest events, or those with an id below `before`, of these types or of all: with every
    change that was acknowledged before, the newest first."""
    await stores.events.settle()
    return await stores.events.latest(before, types, limit)


async def events_after(
    stores: Stores, after: int, types: Sequence[str] | None, limit: int
) -> EventPage:
    """The events that came next after the one with the id `after`, of these types or of all, the
    newest first; whether there are more tells of newer ones."""
    await stores.events.settle()
    page = await stores.events.page(after, types, limit)
    return EventPage(page.rows[::-1], page.has_more)


async def require_kept(stores: Stores, after: int) -> None:
    """Raises `Gone` where events after the one with this id are no longer kept."""
    removed = await stores.events.removed_up_to()
    if after < removed:
        raise Gone(
            f"Events up to {removed} are no longer kept. The oldest that is kept has the id"
            f" {removed + 1}; pass after=0 to begin with it."
        )
