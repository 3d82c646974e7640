"""The rules for most fields, as values: called with the input, a rule returns the value to store or
raises `BrokenRule`. Descriptions of a field read its bounds from its rule."""

from collections.abc import Sequence

import msgspec

from portico.core.errors import BrokenRule
from portico.core.text import measured, trimmed


class Measured(msgspec.Struct, frozen=True):
    """Text of `low` to `high` characters, stored unchanged."""

    low: int
    high: int

    def __call__(self, text: str) -> str:
        return measured(text, self.low, self.high)


class Trimmed(msgspec.Struct, frozen=True):
    """Text of `low` to `high` characters without the white space around it."""

    low: int
    high: int

    def __call__(self, text: str) -> str:
        return trimmed(text, self.low, self.high)


class OneOf(msgspec.Struct, frozen=True):
    """One of these words."""

    words: Sequence[str]

    def __call__(self, text: str) -> str:
        if text not in self.words:
            raise BrokenRule(f"must be one of {', '.join(self.words)}")
        return text


class Between(msgspec.Struct, frozen=True):
    """A whole number from `low` to `high`."""

    low: int
    high: int

    def __call__(self, value: int) -> int:
        if not self.low <= value <= self.high:
            raise BrokenRule(f"must be from {self.low} to {self.high}")
        return value


MAX_METADATA_KEYS = 50
metadata_key = Measured(1, 100)
metadata_value = Measured(0, 1_000)
