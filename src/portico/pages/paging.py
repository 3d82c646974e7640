"""Lists in numbered pages."""

from typing import Any
from urllib.parse import urlencode

from portico.pages.site import Visit

PER_PAGE = 25
_FARTHEST = 10**7


def page_asked(visit: Visit) -> int:
    """The number of the page that the address asks for, 1 where it asks for none."""
    return max(min(visit.sent_number("page") or 1, _FARTHEST), 1)


def offset_of(page: int) -> int:
    """How many rows come before a page."""
    return (page - 1) * PER_PAGE


def numbered(page: int, total: int) -> dict[str, Any]:
    """What the template `paging.html` asks for, where a page's number is the whole query."""
    return {
        "page": page,
        "last": -(-total // PER_PAGE),
        "query": lambda number: urlencode({"page": number}),
    }
