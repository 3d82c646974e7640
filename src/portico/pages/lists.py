"""Links back to a list as it was: its search, filters and page. Addresses and forms carry the
list's query as `list`."""

from collections.abc import Collection
from urllib.parse import parse_qsl, urlencode

from portico.pages.site import Visit


def back_to_list(visit: Visit, filters: Collection[str]) -> dict[str, str]:
    """The query of the list that the user came from, limited to its `filters`."""
    return {name: value for name, value in parse_qsl(visit.sent("list")) if name in filters}


def list_of(visit: Visit, filters: Collection[str]) -> dict[str, str]:
    """The same as a `list` parameter for an address or a form; empty if there is none."""
    query = urlencode(back_to_list(visit, filters))
    return {"list": query} if query else {}
