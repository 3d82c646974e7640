"""The query parameters of every list."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from portico.core.errors import BrokenRule, Fault
from portico.core.ids import MAX_ID, whole_number
from portico.core.rules import OneOf
from portico.web import json_schema
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
