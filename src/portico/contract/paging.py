"""The query parameters of every list."""

from typing import Annotated

from portico.contract.reading import Param
from portico.domain.errors import BrokenRule
from portico.domain.rules import OneOf

LAST_PAGE = 2**63 - 1
LARGEST_LIMIT = 100
_DIGITS = len(str(LAST_PAGE))


def _whole(text: str, most: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS or not 1 <= int(text) <= most:
        raise BrokenRule(f"must be a whole number from 1 to {most}")
    return int(text)


def _page(text: str) -> int:
    return _whole(text, LAST_PAGE)


def _limit(text: str) -> int:
    return _whole(text, LARGEST_LIMIT)


UserId = Annotated[int | None, Param(_page, type="integer", minimum=1, maximum=LAST_PAGE)]
PageNumber = Annotated[int, Param(_page, type="integer", minimum=1, maximum=LAST_PAGE)]
Limit = Annotated[int, Param(_limit, type="integer", minimum=1, maximum=LARGEST_LIMIT)]


def choice(*allowed: str) -> Param:
    """A parameter that is one of a few words."""
    return Param(OneOf(allowed), type="string")
