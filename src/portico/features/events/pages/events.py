"""Events that the user may see, the newest first."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from portico.core.caller import Principal
from portico.core.errors import NotFound
from portico.core.events import EVENT_TYPES, StoredEvent, covered_by, event_types
from portico.core.resources import RESOURCES
from portico.environment import Environment
from portico.features.access.storage import ApiKeys, Clients
from portico.features.catalogue.storage import Products
from portico.features.events.feed import events_after, latest_events
from portico.features.events.storage import Events, Webhooks
from portico.features.people.storage import Users
from portico.web.messages import Reply
from portico.web.pages.site import PageRoute, Visit

_PER_PAGE = 15
_SHOWN = 4_000
"""The most characters of an event's JSON to show: a product's may have hundreds of thousands."""

_COUNTS = ("inserted", "updated", "users", "products")


Named = tuple[str, str]
"""A kind and an id, as `Entry.target` and `Entry.target_id`."""


class Line(NamedTuple):
    """An event as a line of a list. `name` is the resource's name or id, or the counts of a bulk
    change; `page` is the path of the resource's page, empty if it has none."""

    id: int
    type: str
    at: int
    name: str
    page: str


class _Walked(NamedTuple):
    """The events of a page, and whether there are newer and older ones."""

    rows: Sequence[StoredEvent] = ()
    newer: bool = False
    older: bool = False


async def lines(visit: Visit, events: Iterable[StoredEvent]) -> list[Line]:
    """Events as lines."""
    decoded = [(event, msgspec.json.decode(event.data)) for event in events]
    pages = await pages_of(visit, (_named(event, data) for event, data in decoded))
    return [_line(event, data, pages.get(_named(event, data), "")) for event, data in decoded]


def _named(event: StoredEvent, data: dict[str, Any]) -> Named:
    return event.type.partition(".")[0], str(data.get("id", ""))


def _line(event: StoredEvent, data: dict[str, Any], page: str) -> Line:
    return Line(event.id, event.type, event.at, _name(data), page)


def visible(caller: Principal) -> Sequence[str] | None:
    """The event types that a caller may see, at least some for every role; None for all."""
    covered = covered_by(caller.scopes)
    return None if len(covered) == len(EVENT_TYPES) else covered


async def show(visit: Visit) -> Reply:
    """GET /events: the newest, or those older than `before` or newer than `after`; none for a type
    that is not offered."""
    types = visible(visit.request.caller)
    groups = by_noun(EVENT_TYPES if types is None else types)
    chosen = visit.sent("type")
    unknown = bool(chosen) and not any(chosen in names for _, names in groups)
    page = _Walked()
    if not unknown:
        page = await _walked(visit, event_types(chosen) if chosen else types)
    rows = page.rows
    return visit.page(
        "events.html",
        "Events",
        events=await lines(visit, rows),
        chosen=chosen,
        unknown=unknown,
        groups=groups,
        begun=page.newer,
        newest=urlencode({"type": chosen}),
        newer=urlencode({"type": chosen, "after": rows[0].id}) if page.newer and rows else "",
        older=urlencode({"type": chosen, "before": rows[-1].id}) if page.older else "",
    )


async def _walked(visit: Visit, types: Sequence[str] | None) -> _Walked:
    before, after = visit.sent_number("before"), visit.sent_number("after")
    if after is not None:
        page = await events_after(visit.env[Events], after, types, _PER_PAGE)
        if page.has_more:
            return _Walked(page.rows, newer=True, older=True)
        before = None
    page = await latest_events(visit.env[Events], types, _PER_PAGE, before=before)
    return _Walked(page.rows, newer=before is not None, older=page.has_more)


def _name(data: dict[str, Any]) -> str:
    counts = (f"{data[count]:,} {count}" for count in _COUNTS if count in data)
    return str(data.get("name") or ", ".join(counts) or data.get("id", ""))


def _indented(text: str) -> str:
    whole = msgspec.json.format(text, indent=2)
    rest = len(whole) - _SHOWN
    if rest <= 0:
        return whole
    return f"{whole[:_SHOWN]}\n… {rest:,} more character{'s' if rest != 1 else ''}"


async def show_one(visit: Visit) -> Reply:
    """GET /events/{id}."""
    event_id, types = visit.request.resource_id, visible(visit.request.caller)
    event = (await visit.env[Events].some([event_id])).get(event_id)
    if event is None or (types is not None and event.type not in types):
        raise NotFound(f"There is no event {event_id}, or it is no longer kept.")
    [line] = await lines(visit, [event])
    return visit.page(
        "event.html",
        event.type,
        event=line,
        data=_indented(event.data),
        previous=None if event.previous is None else _indented(event.previous),
    )


async def pages_of(visit: Visit, named: Iterable[Named]) -> Mapping[Named, str]:
    """The path of each named resource's page, if it has one and the caller may see it."""
    asked: dict[str, set[str]] = {}
    for kind, one in named:
        asked.setdefault(kind, set()).add(one)
    found: dict[Named, str] = {}
    for kind in asked.keys() & _PAGES_OF.keys():
        scope, paths_of = _PAGES_OF[kind]
        if scope in visit.request.caller.scopes:
            paths = await paths_of(visit.env, asked[kind])
            found |= {(kind, one): visit.site.base + path for one, path in paths.items()}
    return found


Paths = dict[str, str]
"""Paths of pages that exist, by id."""


async def _users(env: Environment, ids: set[str]) -> Paths:
    known = await env[Users].statuses([int(one) for one in ids])
    return {str(one): f"/users/{one}" for one in known}


async def _products(env: Environment, ids: set[str]) -> Paths:
    known = await env[Products].several({int(one) for one in ids})
    return {str(one): f"/products/{one}" for one in known}


async def _keys(env: Environment, ids: set[str]) -> Paths:
    known = [await env[ApiKeys].get(int(one)) for one in ids]
    return {str(one.id): f"/keys/{one.id}" for one in known if one}


async def _clients(env: Environment, ids: set[str]) -> Paths:
    known = [await env[Clients].by_client_id(one) for one in ids]
    return {one.client_id: f"/clients/{one.id}" for one in known if one}


async def _webhooks(env: Environment, ids: set[str]) -> Paths:
    known = {str(one.id) for one in await env[Webhooks].all()}
    return {one: f"/webhooks/{one}" for one in ids & known}


async def _invitations(_env: Environment, ids: set[str]) -> Paths:
    return dict.fromkeys(ids, "/users/invitations")


_PAGES_OF: dict[str, tuple[str, Callable[[Environment, set[str]], Awaitable[Paths]]]] = {
    "user": ("admin", _users),
    "account": ("admin", _users),
    "product": ("read:products", _products),
    "api_key": ("admin", _keys),
    "client": ("admin", _clients),
    "webhook": ("admin", _webhooks),
    "invitation": ("admin", _invitations),
}
"""By kind: the scope that its pages need, and how they are found."""


PAGES = (PageRoute("GET", "/events", show), PageRoute("GET", "/events/{id}", show_one))


def by_noun(types: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Event types grouped by kind of resource: its title, then all of a noun (`user.*`) if it has
    several types, then each type."""
    groups: dict[str, list[str]] = {}
    for noun, names in groupby(types, lambda name: name.partition(".")[0]):
        listed = list(names)
        every = [f"{noun}.*"] if len(listed) > 1 else []
        groups.setdefault(_title(noun), []).extend([*every, *listed])
    return list(groups.items())


def _title(noun: str) -> str:
    path = noun.replace("_", "-")
    titles = {kind.path: kind.title for kind in RESOURCES}
    return titles.get(path) or titles.get(f"{path}s") or noun.capitalize()
