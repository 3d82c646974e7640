"""Colours on a terminal (https://no-color.org)."""

import os
from typing import TextIO

RESET, DIM, CYAN, GREEN, YELLOW, RED = (
    f"\x1b[{code}m" for code in ("0", "2", "36", "32", "33", "31")
)


def in_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows colours."""
    plainly = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return stream.isatty() and not plainly


def painted(colour: str, text: str, stream: TextIO, *, as_json: bool = False) -> str:
    """A text in a colour if `stream` shows colours and the command prints no JSON."""
    return f"{colour}{text}{RESET}" if not as_json and in_colour(stream) else text
