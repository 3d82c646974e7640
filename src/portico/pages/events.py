"""What has happened, for whoever may see it: the newest first."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from portico.domain.caller import Principal
from portico.domain.published import EVENT_TYPES, StoredEvent, covered_by, event_types
from portico.http.messages import Reply
from portico.pages.event_types import by_noun
from portico.pages.site import PageRoute, Visit
from portico.services.events import latest_events
from portico.storage.events import EventPage

_PER_PAGE = 15
_SHOWN = 4_000
"""Characters of an event's JSON that are shown: a product may have hundreds of thousands."""

_COUNTS = ("inserted", "updated", "users", "products")


class Line(NamedTuple):
    """An event as a line: `name` is that of the resource, or what bulk work counted."""

    id: int
    type: str
    at: int
    name: str
    data: str
    previous: str | None


def line(event: StoredEvent) -> Line:
    """An event as a line, its JSON to be read by people."""
    return Line(
        event.id,
        event.type,
        event.at,
        _name(msgspec.json.decode(event.data)),
        _indented(event.data),
        None if event.previous is None else _indented(event.previous),
    )


def visible(caller: Principal) -> Sequence[str] | None:
    """The types of events that a caller may see, which are some for every role; None for all."""
    covered = covered_by(caller.scopes)
    return None if covered == EVENT_TYPES else covered


async def show(visit: Visit) -> Reply:
    """GET /events: the newest, or those older than `before`; none of a type that is not offered."""
    types = visible(visit.request.caller)
    groups = by_noun(EVENT_TYPES if types is None else types)
    chosen, before = visit.sent("type"), visit.sent_number("before")
    unknown = bool(chosen) and not any(chosen in names for _, names in groups)
    page = EventPage([], has_more=False)
    if not unknown:
        page = await latest_events(
            visit.env, event_types(chosen) if chosen else types, _PER_PAGE, before=before
        )
    older = urlencode({"type": chosen, "before": page.rows[-1].id}) if page.has_more else ""
    return visit.page(
        "events.html",
        "Events",
        events=[line(event) for event in page.rows],
        chosen=chosen,
        unknown=unknown,
        groups=groups,
        before=before,
        newest=urlencode({"type": chosen}),
        older=older,
    )


def _name(data: dict[str, Any]) -> str:
    counts = (f"{data[count]:,} {count}" for count in _COUNTS if count in data)
    return data["name"] if "name" in data else ", ".join(counts)


def _indented(text: str) -> str:
    whole = msgspec.json.format(text, indent=2)
    rest = len(whole) - _SHOWN
    return whole if rest <= 0 else f"{whole[:_SHOWN]}\n… {rest:,} more characters"


PAGES = (PageRoute("GET", "/events", show),)
