"""Identifiers in paths."""

import re

from portico.core.errors import NotFound

MAX_ID = 2**63 - 1

_DECIMAL = re.compile(r"[1-9][0-9]{0,18}")
_DIGITS = re.compile(r"[0-9]{1,19}")


def parse_id(text: str) -> int:
    """Reads an id, 1…2^63-1 in plain decimal. Raises `NotFound` for anything else."""
    if _DECIMAL.fullmatch(text) is None or (number := int(text)) > MAX_ID:
        raise NotFound("There is no resource with this id.")
    return number


def whole_number(text: str) -> int | None:
    """The number that these ASCII digits write, perhaps with zeros before it; None for any other
    text, and for a number above `MAX_ID`."""
    number = int(text) if _DIGITS.fullmatch(text) else None
    return None if number is None or number > MAX_ID else number
