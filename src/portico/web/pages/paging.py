"""Lists in numbered pages."""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from portico.data.listing import Page
from portico.web.pages.site import Visit

T = TypeVar("T")

PER_PAGE = 25
SIZES = (PER_PAGE, 50, 100)
"""How many rows a page may have, where that can be chosen."""
_FARTHEST = 10**7
"""The largest page number that is looked up; beyond it, an offset might not fit into an integer."""


def offset_of(page: int, size: int = PER_PAGE) -> int:
    """The number of rows before a page of so many rows."""
    return (page - 1) * size


async def page_of(
    visit: Visit, on: Callable[[int], Awaitable[Page[T]]], size: int = PER_PAGE
) -> tuple[int, Page[T]]:
    """The number of the page that the query asks for, 1 by default, and its `size` rows, looked up
    by `on`. A number beyond the last page gives the last page."""
    number = min(max(visit.sent_number("page") or 1, 1), _FARTHEST)
    found = await on(number)
    if found.rows or number == 1:
        return number, found
    total = found.total or (await on(1)).total  # some lists count no rows beyond their end
    last = max(pages_of(total, size), 1)
    return last, await on(last)


def numbered(page: int, total: int, **filters: str) -> dict[str, Any]:
    """The variables of the template `paging.html`. `filters` that are not empty become part of each
    page's address; `this_page` is the query of this one."""
    filters = {name: text for name, text in filters.items() if text}
    return {
        "page": page,
        "last": pages_of(total),
        "filters": filters,
        "this_page": urlencode({**filters, "page": page}),
    }


def sort_of(visit: Visit, columns: Collection[str]) -> tuple[str, str] | None:
    """The column that was chosen to sort a list by, and whether `asc` or `desc`, if one was."""
    sort, order = visit.sent("sort"), visit.sent("order")
    return (sort, order if order == "asc" else "desc") if sort in columns else None


def pages_of(total: int, size: int = PER_PAGE) -> int:
    """The number of pages for so many rows."""
    return -(-total // size)


def back_to_list(visit: Visit, filters: Collection[str]) -> dict[str, str]:
    """The query of the list that the user came from, limited to its `filters`."""
    return {name: value for name, value in parse_qsl(visit.sent("list")) if name in filters}


def list_of(visit: Visit, filters: Collection[str]) -> dict[str, str]:
    """The same as a `list` parameter for an address or a form; empty if there is none."""
    query = urlencode(back_to_list(visit, filters))
    return {"list": query} if query else {}
