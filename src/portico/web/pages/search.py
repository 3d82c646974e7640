"""The search over everything: the dashboard's pages and the records of every kind, as far as the
user may see them. `search.js` shows the same page as a dialog."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from portico.core.ids import whole_number
from portico.environment import Environment
from portico.web.messages import Reply
from portico.web.pages.site import PageRoute, Visit

MOST = 5
"""How many records of each kind are found."""

_LONGEST = 200

Hits = Mapping[str, tuple[str, int]]
"""Names and ids (0 for none) by the path of the page."""


class Searched(NamedTuple):
    """A kind whose records are found: the title and path of its list, and the scope to read it."""

    title: str
    path: str
    scope: str
    get: Callable[[Environment, int], Awaitable[Any]]
    """The record with an id, or None."""
    search: Callable[[Environment, str, int], Awaitable[Sequence[Any]]]
    """The first so many records that the kind's own search finds for a text."""
    label: Callable[[Any], str]
    """What a record is called."""

    async def hits(self, env: Environment, text: str) -> Hits:
        """The record that has the text as its id, then those that match."""
        number = whole_number(text)
        own = None if number is None else await self.get(env, number)
        rows = [*([own] if own else []), *await self.search(env, text, MOST)]
        return {f"{self.path}/{row.id}": (self.label(row), row.id) for row in rows}


async def _show(kinds: Sequence[Searched], visit: Visit) -> Reply:
    text = visit.sent("q").strip()[:_LONGEST]
    pages = {
        path: (section.name, 0)
        for sections in visit.menu.values()
        for path, section in sections.items()
        if text.casefold() in section.name.casefold()
    }
    scopes = visit.request.caller.scopes
    asked = [kind for kind in kinds if text and kind.scope in scopes]
    found = [(kind.title, await kind.hits(visit.env, text)) for kind in asked]
    return visit.page("search.html", "Search", text=text, found=[("Pages", pages), *found])


def search_page(kinds: Sequence[Searched]) -> PageRoute:
    """GET /search: what `q` finds, or all pages."""
    return PageRoute("GET", "/search", partial(_show, kinds))
