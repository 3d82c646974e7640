"""Lists that pages are come to from, and lead back to as they were: searched, filtered, turned to a
page. Addresses and forms have their query as `list`."""

from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar
from urllib.parse import parse_qsl, urlencode

from portico.pages.site import Visit
from portico.storage.listing import Page

T = TypeVar("T")

_MOST_PAGES = 10**7
"""Of more, no database counts the rows before."""


def back_to_list(visit: Visit, filters: Collection[str]) -> dict[str, str]:
    """The query of the list that somebody came from, without what is none of its `filters`."""
    return {name: value for name, value in parse_qsl(visit.sent("list")) if name in filters}


def list_of(visit: Visit, filters: Collection[str]) -> dict[str, str]:
    """The same as a parameter for the address, or the form, of what is in the list."""
    query = urlencode(back_to_list(visit, filters))
    return {"list": query} if query else {}


async def page_of(
    visit: Visit, on: Callable[[int], Awaitable[Page[T]]], per_page: int
) -> tuple[int, Page[T]]:
    """The number of the page that the address asks for, and what is `on` it: a page after the last
    is the last."""
    number = min(max(visit.sent_number("page") or 1, 1), _MOST_PAGES)
    found = await on(number)
    if found.rows or number == 1:
        return number, found
    total = found.total or (await on(1)).total  # some lists count nothing beyond their end
    last = max(-(-total // per_page), 1)
    return last, await on(last)
