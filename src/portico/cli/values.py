"""What the text of an argument means. Loaded with the first value that is read."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any

from portico.domain.errors import BrokenRule, NotFound
from portico.domain.ids import parse_id
from portico.domain.networks import ANYWHERE
from portico.domain.text import text_fault

SESSION, LOGIN = "session", "login"
MAX_LIMIT = 1_000_000_000
"""The longest list that may be asked for: databases can count one more."""


def kept(rule: Callable[[str], Any], text: str) -> Any:
    """The value of a text that keeps a rule of the domain."""
    if fault := text_fault(text):
        raise ArgumentTypeError(fault)
    try:
        return rule(text)
    except BrokenRule as error:
        raise ArgumentTypeError(str(error)) from None


def limit(text: str) -> int:
    """How many entries of a list are shown at most."""
    message = f"must be a number from 1 to {MAX_LIMIT}"
    number = _number(text, message)
    if number > MAX_LIMIT:
        raise ArgumentTypeError(message)
    return number


def key_id(text: str) -> int:
    """The id of an API key."""
    return _number(text, "must be the number of a key")


def row_id(text: str) -> int:
    """The id of whatever a list shows."""
    return _number(text, "must be a number from the list")


def event_id(text: str) -> int:
    """The id of an event, or 0 for before the first."""
    return 0 if text == "0" else _number(text, "must be the id of an event, or 0")


def forward_url(text: str) -> str:
    """Where events may be forwarded from one's own machine: anywhere."""
    return str(kept(ANYWHERE.check_url, text))


def session_id(text: str) -> tuple[str, int]:
    """The kind and the id of a session or a login."""
    message = f"must be {SESSION}-N or {LOGIN}-N"
    kind, _, row_id = text.partition("-")
    if kind not in (SESSION, LOGIN):
        raise ArgumentTypeError(message)
    return kind, _number(row_id, message)


def _number(text: str, message: str) -> int:
    try:
        return parse_id(text)
    except NotFound:
        raise ArgumentTypeError(message) from None
