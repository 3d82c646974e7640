"""Parsers of argument values. Loaded when the first such value is read."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from typing import Any

from portico.domain.errors import BrokenRule, NotFound
from portico.domain.ids import parse_id
from portico.domain.networks import ANYWHERE
from portico.domain.text import text_fault

SESSION, LOGIN = "session", "login"
MAX_LIMIT = 1_000_000_000
"""The largest `--limit`: databases can still count to one more."""


def apply_rule(rule: Callable[[str], Any], text: str) -> Any:
    """The value that a domain rule makes of the text. Raises `ArgumentTypeError` if it breaks the
    rule or cannot be stored as text."""
    if fault := text_fault(text):
        raise ArgumentTypeError(fault)
    try:
        return rule(text)
    except BrokenRule as error:
        raise ArgumentTypeError(str(error)) from None


def limit(text: str) -> int:
    """The maximum number of list entries to show."""
    message = f"must be a number from 1 to {MAX_LIMIT}"
    number = _number(text, message)
    if number > MAX_LIMIT:
        raise ArgumentTypeError(message)
    return number


def key_id(text: str) -> int:
    """The id of an API key."""
    return _number(text, "must be the number of a key")


def row_id(text: str) -> int:
    """The id of a row in a list."""
    return _number(text, "must be a number from the list")


def event_id(text: str) -> int:
    """The id of an event, or 0, which is before the first one."""
    return 0 if text == "0" else _number(text, "must be the id of an event, or 0")


def forward_url(text: str) -> str:
    """The URL to forward events to: any address, since this runs on the user's own machine."""
    return str(apply_rule(ANYWHERE.check_url, text))


def session_id(text: str) -> tuple[str, int]:
    """The kind and id of a session or login, from `session-N` or `login-N`."""
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
