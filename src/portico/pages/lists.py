"""Lists that pages are come to from, and lead back to as they were: searched, filtered, turned to a
page. Addresses and forms have their query as `list`."""

from collections.abc import Collection
from urllib.parse import parse_qsl, urlencode

from portico.pages.site import Visit


def back_to_list(visit: Visit, filters: Collection[str]) -> dict[str, str]:
    """The query of the list that somebody came from, without what is none of its `filters`."""
    return {name: value for name, value in parse_qsl(visit.sent("list")) if name in filters}


def list_of(visit: Visit, filters: Collection[str]) -> dict[str, str]:
    """The same as a parameter for the address, or the form, of what is in the list."""
    query = urlencode(back_to_list(visit, filters))
    return {"list": query} if query else {}
