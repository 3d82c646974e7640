"""Pages of lists, by page number or by the cursor of the next page (decisions §15).

A cursor contains the row after which its page begins, and is bound to the list and its filters. It
is encrypted, since that row may contain a person's name, which does not belong in a URL.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec

from portico.core.errors import BrokenRule, Fault, unreadable
from portico.core.ids import MAX_ID, whole_number
from portico.core.rules import OneOf
from portico.core.secrets import base64url, from_base64url
from portico.data.listing import Keyset, Page
from portico.data.vault import Vault
from portico.web import json_schema
from portico.web.envelope import listed
from portico.web.messages import QueryRequest, Reply, TypedRequest, json_reply
from portico.web.reading import Param

LAST_PAGE = MAX_ID
LARGEST_LIMIT = 100
LONGEST_CURSOR = 2_000


def _whole(text: str, most: int) -> int:
    if not 1 <= (number := whole_number(text) or 0) <= most:
        raise BrokenRule(f"must be a whole number from 1 to {most}")
    return number


def _page(text: str) -> int:
    return _whole(text, LAST_PAGE)


def _limit(text: str) -> int:
    return _whole(text, LARGEST_LIMIT)


UserId = Annotated[int | None, Param(_page, type="integer", minimum=1, maximum=MAX_ID)]
PageNumber = Annotated[
    int,
    Param(
        _page,
        type="integer",
        minimum=1,
        maximum=LAST_PAGE,
        description="Counted from 1, which is also the default; not together with `cursor`.",
    ),
]
Limit = Annotated[int, Param(_limit, type="integer", minimum=1, maximum=LARGEST_LIMIT)]


def _cursor(text: str) -> str:
    if len(text) > LONGEST_CURSOR or not text.isascii():
        raise BrokenRule("must be from the Link header of a page of this list")
    return text


class ListQuery(msgspec.Struct, frozen=True):
    """The query parameters of every list."""

    page: PageNumber = 1
    limit: Limit = 25
    cursor: Annotated[
        str | None,
        Param(
            _cursor,
            type="string",
            maxLength=LONGEST_CURSOR,
            pattern=json_schema.ASCII,
            description="Where the page begins, instead of `page`. It comes from the `Link` header"
            " of the previous page, and is equally fast for all pages.",
        ),
    ] = None

    @staticmethod
    def across(values: Mapping[str, Any]) -> list[Fault]:
        """Faults that involve several parameters."""
        if "page" in values and "cursor" in values:
            return [Fault("cursor", "must not be sent together with page")]
        return []


def choice(*allowed: str) -> Param:
    """A parameter that is one of a few words."""
    return Param(OneOf(allowed), type="string")


Q = TypeVar("Q", bound=ListQuery)
T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)


class Start(NamedTuple):
    """Where a page begins: after the keyset `behind` if there is one, else after `offset` rows."""

    page: int
    offset: int
    behind: Keyset | None


def start_of(request: QueryRequest[Q]) -> Start:
    """Where the requested page begins. Raises `Unreadable`."""
    query = request.query
    if query.cursor is None:
        return Start(query.page, (query.page - 1) * query.limit, None)
    concealed = _decoded(query.cursor)
    text = concealed and request.environment[Vault].reveal(concealed, _name(request))
    if not text:
        message = "must be from the Link header of a page of this list, with the same filters"
        raise unreadable(Fault("cursor", message))
    page, *keyset = msgspec.json.decode(text)
    return Start(page, 0, tuple(keyset))


def list_reply(
    request: QueryRequest[Q], path: str, start: Start, page: Page[R], items: Sequence[T]
) -> Reply:
    """The answer with a page of the list at `path`, and a link to the next page."""
    limit, total = request.query.limit, page.total
    body = listed(list(items), page=start.page, limit=limit, total=total, exact=page.exact)
    if page.next is None:
        return json_reply(200, body)
    text = msgspec.json.encode([start.page + 1, *page.next])
    concealed = request.environment[Vault].conceal(text, _name(request))
    cursor = base64url(concealed)
    return json_reply(200, body, next_link(request, path, cursor=cursor))


def next_link(request: TypedRequest[Any, Any], path: str, **begins: str) -> tuple[str, str]:
    """The header `Link` to the next page (RFC 8288). `begins` has the parameters that say where it
    begins; the request's filters are added."""
    asked = parse_qsl(request.query_string, keep_blank_values=True)
    others = [(name, value) for name, value in asked if name not in ("page", *begins)]
    address = f"{request.environment.addresses.base}{path}"
    return "link", f'<{address}?{urlencode([*others, *begins.items()])}>; rel="next"'


def _decoded(cursor: str) -> bytes | None:
    """The bytes of a cursor, None unless it is their canonical encoding."""
    try:
        concealed = from_base64url(cursor)
    except ValueError:
        return None
    return concealed if base64url(concealed) == cursor else None


def _name(request: QueryRequest[Q]) -> str:
    """What a cursor is bound to: the environment, the list and its filters."""
    filters = msgspec.structs.replace(request.query, page=1, limit=1, cursor=None)
    return f"{request.environment.name} {request.path} {msgspec.json.encode(filters).decode()}"
