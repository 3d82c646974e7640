"""Lists in numbered pages."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar
from urllib.parse import urlencode

from portico.pages.site import Visit
from portico.storage.listing import Page

T = TypeVar("T")

PER_PAGE = 25
_FARTHEST = 10**7
"""Of more pages, no database counts the rows before."""


def offset_of(page: int) -> int:
    """How many rows come before a page."""
    return (page - 1) * PER_PAGE


async def page_of(visit: Visit, on: Callable[[int], Awaitable[Page[T]]]) -> tuple[int, Page[T]]:
    """The number of the page that the address asks for, 1 where it asks for none, and what is `on`
    it: a page after the last is the last."""
    number = min(max(visit.sent_number("page") or 1, 1), _FARTHEST)
    found = await on(number)
    if found.rows or number == 1:
        return number, found
    total = found.total or (await on(1)).total  # some lists count nothing beyond their end
    last = max(pages_of(total), 1)
    return last, await on(last)


def numbered(page: int, total: int, **filters: str) -> dict[str, Any]:
    """What the template `paging.html` asks for; `filters` stand in each page's address."""
    return {
        "page": page,
        "last": pages_of(total),
        "query": lambda number: urlencode({**filters, "page": number}),
    }


def pages_of(total: int) -> int:
    """How many pages so many rows fill."""
    return -(-total // PER_PAGE)
